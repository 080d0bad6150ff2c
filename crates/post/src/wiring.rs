//! Connector administration: create, check and remove connectors of a tenant.

use std::sync::Arc;
use std::time::Duration;

use ledger::{ConnectorRecord, Created, Removed};
use posthouse_time::Late;
use posthouse_wire::delivery::AgentDescriptor;
use posthouse_wire::id::is_name;
use posthouse_wire::{ConnectorId, Secret, TenantId};
use serde_json::Value;

use crate::connector::relay::RelayConnector;
use crate::connector::settings::{self, Tools};
use crate::connector::{AgentConnector, Capabilities, Undone};
use crate::relay_path::RELAY;
use crate::{Post, Refused, Unmade};

/// Time limit of a health check, because an operator waits for its result.
const LOOKED_WITHIN: Duration = Duration::from_secs(30);

/// Secrets of a connector. They are encrypted when the connector is created.
#[derive(Clone, Default)]
pub struct ConnectorSecrets {
    pub authorization: Option<Secret>,
    pub hmac_secret: Option<Secret>,
}

/// Health and description of a connector.
#[derive(Clone, Debug)]
pub struct Health {
    /// `None` if no health check was made.
    pub healthy: Option<bool>,
    /// Why it is not healthy, for the operator.
    pub why: Option<String>,
    pub capabilities: Capabilities,
    /// The agents that it lists. Empty if no health check was made.
    pub agents: Vec<AgentDescriptor>,
}

impl Post {
    pub(crate) fn tools(&self, tenant: &TenantId, id: &ConnectorId) -> Tools<'_> {
        Tools {
            id: id.clone(),
            tenant: tenant.clone(),
            errand: self.0.errand.clone(),
            webhook_signer: self.0.webhook_signer.clone(),
            timepiece: self.0.timepiece.clone(),
            memory: self.0.memory.clone(),
            config: &self.0.config,
        }
    }

    /// Creates a connector. An unhealthy one is refused unless `force` is set.
    pub async fn make_connector(
        &self,
        tenant: &TenantId,
        name: &str,
        kind: &str,
        settings: Value,
        secrets: ConnectorSecrets,
        force: bool,
    ) -> Result<ConnectorRecord, Unmade> {
        let malformed =
            |field: &str, why: &str| Unmade::Malformed { field: field.to_owned(), why: why.to_owned() };
        if !is_name(name) {
            return Err(malformed("name", "must be 1 to 64 letters, digits, `.`, `_` or `-`"));
        }
        if name == RELAY {
            return Err(Unmade::Taken);
        }
        if kind != "webhook" && (secrets.authorization.is_some() || secrets.hmac_secret.is_some()) {
            return Err(malformed("authorization", "and `hmac_secret` are allowed only for a webhook"));
        }
        let now = self.0.timepiece.now();
        let id = ConnectorId::mint(now.millis());
        let connector = settings::build(kind, &settings, self.tools(tenant, &id))?;
        if !force && let Err(why) = self.diagnose(&*connector).await {
            return Err(Unmade::Unhealthy(format!("{kind} `{name}`, {why}")));
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
        let sealed = self.0.webhook_signer.seal(&record.id, authorization.as_ref(), hmac_secret.as_ref());
        let sealed = sealed.map_err(|why| match why {
            vault::Fault::Unfit(why) => {
                malformed("authorization", &format!("or `hmac_secret` cannot be used: {why}"))
            }
            why => Unmade::Fault(why.into()),
        })?;
        let created = self.0.connectors.create_connector(record.clone(), sealed).await;
        match created.map_err(|fault| Unmade::Fault(fault.into()))? {
            Created::Made => {}
            Created::Taken => return Err(Unmade::Taken),
            Created::Unfit(why) => return Err(malformed("tenant", why)),
        }
        self.changed(tenant);
        tracing::info!(tenant.id = %tenant, connector = name, kind, "connector created");
        Ok(record)
    }

    /// Which secrets a connector has, without their values.
    pub async fn connector_secrets(&self, of: &ConnectorId) -> Result<vault::SecretPresence, Refused> {
        Ok(self.0.webhook_signer.held(of).await?)
    }

    /// Runs the health check that creating the connector would run.
    pub async fn check_connector(&self, tenant: &TenantId, name: &str) -> Result<Health, Refused> {
        let connector: Arc<dyn AgentConnector> = if name == RELAY {
            Arc::new(RelayConnector::new(self, tenant))
        } else {
            let Some(record) = self.0.connectors.connector(tenant, name).await? else {
                return Err(Refused::Absent);
            };
            self.stored(&record)
        };
        let found = self.diagnose(&*connector).await;
        Ok(Health {
            healthy: Some(found.is_ok()),
            why: found.err(),
            capabilities: Capabilities::of(&*connector),
            agents: connector.list_agents().await.unwrap_or_default(),
        })
    }

    /// Describes a connector without contacting its receivers: only whether it can be opened.
    pub fn glance_at_connector(&self, record: &ConnectorRecord) -> Health {
        let connector = self.stored(record);
        let why = connector.barred().map(str::to_owned);
        Health {
            healthy: why.as_ref().map(|_| false),
            why,
            capabilities: Capabilities::of(&*connector),
            agents: Vec::new(),
        }
    }

    fn stored(&self, record: &ConnectorRecord) -> Arc<dyn AgentConnector> {
        let settings = serde_json::from_str(&record.settings).unwrap_or(Value::Null);
        settings::rebuild(&record.kind, &settings, self.tools(&record.tenant, &record.id))
    }

    async fn diagnose(&self, connector: &dyn AgentConnector) -> Result<(), String> {
        let found = self.0.timepiece.within(LOOKED_WITHIN, connector.diagnose()).await;
        found
            .unwrap_or_else(|Late| Err(format!("the check did not end within {} s", LOOKED_WITHIN.as_secs())))
    }

    /// Removes a connector. False if there is none with this name.
    pub async fn remove_connector(&self, tenant: &TenantId, name: &str) -> Result<bool, Refused> {
        let removed = self.0.connectors.remove_connector(tenant, name).await?;
        self.changed(tenant);
        Ok(removed == Removed::Gone)
    }
}

impl From<Undone> for Refused {
    fn from(undone: Undone) -> Self {
        match undone {
            Undone::Failed(failed) => Refused::Failed(failed),
            Undone::NotImplemented { .. } => Refused::NotImplemented(undone.to_string()),
        }
    }
}
