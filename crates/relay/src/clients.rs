//! Client credentials and bootstrap logins, as the operator handles them.

use ledger::Owner;
use posthouse_wire::{ClientId, InstanceId, LoginId, Secret};
use vault::Login;

use crate::{Fault, Relay};

impl Relay {
    /// Makes the owner's client, or gives it a further secret; the old one stays good for a day. Nothing
    /// when there is no such owner.
    pub async fn create_client(&self, owner: &Owner) -> Result<Option<(ClientId, Secret)>, Fault> {
        let made = self.0.keyring.create_client(owner).await?;
        if let Some((client, _)) = &made {
            tracing::info!(client.id = %client, "a client got a secret");
        }
        Ok(made)
    }

    /// Ends a client with its access tokens. False when there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Fault> {
        let known = self.0.keyring.revoke_client(client).await?;
        if known {
            tracing::info!(client.id = %client, "a client was revoked");
        }
        Ok(known)
    }

    /// Gives an agent its bootstrap login; one that it had ends. Nothing when there is no such agent.
    pub async fn log_in(&self, instance: &InstanceId) -> Result<Option<Login>, Fault> {
        let made = self.0.keyring.log_in(instance).await?;
        if let Some(login) = &made {
            tracing::info!(instance.id = %instance, login.id = %login.login, "an agent got its login");
        }
        Ok(made)
    }

    /// Ends a login with all its tokens. False when there is none.
    pub async fn log_out(&self, login: &LoginId) -> Result<bool, Fault> {
        let known = self.0.keyring.log_out(login).await?;
        if known {
            tracing::info!(login.id = %login, "a login was ended");
        }
        Ok(known)
    }
}
