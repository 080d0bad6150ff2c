//! Admin API: issued HTTP credentials of an agent (client and login), and the settings of a stock agent for
//! them. Shown once.

use identity::{BOOTSTRAP_CLIENT, HttpSecrets, LOGIN_SCOPE, Login};
use ledger::Instance;
use posthouse_wire::cron::audience;
use posthouse_wire::{ClientId, Secret};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::routes::Parts;

/// Secrets, and the settings that go with them.
#[derive(Serialize)]
pub(crate) struct IssuedCredentials {
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
    /// An agent's new client and login in the format of an answer.
    pub(crate) fn issued_credentials(&self, instance: &Instance, http: &HttpSecrets) -> IssuedCredentials {
        let shown = |secret: &Secret| secret.expose().to_owned();
        IssuedCredentials {
            client_id: http.client.clone(),
            client_secret: shown(&http.client_secret),
            access_token: shown(&http.login.access.access_token),
            refresh_token: shown(&http.login.refresh_token),
            audience: audience(&instance.id),
            portal_url: self.public_url.clone(),
            jwks_url: self.jwks_url(),
            auth: self.auth(&http.login),
            cron: self.cron(instance),
        }
    }

    /// The `auth.json` of a stock agent with this login.
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

    /// The settings with which a stock agent hands its cron jobs to this server, one by one. The callback
    /// URL is included only if the operator has pinned it; otherwise only the owner of the agent knows it.
    pub(crate) fn cron(&self, instance: &Instance) -> Value {
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
