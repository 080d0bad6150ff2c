//! Programs at HTTP doors: whose credential they present, as an access token or as it is.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use ledger::Owner;
use posthouse_wire::{ClientId, InstanceId, TenantId};
use vault::{Bearer, Client};

use crate::auth::{Caller, bearer};
use crate::oauth::basic;
use crate::{Fault, Relay};

/// Whom a program's credential stands for, by our own record of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A login goes by the client of its instance; the operator by a client that nobody else can be.
    pub client: ClientId,
    pub tenant: TenantId,
    /// Nothing for a tenant's own client and for the operator.
    pub instance: Option<InstanceId>,
}

/// What a program's headers are worth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    Known(Program),
    /// Missing, malformed, unknown, expired or revoked. One variant on purpose.
    Refused,
    /// Refused, and there were too many refusals from that address.
    Barred,
}

impl Relay {
    /// Who asks: by a bearer access token, or by a client credential as HTTP Basic, for programs that can
    /// only send a fixed header. Guessing gets slower and then stops, as where credentials are exchanged.
    pub async fn program(&self, headers: &HeaderMap, caller: Option<Caller>) -> Result<Presented, Fault> {
        // Which of two would count is anybody's guess.
        if headers.get_all(AUTHORIZATION).iter().count() > 1 {
            return Ok(Presented::Refused);
        }
        let known = if let Some(token) = bearer(headers) {
            match self.0.keyring.bearer(token).await? {
                Some(bearer) => self.program_of(bearer).await?,
                None => None,
            }
        } else if let Some((client, secret)) =
            headers.get(AUTHORIZATION).and_then(|header| header.to_str().ok()).and_then(basic)
        {
            let found = self.0.keyring.client(&client, secret.expose()).await?;
            found.map(|Client { client, tenant, instance }| Program { client, tenant, instance })
        } else {
            // Nothing that could be looked up is no guess.
            return Ok(Presented::Refused);
        };
        Ok(match known {
            Some(program) => Presented::Known(program),
            None if self.slowed_down(caller.map(|caller| caller.0), "program_refused").await => {
                Presented::Refused
            }
            None => Presented::Barred,
        })
    }

    async fn program_of(&self, bearer: Bearer) -> Result<Option<Program>, Fault> {
        let Bearer { client, tenant, login, .. } = bearer;
        if let Some(login) = login {
            let instance = self.0.roster.instance_of_login(&tenant, &login).await?;
            // All logins are one client's by name, so each goes by what is its instance's alone.
            return Ok(instance.map(|instance| Program {
                client: Owner::Instance(instance.id.clone()).client(),
                tenant,
                instance: Some(instance.id),
            }));
        }
        let instance = client.as_str().strip_prefix("agent:").map(InstanceId::new);
        Ok(Some(Program { client, tenant, instance }))
    }
}
