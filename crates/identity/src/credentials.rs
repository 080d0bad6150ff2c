//! Credentials of agents and tenants: gateways, clients and logins; rotating, revoking, listing.

use bus::Notification;
use ledger::{ClientRecord, Instance, LoginRecord, Owner};
use posthouse_time::Moment;
use posthouse_wire::{ClientId, GatewayId, InstanceId, LoginId, Secret, TenantId};
use vault::{AccessGrant, EndedCredentials, HttpDraft, Login, WhichCredentials};

use crate::revocation_listeners::RevokedAccess;
use crate::{Accounts, Fault, PlaceClaims};

/// An agent's credentials for the HTTP APIs. The secrets cannot be shown again.
#[derive(Clone)]
pub struct HttpSecrets {
    pub client: ClientId,
    pub client_secret: Secret,
    pub login: Login,
}

impl HttpSecrets {
    pub(crate) fn new(draft: HttpDraft, of: &Instance) -> Self {
        Self {
            client: Owner::Instance(of.id.clone()).client(),
            client_secret: draft.client_secret,
            login: Login {
                login: draft.credentials.login,
                tenant: of.tenant.clone(),
                instance: of.id.clone(),
                access: draft.access,
                refresh_token: draft.refresh_token,
            },
        }
    }
}

impl Accounts {
    /// Gives an agent's credential a new secret, or creates a further credential. The old secret stays valid for a
    /// day.
    pub async fn rotate(&self, gateway: &GatewayId, of: &InstanceId) -> Result<Option<Secret>, Fault> {
        let secret = self.keyring.issue(gateway, of).await?;
        if secret.is_some() {
            tracing::info!(instance.id = %of, gateway.id = %gateway, "a credential got a new secret");
        }
        Ok(secret)
    }

    /// Revokes these credentials of an agent in one commit and returns what was revoked. Sockets close with 4401 and
    /// new connections are refused; every HTTP API refuses the tokens and secrets.
    pub async fn revoke(&self, of: &InstanceId, which: WhichCredentials) -> Result<EndedCredentials, Fault> {
        let ended = self.keyring.end_credentials(of, which).await?;
        // Announced whatever was found: another call may have ended it a moment ago and not announced it yet.
        self.roster.agent_changed(of);
        for gateway in &ended.gateways {
            self.revocations.tell(RevokedAccess::Gateway(gateway));
            self.bus.publish(Notification::Revoked { gateway: gateway.to_string() });
        }
        if !ended.is_empty() {
            tracing::info!(instance.id = %of, ended = ?ended, "credentials of an agent were revoked");
        }
        Ok(ended)
    }

    /// Ends what an agent has on shared bots, its credentials, its files and its inbox, in one commit. Its sockets close
    /// with 4401. Returns the number of links that were removed. Repeating it is harmless.
    pub async fn deprovision(&self, claims: &PlaceClaims, of: &InstanceId) -> Result<usize, Fault> {
        let ended = claims.deprovision(of).await?;
        for gateway in &ended.gateways {
            self.revocations.tell(RevokedAccess::Gateway(gateway));
            self.bus.publish(Notification::Revoked { gateway: gateway.to_string() });
        }
        tracing::info!(instance.id = %of, links = ended.authors.len(), gateways = ended.gateways.len(), "an agent was deprovisioned");
        Ok(ended.authors.len())
    }

    /// Gives an agent a new secret for this gateway, a new client secret and a new login. Replaced secrets stay valid
    /// for a day; the previous login ends at once. Returns `None` when there is no such agent, or when the gateway was
    /// revoked.
    pub async fn rotate_all(
        &self,
        gateway: &GatewayId,
        of: &Instance,
    ) -> Result<Option<(Secret, HttpSecrets)>, Fault> {
        let renewed = self.keyring.renew_credentials(&of.id, gateway).await?;
        self.roster.agent_changed(&of.id);
        if renewed.is_some() {
            tracing::info!(instance.id = %of.id, gateway.id = %gateway, "an agent got new credentials");
        }
        Ok(renewed.map(|(secret, draft)| (secret, HttpSecrets::new(draft, of))))
    }

    /// Creates the owner's client, or gives it another secret; the old secret stays valid for a day. Returns `None`
    /// when there is no such owner.
    pub async fn create_client(&self, owner: &Owner) -> Result<Option<(ClientId, Secret)>, Fault> {
        let made = self.keyring.create_client(owner).await?;
        if let Some((client, _)) = &made {
            tracing::info!(client.id = %client, "a client got a new secret");
        }
        Ok(made)
    }

    /// Revokes a client and its access tokens. Returns false when there is none.
    pub async fn revoke_client(&self, client: &ClientId) -> Result<bool, Fault> {
        let known = self.keyring.revoke_client(client).await?;
        self.roster.client_ended(client);
        if known {
            tracing::info!(client.id = %client, "a client was revoked");
        }
        Ok(known)
    }

    /// Creates an agent's bootstrap login and ends its earlier one. Returns `None` when there is no such agent.
    pub async fn log_in(&self, instance: &InstanceId) -> Result<Option<Login>, Fault> {
        let made = self.keyring.log_in(instance).await?;
        if let Some(login) = &made {
            self.roster.agent_changed(instance);
            tracing::info!(instance.id = %instance, login.id = %login.login, "an agent got a new login");
        }
        Ok(made)
    }

    /// Ends a login and all its tokens. Returns false when there is none.
    pub async fn log_out(&self, login: &LoginId) -> Result<bool, Fault> {
        let known = self.keyring.log_out(login).await?;
        self.roster.login_ended(login);
        if known {
            tracing::info!(login.id = %login, "a login was ended");
        }
        Ok(known)
    }

    /// Issues an access token for a client. Returns `None` when it was revoked meanwhile.
    pub async fn grant_access(&self, client: &ClientId) -> Result<Option<AccessGrant>, Fault> {
        Ok(self.keyring.grant_access(client).await?)
    }

    /// Issues an access token for 15 minutes with which the operator acts for a tenant. Returns `None` when there is
    /// no such tenant.
    pub async fn operator_access(&self, tenant: &TenantId) -> Result<Option<AccessGrant>, Fault> {
        Ok(self.keyring.operator_access(tenant).await?)
    }

    /// The gateway credentials of one agent: id, time of creation, time of revocation.
    pub async fn gateways(&self, of: &InstanceId) -> Result<Vec<(GatewayId, Moment, Option<Moment>)>, Fault> {
        Ok(self.keyring.of(of).await?)
    }

    /// All clients, or those of one tenant, including revoked ones.
    pub async fn clients(&self, of: Option<&TenantId>) -> Result<Vec<ClientRecord>, Fault> {
        Ok(self.keyring.clients(of).await?)
    }

    /// All logins, or those of one tenant.
    pub async fn logins(&self, of: Option<&TenantId>) -> Result<Vec<LoginRecord>, Fault> {
        Ok(self.keyring.logins(of).await?)
    }
}
