//! Who asks: the instance behind a bearer, by our own record of it.

use std::time::Duration;

use http::HeaderMap;
use ledger::Instance;
use moka::sync::Cache;
use posthouse_wire::{InstanceId, TenantId};
use vault::Bearer;

use crate::{Clock, Fault};

/// What a bearer is worth at this door.
pub(crate) enum Caller {
    Agent(Box<Instance>),
    /// Missing, malformed, expired, revoked or unknown. One variant on purpose.
    Nobody,
    /// A good credential that is no agent's, now and for ever: an agent that hears this stops asking.
    NoAgent,
    /// An agent that is no more.
    Disabled,
}

/// How long a change of the roster that nobody told us of may stay unseen.
const REMEMBERED: Duration = Duration::from_secs(5);

/// Instances that asked lately. Remembered under the roster as it was when it was read, so what was read
/// before a change cannot be found after it.
pub(crate) struct Known(Cache<(u64, TenantId, String), Instance>);

impl Default for Known {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(10_000).time_to_live(REMEMBERED).build())
    }
}

impl Clock {
    /// Two identities stand for an instance: a client named after it, and the login planted at its first
    /// start, which is looked up inside the login's own tenant (contract section 1.1).
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Fault> {
        let Some(presented) = relay::bearer(headers) else { return Ok(Caller::Nobody) };
        let Some(bearer) = self.0.relay.keyring().bearer(presented).await? else {
            return Ok(Caller::Nobody);
        };
        let (standing, otherwise) = match (bearer.client.as_str().starts_with("agent:"), &bearer.login) {
            (true, _) => (bearer.client.as_str(), Caller::Disabled),
            (false, Some(login)) => (login.as_str(), Caller::NoAgent),
            (false, None) => return Ok(Caller::NoAgent),
        };
        let Known(known) = &self.0.known;
        let asked = (self.0.relay.roster_version(), bearer.tenant.clone(), standing.to_owned());
        if let Some(instance) = known.get(&asked) {
            return Ok(Caller::Agent(Box::new(instance)));
        }
        let Some(instance) = self.instance_of(&bearer).await? else { return Ok(otherwise) };
        known.insert(asked, instance.clone());
        Ok(Caller::Agent(Box::new(instance)))
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
