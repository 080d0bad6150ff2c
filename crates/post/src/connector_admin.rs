//! Connector administration: create, check and remove connectors of a tenant.

use std::sync::Arc;
use std::time::Duration;

use identity::RosterView;
use ledger::{ConnectorRecord, Connectors, Created, Removed};
use posthouse_time::{TimedOut, Timepiece};
use posthouse_wire::delivery::AgentDescriptor;
use posthouse_wire::id::is_name;
use posthouse_wire::{ConnectorId, Secret, TenantId};
use serde_json::Value;
use vault::WebhookSigner;

use crate::connector::relay::RELAY;
use crate::connector::{AgentConnector, Capabilities, ConnectorBuilder};
use crate::{ConnectorNotCreated, Refused};

/// Time limit of a health check, because an operator waits for its result.
const LOOKED_WITHIN: Duration = Duration::from_secs(30);

/// Secrets of a connector. They are encrypted when the connector is created.
#[derive(Clone, Default)]
pub struct ConnectorSecrets {
    pub authorization: Option<Secret>,
    pub hmac_secret: Option<Secret>,
}

/// ConnectorHealth and description of a connector.
#[derive(Clone, Debug)]
pub struct ConnectorHealth {
    /// `None` if no health check was made.
    pub healthy: Option<bool>,
    /// Why it is not healthy, for the operator.
    pub why: Option<String>,
    pub capabilities: Capabilities,
    /// The agents that it lists. Empty if no health check was made.
    pub agents: Vec<AgentDescriptor>,
}

/// Creates, checks and removes the connectors of tenants.
pub struct ConnectorAdmin {
    records: Arc<dyn Connectors>,
    webhook_signer: WebhookSigner,
    builder: ConnectorBuilder,
    roster: RosterView,
    timepiece: Timepiece,
}

impl ConnectorAdmin {
    pub(crate) fn new(records: Arc<dyn Connectors>, builder: ConnectorBuilder) -> Self {
        let (roster, webhook_signer) = (builder.agents.clone(), builder.webhook_signer.clone());
        let timepiece = builder.timepiece.clone();
        Self { records, webhook_signer, builder, roster, timepiece }
    }

    /// The stored connectors, aliases and permissions. Call [`ConnectorAdmin::changed`] after a change.
    pub fn records(&self) -> &Arc<dyn Connectors> {
        &self.records
    }

    /// Announces that connectors, aliases or permissions of a tenant have changed.
    pub fn changed(&self, tenant: &TenantId) {
        self.roster.tenant_changed(tenant);
    }

    /// Creates a connector. An unhealthy one is refused unless `force` is set.
    pub async fn create(
        &self,
        tenant: &TenantId,
        name: &str,
        kind: &str,
        settings: Value,
        secrets: ConnectorSecrets,
        force: bool,
    ) -> Result<ConnectorRecord, ConnectorNotCreated> {
        let malformed = |field: &str, why: &str| ConnectorNotCreated::Malformed {
            field: field.to_owned(),
            why: why.to_owned(),
        };
        if !is_name(name) {
            return Err(malformed("name", "must be 1 to 64 letters, digits, `.`, `_` or `-`"));
        }
        if name == RELAY {
            return Err(ConnectorNotCreated::Taken);
        }
        if kind != "webhook" && (secrets.authorization.is_some() || secrets.hmac_secret.is_some()) {
            return Err(malformed("authorization", "and `hmac_secret` are allowed only for a webhook"));
        }
        let now = self.timepiece.now();
        let id = ConnectorId::mint(now.millis());
        let connector = self.builder.build(tenant, &id, kind, &settings)?;
        if !force && let Err(why) = self.diagnose(&*connector).await {
            return Err(ConnectorNotCreated::Unhealthy(format!("{kind} `{name}`, {why}")));
        }
        let record = ConnectorRecord {
            id,
            tenant: tenant.clone(),
            name: name.to_owned(),
            kind: kind.to_owned(),
            settings: settings.to_string(),
            created: now,
        };
        let ConnectorSecrets { authorization, hmac_secret } = &secrets;
        let sealed = self.webhook_signer.seal(&record.id, authorization.as_ref(), hmac_secret.as_ref());
        let sealed = sealed.map_err(|why| match why {
            vault::Fault::Unfit(why) => {
                malformed("authorization", &format!("or `hmac_secret` cannot be used: {why}"))
            }
            why => ConnectorNotCreated::Fault(why.into()),
        })?;
        let created = self.records.create_connector(record.clone(), sealed).await;
        match created.map_err(|fault| ConnectorNotCreated::Fault(fault.into()))? {
            Created::Made => {}
            Created::Taken => return Err(ConnectorNotCreated::Taken),
            Created::Unfit(why) => return Err(malformed("tenant", why)),
        }
        self.changed(tenant);
        tracing::info!(tenant.id = %tenant, connector = name, kind, "connector created");
        Ok(record)
    }

    /// Which secrets a connector has, without their values.
    pub async fn secrets_of(&self, of: &ConnectorId) -> Result<vault::SecretPresence, Refused> {
        Ok(self.webhook_signer.held(of).await?)
    }

    /// Runs the health check that creating the connector would run.
    pub async fn check(&self, tenant: &TenantId, name: &str) -> Result<ConnectorHealth, Refused> {
        let connector = match self.records.connector(tenant, name).await? {
            _ if name == RELAY => self.builder.relay(tenant),
            Some(record) => self.builder.rebuild(&record),
            None => return Err(Refused::Absent),
        };
        let found = self.diagnose(&*connector).await;
        Ok(ConnectorHealth {
            healthy: Some(found.is_ok()),
            why: found.err(),
            capabilities: Capabilities::of(&*connector),
            agents: connector.list_agents().await.unwrap_or_default(),
        })
    }

    /// Describes a connector without contacting its receivers: only whether it can be opened.
    pub fn describe(&self, record: &ConnectorRecord) -> ConnectorHealth {
        let connector = self.builder.rebuild(record);
        let why = connector.barred().map(str::to_owned);
        ConnectorHealth {
            healthy: why.as_ref().map(|_| false),
            why,
            capabilities: Capabilities::of(&*connector),
            agents: Vec::new(),
        }
    }

    async fn diagnose(&self, connector: &dyn AgentConnector) -> Result<(), String> {
        let found = self.timepiece.within(LOOKED_WITHIN, connector.diagnose()).await;
        found.unwrap_or_else(|TimedOut| {
            Err(format!("the check did not end within {} s", LOOKED_WITHIN.as_secs()))
        })
    }

    /// Removes a connector. False if there is none with this name.
    pub async fn remove(&self, tenant: &TenantId, name: &str) -> Result<bool, Refused> {
        let removed = self.records.remove_connector(tenant, name).await?;
        self.changed(tenant);
        Ok(removed == Removed::Gone)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_connector_is_created_once_checked_and_removed() {
        let fixture = Fixture::open().await;
        let (admin, tenant) = (fixture.connector_admin(), fixture.tenant.clone());
        let create = async |name: &str| {
            let secrets = ConnectorSecrets::default();
            admin.create(&tenant, name, "noop", json!({}), secrets, false).await
        };
        let record = create("pane").await.unwrap();
        assert!(matches!(create("pane").await, Err(ConnectorNotCreated::Taken)));
        assert!(matches!(create("relay").await, Err(ConnectorNotCreated::Taken)), "every tenant has it");
        assert_eq!(admin.describe(&record).healthy, None);
        for name in ["pane", "relay"] {
            assert_eq!(admin.check(&tenant, name).await.unwrap().healthy, Some(true), "{name}");
        }
        assert!(admin.remove(&tenant, "pane").await.unwrap());
        assert!(matches!(admin.check(&tenant, "pane").await, Err(Refused::Absent)));
    }
}
