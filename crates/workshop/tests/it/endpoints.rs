//! Test fixture: remote stores. The example in Python, and endpoints whose answers a test decides.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::response::Response;
use errand::Errand;
use http::HeaderMap;
use ledger::{Ledger, SkillSettingsChange, StoreKind};
use posthouse_time::Timepiece;
use posthouse_wire::{Secret, TenantId};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;
use vault::{Algorithm, MasterKeys, Vault, WebhookSigner};
use workshop::{Metrics, RemoteDataStore, RemoteSkillStore, RemoteStores};

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
pub const STORE_SECRET: &str = "the-secret-of-the-store";

/// The example in Python, with an empty file.
pub struct PythonStore {
    child: Child,
    pub url: String,
    _folder: TempDir,
}

impl PythonStore {
    pub fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/store.py");
        let mut child = Command::new("python3")
            .arg(example)
            .arg(folder.path().join("store.db"))
            .arg("0")
            .env("POSTHOUSE_STORE_SECRET", STORE_SECRET)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().strip_prefix("listening on ").unwrap();
        Self { url: format!("http://127.0.0.1:{port}"), child, _folder: folder }
    }
}

impl Drop for PythonStore {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An endpoint whose answers a test decides.
pub struct ScriptedEndpoint {
    pub url: String,
    pub calls: Arc<AtomicUsize>,
}

impl ScriptedEndpoint {
    pub async fn start<F, A>(answer: F) -> Self
    where
        F: Fn(HeaderMap, Value) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = Response> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/store", listener.local_addr().unwrap());
        let calls = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&calls);
        let handler = move |headers: HeaderMap, body: Bytes| {
            counted.fetch_add(1, Ordering::SeqCst);
            answer(headers, serde_json::from_slice(&body).unwrap_or(Value::Null))
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(handler)).await });
        Self { url, calls }
    }

    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// Remote stores over a ledger.
pub struct RemoteFixture {
    ledger: Ledger,
    signer: WebhookSigner,
    pub stores: RemoteStores,
}

impl RemoteFixture {
    pub async fn open(ledger: &Ledger, clock: &Timepiece) -> Self {
        Self::open_with(ledger, clock, errand::Config::loopback()).await
    }

    pub async fn open_with(ledger: &Ledger, clock: &Timepiece, config: errand::Config) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let (tokens, facts) = (ledger.tokens(), ledger.facts());
        let vault = Vault::unlock(keys, ledger.vault(), tokens, &*facts, clock.clone()).await.unwrap();
        let signer = vault.webhook_signer(&vault.signer(Algorithm::Es256).await.unwrap());
        let metrics = Arc::<Metrics>::default();
        let stores = RemoteStores::new(Errand::new(config), signer.clone(), metrics, clock.clone());
        Self { ledger: ledger.clone(), signer, stores }
    }

    /// Sets this URL and secret for both stores of a tenant.
    pub async fn point(&self, tenant: &TenantId, url: &str, secret: &str) {
        let (store, data_store) = (Some(url.to_owned()), Some(url.to_owned()));
        let mut change = SkillSettingsChange { store, data_store, ..SkillSettingsChange::default() };
        for kind in [StoreKind::Skills, StoreKind::Data] {
            let sealed = self.signer.seal_for_store(tenant, kind, None, Some(&Secret::new(secret)));
            change.secrets.extend(sealed.unwrap());
        }
        assert!(self.ledger.skill_approval().change_skill_settings(tenant, change).await.unwrap());
    }

    pub async fn skills(&self, tenant: &TenantId, url: &str) -> RemoteSkillStore {
        self.point(tenant, url, STORE_SECRET).await;
        self.stores.skills(tenant, url)
    }

    pub async fn data(&self, tenant: &TenantId, url: &str) -> RemoteDataStore {
        self.point(tenant, url, STORE_SECRET).await;
        self.stores.data(tenant, url)
    }
}
