//! Client credentials and bootstrap logins: creating and revoking, for the operator.

use ledger::Owner;
use posthouse_wire::{ClientId, InstanceId, LoginId, Secret};
use vault::Login;

use crate::{Fault, Relay};

impl Relay {
    /// Creates the owner's client, or gives it another secret; the old secret stays valid for a day. Returns `None`
    /// when there is no such owner.
    pub async fn create_client(&self, owner: &Owner) -> Result<Option<(ClientId, Secret)>, Fault> {
        let made = self.0.keyring.create_client(owner).await?;
        if let Some((client, _)) = &made {
            tracing::info!(client.id = %client, "a client got a new secret");
        }
        Ok(made)
    }

    /// Revokes a client and its access tokens. Returns false when there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Fault> {
        let known = self.0.keyring.revoke_client(client).await?;
        if known {
            tracing::info!(client.id = %client, "a client was revoked");
        }
        Ok(known)
    }

    /// Creates an agent's bootstrap login and ends its earlier one. Returns `None` when there is no such agent.
    pub async fn log_in(&self, instance: &InstanceId) -> Result<Option<Login>, Fault> {
        let made = self.0.keyring.log_in(instance).await?;
        if let Some(login) = &made {
            tracing::info!(instance.id = %instance, login.id = %login.login, "an agent got a new login");
        }
        Ok(made)
    }

    /// Ends a login and all its tokens. Returns false when there is none.
    pub async fn log_out(&self, login: &LoginId) -> Result<bool, Fault> {
        let known = self.0.keyring.log_out(login).await?;
        if known {
            tracing::info!(login.id = %login, "a login was ended");
        }
        Ok(known)
    }
}
