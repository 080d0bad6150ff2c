//! A vault, its ledger and its clock.

use std::time::Duration;

use ledger::{ConnectorRecord, Created, Generation, Instance, Ledger, Location, Tenant};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{ConnectorId, InstanceId, Secret};
use vault::{Algorithm, Credentials, Fault, MasterKeys, Vault, WebhookSigner};

pub const START: Moment = Moment::from_seconds(1_765_000_000);

pub struct Safe {
    pub vault: Vault,
    pub ledger: Ledger,
    pub clock: Timepiece,
}

impl Safe {
    pub async fn open() -> Self {
        Self::open_at(Location::Memory, &MasterKeys::generate().unwrap()).await
    }

    pub async fn open_at(place: Location, keys: &Secret) -> Self {
        let clock = Timepiece::wound(START);
        let ledger = Ledger::open(place, clock.clone()).await.unwrap();
        let vault = unlock(&ledger, &clock, keys).await.unwrap();
        Self { vault, ledger, clock }
    }

    /// Closes the vault and opens it with these keys; the ledger stays.
    pub async fn unlocks_with(&self, keys: &Secret) -> Result<Vault, Fault> {
        unlock(&self.ledger, &self.clock, keys).await
    }

    pub async fn enrols(&self, tenant: &str, name: &str) -> InstanceId {
        let created = self.clock.now();
        let roster = self.ledger.roster();
        let id = format!("ten_{tenant}").into();
        roster.create_tenant(Tenant { id, name: tenant.to_owned(), created }).await.unwrap();
        let instance = Instance {
            id: format!("inst_{tenant}_{name}").into(),
            tenant: format!("ten_{tenant}").into(),
            name: name.to_owned(),
            wake_url: None,
            callback_url: None,
            generation: Generation::Auto,
            idle: false,
            created,
        };
        let id = instance.id.clone();
        roster.create_instance(instance).await.unwrap();
        id
    }

    /// Makes a connector of a tenant that is there.
    pub async fn connects(&self, tenant: &str, name: &str) -> ConnectorId {
        let id = ConnectorId::from(format!("con_{tenant}_{name}"));
        let record = ConnectorRecord {
            id: id.clone(),
            tenant: format!("ten_{tenant}").into(),
            name: name.to_owned(),
            kind: "webhook".to_owned(),
            settings: "{}".to_owned(),
            created: self.clock.now(),
        };
        assert_eq!(
            self.ledger.connectors().create_connector(record, Vec::new()).await.unwrap(),
            Created::Made
        );
        id
    }

    pub async fn webhook_signer(&self) -> WebhookSigner {
        webhook_signer(&self.vault).await
    }

    pub fn winds(&self, by: Duration) {
        self.clock.wind(by);
    }
}

pub async fn webhook_signer(vault: &Vault) -> WebhookSigner {
    vault.webhook_signer(&vault.signer(Algorithm::Es256).await.unwrap())
}

async fn unlock(ledger: &Ledger, clock: &Timepiece, keys: &Secret) -> Result<Vault, Fault> {
    Vault::unlock(MasterKeys::read(keys)?, ledger.vault(), ledger.tokens(), &*ledger.facts(), clock.clone())
        .await
}

pub fn credentials(pairs: &[(&str, &str)]) -> Credentials {
    let mut credentials = Credentials::default();
    for (name, secret) in pairs {
        credentials.insert(name, Secret::new(*secret));
    }
    credentials
}

/// The text of a secret that should be there.
pub async fn kept(vault: &Vault, bot: &str, name: &str) -> Option<String> {
    let all = vault.credentials(&"telegram".into(), &bot.into()).await.unwrap();
    all.get(name).map(|secret| secret.expose().to_owned())
}

pub const fn minutes(count: u64) -> Duration {
    Duration::from_secs(count * 60)
}

pub const fn hours(count: u64) -> Duration {
    minutes(count * 60)
}
