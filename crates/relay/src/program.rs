//! Authentication of programs at the HTTP APIs, by access token or client credential.

use http::HeaderMap;
use ledger::Owner;
use posthouse_wire::{ClientId, InstanceId, TenantId};
use vault::{Bearer, ClientOwner};

use crate::auth::{Caller, authorization, bearer};
use crate::oauth::basic;
use crate::{Fault, Relay};

/// Owner of a program's credential, according to the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// A login has the client id of its instance. The operator has a client id that nobody else can have.
    pub client: ClientId,
    pub tenant: TenantId,
    /// `None` for a tenant's own client and for the operator.
    pub instance: Option<InstanceId>,
}

/// Result of checking a program's headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presented {
    Known(Program),
    /// Missing, malformed, unknown, expired or revoked. One variant on purpose, so that callers cannot reveal which.
    Refused,
    /// Refused, after too many refusals of that address.
    Barred,
}

impl Relay {
    /// Identifies a program by its bearer access token, or by a client credential as HTTP Basic, for programs that can
    /// only send a fixed header. Guessing gets slower and then stops, as at the token endpoints.
    pub async fn program(&self, headers: &HeaderMap, caller: Option<Caller>) -> Result<Presented, Fault> {
        let known = if let Some(token) = bearer(headers) {
            match self.0.keyring.bearer(token).await? {
                Some(bearer) => self.program_of(bearer).await?,
                None => None,
            }
        } else if let Some((client, secret)) =
            authorization(headers).and_then(|header| header.to_str().ok()).and_then(basic)
        {
            let found = self.0.keyring.client(&client, secret.expose()).await?;
            found.map(|ClientOwner { client, tenant, instance }| Program { client, tenant, instance })
        } else {
            // A request without a credential is not a guess, so it is not counted.
            return Ok(Presented::Refused);
        };
        Ok(match known {
            Some(program) => Presented::Known(program),
            None if self.slow_down(caller.map(|caller| caller.0), "program_refused").await => {
                Presented::Refused
            }
            None => Presented::Barred,
        })
    }

    async fn program_of(&self, bearer: Bearer) -> Result<Option<Program>, Fault> {
        let Bearer { client, tenant, login, .. } = bearer;
        if let Some(login) = login {
            let instance = self.0.roster.instance_of_login(&tenant, &login).await?;
            // All logins share one client id, so each gets the client id of its instance instead.
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
