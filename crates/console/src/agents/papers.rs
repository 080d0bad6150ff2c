//! What an agent needs to be somebody at the HTTP doors: a client, a login, and how to say so to a stock
//! agent. Handed out once.

use ledger::{Instance, Owner};
use posthouse_wire::cron::audience;
use posthouse_wire::{ClientId, Secret};
use relay::{BOOTSTRAP_CLIENT, LOGIN_SCOPE, Login};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::problem::Problem;
use crate::routes::Parts;

/// Secrets, and the settings that go with them.
#[derive(Serialize)]
pub(crate) struct Papers {
    client_id: ClientId,
    client_secret: String,
    access_token: String,
    refresh_token: String,
    audience: String,
    portal_url: String,
    jwks_url: String,
    auth: Value,
    cron: Value,
}

impl Parts {
    /// A client and a login for an agent that was just made. Nothing when it is gone again.
    pub(crate) async fn papers(&self, instance: &Instance) -> Result<Option<Papers>, Problem> {
        let client = self.relay.create_client(&Owner::Instance(instance.id.clone())).await?;
        let login = self.relay.log_in(&instance.id).await?;
        let ((client_id, client_secret), login) = match (client, login) {
            (Some(client), Some(login)) => (client, login),
            _ => return Ok(None),
        };
        let shown = |secret: &Secret| secret.expose().to_owned();
        Ok(Some(Papers {
            client_id,
            client_secret: shown(&client_secret),
            access_token: shown(&login.access.access_token),
            refresh_token: shown(&login.refresh_token),
            audience: audience(&instance.id),
            portal_url: self.public_url.clone(),
            jwks_url: self.jwks_url(),
            auth: self.auth(&login),
            cron: self.cron(instance),
        }))
    }

    /// The `auth.json` of a stock agent that has this login.
    pub(crate) fn auth(&self, login: &Login) -> Value {
        json!({
            "version": 1,
            "active_provider": "nous",
            "providers": { "nous": {
                "access_token": login.access.access_token.expose(),
                "refresh_token": login.refresh_token.expose(),
                "expires_at": login.access.expires.to_string(),
                "expires_in": login.access.expires_in.as_secs(),
                "client_id": BOOTSTRAP_CLIENT,
                "portal_base_url": self.public_url,
                "token_type": "Bearer",
                "scope": LOGIN_SCOPE,
            } },
        })
    }

    /// The settings that make a stock agent leave its cron to this house, line by line. Where it is
    /// called back is its own to know, unless it was pinned.
    fn cron(&self, instance: &Instance) -> Value {
        let mut lines = Map::new();
        let mut line = |name: &str, value: String| lines.insert(name.to_owned(), value.into());
        line("cron.provider", "chronos".to_owned());
        line("cron.chronos.portal_url", self.public_url.clone());
        if let Some(callback) = &instance.callback_url {
            line("cron.chronos.callback_url", callback.clone());
        }
        line("cron.chronos.expected_audience", audience(&instance.id));
        line("cron.chronos.nas_jwks_url", self.jwks_url());
        lines.into()
    }

    fn jwks_url(&self) -> String {
        format!("{}/.well-known/jwks.json", self.public_url)
    }
}
