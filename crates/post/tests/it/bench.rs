//! Fixtures for connector tests: dependencies and payloads.

use std::sync::Arc;

use errand::Errand;
use ledger::{ConnectorRecord, Ledger, Location, Tenant};
use post::Config;
use post::connector::memory::ConnectorMemory;
use post::connector::settings::{self, BadSettings, Tools};
use post::connector::{AgentConnector, ConnectorError, Emission};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{Cause, DeliveryFailed, Payload, PayloadKind, WakeOpts};
use posthouse_wire::{ConnectorId, Secret, TenantId};
use serde_json::{Value, json};
use vault::{MasterKeys, Vault, WebhookSigner};

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/// When everything here happens, in ms: the second of the recorded runs.
pub const NOW: i64 = 1_767_225_600_000;

pub struct Bench {
    pub id: ConnectorId,
    pub errand: Errand,
    pub webhook_signer: WebhookSigner,
    pub time: Timepiece,
    pub config: Config,
}

impl Bench {
    pub async fn open() -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let time = Timepiece::wound(Moment::from_millis(NOW));
        let ledger = Ledger::open(Location::Memory, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let vault = Vault::unlock(keys, ledger.vault(), ledger.tokens(), &*ledger.facts(), time.clone())
            .await
            .unwrap();
        let (id, tenant) = (ConnectorId::new("con_1"), TenantId::new("ten_1"));
        let created = time.now();
        let acme = Tenant { id: tenant.clone(), name: "acme".to_owned(), created };
        ledger.roster().create_tenant(acme).await.unwrap();
        let (name, kind, settings) = ("path".to_owned(), "webhook".to_owned(), "{}".to_owned());
        let record = ConnectorRecord { id: id.clone(), tenant, name, kind, settings, created };
        ledger.connectors().create_connector(record, Vec::new()).await.unwrap();
        let signer = vault.signer(vault::Algorithm::Es256).await.unwrap();
        Self {
            id,
            errand: Errand::new(errand::Config::loopback()),
            webhook_signer: vault.webhook_signer(&signer),
            time,
            config: Config::default(),
        }
    }

    pub fn tools(&self) -> Tools<'_> {
        Tools {
            tenant: "ten_1".into(),
            id: self.id.clone(),
            errand: self.errand.clone(),
            webhook_signer: self.webhook_signer.clone(),
            timepiece: self.time.clone(),
            memory: ConnectorMemory::default(),
            config: &self.config,
        }
    }

    pub fn build(&self, kind: &str, settings: &Value) -> Result<Arc<dyn AgentConnector>, BadSettings> {
        settings::build(kind, settings, self.tools())
    }

    pub fn connector(&self, kind: &str, settings: Value) -> Arc<dyn AgentConnector> {
        self.build(kind, &settings).unwrap_or_else(|bad| panic!("{bad}"))
    }

    pub async fn seal(&self, authorization: Option<&str>, hmac: Option<&str>) {
        let [authorization, hmac] = [authorization, hmac].map(|text| text.map(Secret::new));
        self.webhook_signer.keep(&self.id, authorization.as_ref(), hmac.as_ref()).await.unwrap();
    }
}

/// A payload with this text.
pub fn payload(kind: PayloadKind, dispatch: &str, text: &str) -> Payload {
    let meta = json!({"dispatch_id": dispatch, "sent_at": NOW - 5, "origin": {"skill_name": "probe", "trigger_kind": "cron"}});
    Payload { kind, text: text.to_owned(), meta: serde_json::from_value(meta).unwrap() }
}

pub fn context(text: &str) -> WakeOpts {
    WakeOpts { context: Some(text.to_owned()), ..WakeOpts::default() }
}

pub fn emission(dispatch: &str) -> Emission {
    Emission { dispatch_id: dispatch.into(), sent_at: Moment::from_millis(NOW - 5), from: "probe".to_owned() }
}

/// The operational fault that this must have ended in.
pub fn fault<T: std::fmt::Debug>(outcome: Result<T, ConnectorError>) -> DeliveryFailed {
    match outcome {
        Err(ConnectorError::Failed(failed)) => failed,
        other => panic!("expected a fault, got {other:?}"),
    }
}

/// That it ended in a fault of this kind, and with which words.
pub fn fails<T: std::fmt::Debug>(outcome: Result<T, ConnectorError>, cause: Cause) -> String {
    let failed = fault(outcome);
    assert_eq!(failed.cause_kind, cause, "{failed:?}");
    failed.message
}
