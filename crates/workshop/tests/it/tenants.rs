//! Test fixture: a workshop with two tenants, and their callers.

use std::path::PathBuf;
use std::sync::Arc;

use bus::Bus;
use errand::Errand;
use identity::{Enrolment, Identity};
use ledger::{Ledger, Location, SkillAuditRow, SkillSettingsChange};
use post::{Caller, Callers};
use posthouse_time::Timepiece;
use posthouse_wire::{Secret, TenantId};
use skill::ApprovalSigningKey;
use tempfile::TempDir;
use vault::{Algorithm, MasterKeys, Vault};
use workshop::{Config, CustomStores, Parts, Workshop};

use crate::fixtures::START;

const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// A private key whose content no other file has.
pub const APPROVAL_KEY: &str = "-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f
-----END PRIVATE KEY-----
";
/// Its public half.
pub const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAA6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=
-----END PUBLIC KEY-----
";

pub struct Tenants {
    pub identity: Identity,
    pub workshop: Workshop,
    pub folder: TempDir,
    pub acme: TenantId,
    /// A program of acme.
    pub program: Caller,
    /// An agent of acme.
    pub heron: Caller,
    /// A program of another tenant.
    pub stranger: Caller,
}

impl Tenants {
    pub async fn open() -> Self {
        Self::open_with(CustomStores::default()).await
    }

    pub async fn open_with(custom_stores: CustomStores) -> Self {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let time = Timepiece::wound(START);
        let ledger = Ledger::open(Location::Memory, time.clone()).await.unwrap();
        let keys = MasterKeys::read(&Secret::new(KEY)).unwrap();
        let (tokens, facts) = (ledger.tokens(), ledger.facts());
        let vault = Vault::unlock(keys, ledger.vault(), tokens, &*facts, time.clone()).await.unwrap();
        let errand = Errand::new(errand::Config::loopback());
        let parts = identity::Parts::over(&ledger, vault.keyring(), Bus::local(), errand, time.clone());
        let identity = Identity::new(parts);
        let signer = vault.signer(Algorithm::Es256).await.unwrap();
        let create =
            async |name: &str| identity.accounts.create_tenant(name).await.unwrap().unwrap().unwrap().id;
        let (acme, globex) = (create("acme").await, create("globex").await);
        let enrolment = Enrolment {
            tenant: acme.to_string(),
            name: "heron".to_owned(),
            wake_url: None,
            callback_url: None,
            bots: Vec::new(),
            built_in: Vec::new(),
            with_http_credentials: false,
        };
        let heron = identity.accounts.enrol(enrolment).await;
        let heron = heron.unwrap().unwrap().instance;
        let folder = tempfile::tempdir().unwrap();
        let roots = vec![folder.path().canonicalize().unwrap()];
        let workshop = Workshop::new(Parts {
            config: Config { roots, ..Config::default() },
            skills: ledger.skills(),
            approval: ledger.skill_approval(),
            usage: ledger.usage(),
            data: ledger.data(),
            roster: identity.roster.clone(),
            callers: Callers::new(identity.clone(), "X-Agent-Id"),
            errand: Errand::new(errand::Config::loopback()),
            webhook_signer: vault.webhook_signer(&signer),
            custom_stores,
            timepiece: time,
        });
        let program = |tenant: &TenantId| Caller {
            client: format!("tenant:{tenant}").into(),
            tenant: tenant.clone(),
            agent: None,
            attested: None,
        };
        let heron = Caller {
            client: format!("agent:{}", heron.id).into(),
            agent: Some(Arc::new(heron)),
            ..program(&acme)
        };
        let (stranger, program) = (program(&globex), program(&acme));
        Self { identity, workshop, folder, acme, program, heron, stranger }
    }

    pub async fn change(&self, change: SkillSettingsChange) {
        self.workshop.approval_keys().change(&self.acme, change).await.unwrap().unwrap();
    }

    /// An access token of a tenant.
    pub async fn token(&self, of: &TenantId) -> String {
        let granted = self.identity.accounts.operator_access(of).await.unwrap().unwrap();
        granted.access_token.expose().to_owned()
    }

    pub async fn demand_signatures(&self) {
        self.change(SkillSettingsChange { signed: Some(true), ..SkillSettingsChange::default() }).await;
    }

    pub async fn add_key(&self) -> String {
        let added = self.workshop.approval_keys().add(&self.acme, PUBLIC_KEY, Some("ann")).await;
        added.unwrap().unwrap().0
    }

    /// The folder below which stores may be.
    pub fn root(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    /// The audit log of acme, oldest first.
    pub async fn log(&self) -> Vec<SkillAuditRow> {
        let rows = self.workshop.approval_keys().log(&self.acme, None, 100).await.unwrap();
        rows.into_iter().rev().map(|(_, row)| row).collect()
    }
}

pub fn signing_key() -> ApprovalSigningKey {
    ApprovalSigningKey::from_pem(APPROVAL_KEY).unwrap()
}
