//! Connectors as the operator makes them.

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
use crate::line::LINE;
use crate::{Post, Refused, Unmade};

/// How long a look at a connector may take: somebody waits for what it shows.
const LOOKED_WITHIN: Duration = Duration::from_secs(30);

/// What a connector proves itself with; sealed as soon as it is made.
#[derive(Clone, Default)]
pub struct ConnectorSecrets {
    pub authorization: Option<Secret>,
    pub hmac_secret: Option<Secret>,
}

/// What is known of a connector.
#[derive(Clone, Debug)]
pub struct Health {
    /// Nothing where nobody looked, and it takes a look to tell.
    pub healthy: Option<bool>,
    /// Why it is not, for the operator.
    pub why: Option<String>,
    pub capabilities: Capabilities,
    /// Whom it claims, if somebody looked.
    pub agents: Vec<AgentDescriptor>,
}

impl Post {
    pub(crate) fn tools(&self, id: &ConnectorId) -> Tools<'_> {
        Tools {
            id: id.clone(),
            errand: self.0.errand.clone(),
            stamps: self.0.stamps.clone(),
            timepiece: self.0.timepiece.clone(),
            memory: self.0.memory.clone(),
            config: &self.0.config,
        }
    }

    /// Makes a connector. One that is not healthy is refused, unless it shall be made all the same.
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
            return Err(malformed("name", "is 1 to 64 letters, digits and `.`, `_`, `-`"));
        }
        if name == LINE {
            return Err(Unmade::Taken);
        }
        if kind != "webhook" && (secrets.authorization.is_some() || secrets.hmac_secret.is_some()) {
            return Err(malformed("authorization", "and `hmac_secret` belong to a webhook"));
        }
        let now = self.0.timepiece.now();
        let id = ConnectorId::mint(now.millis());
        let connector = settings::build(kind, &settings, self.tools(&id))?;
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
        let sealed = self.0.stamps.seal(&record.id, authorization.as_ref(), hmac_secret.as_ref());
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
        self.changed();
        tracing::info!(tenant.id = %tenant, connector = name, kind, "a connector was made");
        Ok(record)
    }

    /// Which secrets it has; nobody is told what they are.
    pub async fn connector_secrets(&self, of: &ConnectorId) -> Result<vault::Held, Refused> {
        Ok(self.0.stamps.held(of).await?)
    }

    /// Looks at a connector, as making it would.
    pub async fn check_connector(&self, tenant: &TenantId, name: &str) -> Result<Health, Refused> {
        let connector: Arc<dyn AgentConnector> = if name == LINE {
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

    /// What can be told of a connector without a look at what it leads to: whether it can be opened at all.
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
        settings::rebuild(&record.kind, &settings, self.tools(&record.id))
    }

    async fn diagnose(&self, connector: &dyn AgentConnector) -> Result<(), String> {
        let found = self.0.timepiece.within(LOOKED_WITHIN, connector.diagnose()).await;
        found
            .unwrap_or_else(|Late| Err(format!("nothing was found out within {} s", LOOKED_WITHIN.as_secs())))
    }

    /// False when there is none.
    pub async fn remove_connector(&self, tenant: &TenantId, name: &str) -> Result<bool, Refused> {
        let removed = self.0.connectors.remove_connector(tenant, name).await?;
        self.changed();
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
