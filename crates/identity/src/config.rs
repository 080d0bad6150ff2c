//! Settings of identities.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use posthouse_time::Span;
use serde::{Deserialize, Serialize};

/// `[identity]` in the configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long a gateway that provisions itself again gets the same secret. A stock gateway makes one call per
    /// platform when it starts, and keeps the secret of the first. Default 10m.
    pub secret_reuse: Span,
    /// Issuers whose tokens are accepted for enrolling and provisioning gateways. Default none.
    pub issuers: Vec<IssuerSettings>,
}

/// `[[identity.issuers]]`: an OIDC issuer that the operator trusts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IssuerSettings {
    /// The `iss` of its tokens, exactly.
    pub issuer: String,
    /// The `aud` that its tokens must have.
    pub audience: String,
    /// URL of its key set. The rules of `[errand]` apply to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwks_url: Option<String>,
    /// A file with its key set (JSON), or with one public key (PEM), instead of the URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_file: Option<PathBuf>,
    /// The claim that names the tenant. Default tid.
    #[serde(default = "tid")]
    pub tenant_claim: String,
    /// Which value of the claim is which tenant. Without it, the claim is the name or the id of a tenant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tenants: BTreeMap<String, String>,
}

fn tid() -> String {
    "tid".to_owned()
}

impl Default for Config {
    fn default() -> Self {
        Self { secret_reuse: Span::seconds(600), issuers: Vec::new() }
    }
}

/// A secret is given out again for at most this time.
const LONGEST_REUSE: Duration = Duration::from_secs(24 * 3600);
/// Most trusted issuers.
const ISSUERS: usize = 100;

impl Config {
    /// Checks relations between settings. The error text names the violated one. `own_url` is the public URL of this
    /// server, as far as it is known.
    pub fn check(&self, own_url: Option<&str>) -> Result<(), String> {
        if self.secret_reuse.0 > LONGEST_REUSE {
            return Err("identity.secret_reuse must be at most 24h".to_owned());
        }
        if self.issuers.len() > ISSUERS {
            return Err(format!("identity.issuers may name at most {ISSUERS} issuers"));
        }
        for (index, trusted) in self.issuers.iter().enumerate() {
            let name = &trusted.issuer;
            trusted.check(own_url).map_err(|why| format!("identity.issuers `{name}`: {why}"))?;
            if self.issuers[..index].iter().any(|earlier| earlier.issuer == *name) {
                return Err(format!("identity.issuers `{name}`: the issuer is listed twice"));
            }
        }
        Ok(())
    }
}

impl IssuerSettings {
    fn check(&self, own_url: Option<&str>) -> Result<(), &'static str> {
        if self.issuer.trim().is_empty() || self.audience.trim().is_empty() {
            return Err("issuer and audience must not be empty");
        }
        let without_slash = |url: &str| url.trim_end_matches('/').to_ascii_lowercase();
        // The fire tokens of this server name it as their issuer. They must never open anything here.
        if own_url.is_some_and(|own| without_slash(own) == without_slash(&self.issuer)) {
            return Err("this server is not an issuer for itself: use its client credentials");
        }
        // Tokens for `agent:ID` manage one agent. They must not enrol any.
        if self.audience.starts_with("agent:") {
            return Err("the audience must not begin with agent:");
        }
        if self.tenant_claim.is_empty() {
            return Err("tenant_claim must not be empty");
        }
        match (&self.jwks_url, &self.keys_file) {
            (Some(_), None) | (None, Some(_)) => Ok(()),
            _ => Err("set either jwks_url or keys_file"),
        }
    }
}
