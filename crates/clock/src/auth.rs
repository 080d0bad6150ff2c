//! Authentication of agents: finds the instance that a bearer token belongs to.

use std::time::Duration;

use http::HeaderMap;
use ledger::Instance;
use moka::sync::Cache;
use posthouse_wire::{InstanceId, TenantId};
use vault::Bearer;

use crate::{Clock, Fault};

/// Result of checking a bearer token.
pub(crate) enum BearerCheck {
    Agent(Box<Instance>),
    /// Missing, malformed, expired, revoked or unknown. One variant on purpose: telling these apart would
    /// reveal which tokens exist.
    Nobody,
    /// A valid credential that never belongs to an agent. A stock agent that gets this answer stops asking.
    NoAgent,
    /// The agent was deleted.
    Disabled,
}

/// Lifetime of cached instances. It bounds how long a roster change without a notification goes unnoticed.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Cache of instances that called recently. The key contains the tenant's roster version from before the
/// read, so an entry from before a change is not found after it.
pub(crate) struct InstanceCache(Cache<(u64, TenantId, String), Instance>);

impl Default for InstanceCache {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build())
    }
}

impl Clock {
    /// An instance has two identities: the client `agent:{instance}`, and the login that it got at its first
    /// start. The login is looked up inside its own tenant (contract section 1.1).
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<BearerCheck, Fault> {
        let Some(presented) = relay::bearer(headers) else { return Ok(BearerCheck::Nobody) };
        let Some(bearer) = self.0.relay.keyring().bearer(presented).await? else {
            return Ok(BearerCheck::Nobody);
        };
        let (standing, otherwise) = match (bearer.client.as_str().starts_with("agent:"), &bearer.login) {
            (true, _) => (bearer.client.as_str(), BearerCheck::Disabled),
            (false, Some(login)) => (login.as_str(), BearerCheck::NoAgent),
            (false, None) => return Ok(BearerCheck::NoAgent),
        };
        let InstanceCache(known) = &self.0.known;
        let asked = (self.0.relay.tenant_version(&bearer.tenant), bearer.tenant.clone(), standing.to_owned());
        if let Some(instance) = known.get(&asked) {
            return Ok(BearerCheck::Agent(Box::new(instance)));
        }
        let Some(instance) = self.instance_of(&bearer).await? else { return Ok(otherwise) };
        known.insert(asked, instance.clone());
        Ok(BearerCheck::Agent(Box::new(instance)))
    }

    async fn instance_of(&self, bearer: &Bearer) -> Result<Option<Instance>, Fault> {
        let roster = self.0.relay.roster();
        if let Some(id) = bearer.client.as_str().strip_prefix("agent:") {
            let instance = roster.instance(&InstanceId::new(id)).await?;
            return Ok(instance.filter(|instance| instance.tenant == bearer.tenant));
        }
        match &bearer.login {
            Some(login) => Ok(roster.instance_of_login(&bearer.tenant, login).await?),
            None => Ok(None),
        }
    }
}
