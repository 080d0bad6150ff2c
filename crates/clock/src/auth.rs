//! Who asks: the instance behind a bearer, by our own record of it.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use ledger::Instance;
use posthouse_wire::InstanceId;

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

impl Clock {
    /// Two identities stand for an instance: a client named after it, and the login planted at its first
    /// start, which is looked up inside the login's own tenant (contract section 1.1).
    pub(crate) async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Fault> {
        let Some(presented) = bearer(headers) else { return Ok(Caller::Nobody) };
        let Some(bearer) = self.0.relay.keyring().bearer(presented).await? else {
            return Ok(Caller::Nobody);
        };
        let roster = self.0.relay.roster();
        if let Some(id) = bearer.client.as_str().strip_prefix("agent:") {
            let instance = roster.instance(&InstanceId::new(id)).await?;
            return Ok(match instance.filter(|instance| instance.tenant == bearer.tenant) {
                Some(instance) => Caller::Agent(Box::new(instance)),
                None => Caller::Disabled,
            });
        }
        let Some(login) = &bearer.login else { return Ok(Caller::NoAgent) };
        Ok(match roster.instance_of_login(&bearer.tenant, login).await? {
            Some(instance) => Caller::Agent(Box::new(instance)),
            None => Caller::NoAgent,
        })
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
