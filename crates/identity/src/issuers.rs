//! Foreign issuers of identity tokens (OIDC) that the operator trusts.
//!
//! A token is refused before anything is fetched or computed for it, unless its issuer is trusted and its claims are
//! valid. Its signature is checked only with a key that the issuer publishes under the key id of the token.

mod jwt;
mod key_source;

use std::sync::Arc;

use errand::Errand;
use posthouse_time::Timepiece;
use posthouse_wire::InstanceId;
use posthouse_wire::jwt::KeySet;

use crate::config::{Config, IssuerSettings};
use jwt::UncheckedJwt;
use key_source::KeySource;

/// The trusted issuers with their keys. Clones share the cached keys.
#[derive(Clone, Default)]
pub struct TrustedIssuers(Arc<Vec<TrustedIssuer>>);

struct TrustedIssuer {
    settings: IssuerSettings,
    keys: KeySource,
}

/// What a valid token of an issuer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuedClaims {
    pub issuer: String,
    /// Name or id of the tenant, after the operator's mapping. There may be no such tenant.
    pub tenant: String,
    /// The agent that the token manages, for a token that manages one.
    pub agent: Option<InstanceId>,
}

/// What a token is presented for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenPurpose {
    /// Enrolling and provisioning gateways: the audience is the one of the configuration.
    Join,
    /// Managing one agent: the audience is `agent:` and its id.
    ManageAgent,
}

impl TrustedIssuers {
    /// Reads the key files and checks the URLs of `config`. The error text names what cannot be used. `own_url` is the
    /// public URL of this server.
    pub fn new(
        config: &Config,
        own_url: &str,
        errand: &Errand,
        timepiece: &Timepiece,
    ) -> Result<Self, String> {
        config.check(Some(own_url))?;
        let mut trusted = Vec::new();
        for settings in &config.issuers {
            let name = &settings.issuer;
            let keys = key_source(settings, errand, timepiece)
                .map_err(|why| format!("identity.issuers `{name}`: {why}"))?;
            trusted.push(TrustedIssuer { settings: settings.clone(), keys });
        }
        Ok(Self(Arc::new(trusted)))
    }

    /// What a token says, if a trusted issuer signed it for this purpose and it is valid now.
    pub async fn verify(
        &self,
        token: &str,
        purpose: TokenPurpose,
        timepiece: &Timepiece,
    ) -> Option<IssuedClaims> {
        let token = UncheckedJwt::read(token)?;
        let named = token.text("iss")?;
        let issuer = self.0.iter().find(|trusted| trusted.settings.issuer == named)?;
        let claims = issuer.claims(&token, purpose)?;
        if !token.is_current(timepiece.now()) {
            return None;
        }
        let keys = issuer.keys.keys_for(token.kid()).await;
        // The time is checked again, because fetching may have taken seconds.
        (keys.signed(token.unchecked()) && token.is_current(timepiece.now())).then_some(claims)
    }
}

impl TrustedIssuer {
    /// The relevant claims, if they are valid, provided that the signature is.
    fn claims(&self, token: &UncheckedJwt<'_>, purpose: TokenPurpose) -> Option<IssuedClaims> {
        let settings = &self.settings;
        let agent = match purpose {
            TokenPurpose::Join if token.is_for(&settings.audience) => None,
            TokenPurpose::ManageAgent => Some(InstanceId::new(token.managed_agent()?)),
            TokenPurpose::Join => return None,
        };
        let claimed = token.text(&settings.tenant_claim)?;
        let tenant = match settings.tenants.is_empty() {
            true => claimed,
            false => settings.tenants.get(claimed)?,
        };
        Some(IssuedClaims { issuer: settings.issuer.clone(), tenant: tenant.to_owned(), agent })
    }
}

fn key_source(
    settings: &IssuerSettings,
    errand: &Errand,
    timepiece: &Timepiece,
) -> Result<KeySource, String> {
    if let Some(file) = &settings.keys_file {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
        let keys = keys_of_file(&text)
            .ok_or_else(|| format!("{} has no key for RS256 to RS512, ES256 or ES384", file.display()))?;
        return Ok(KeySource::File(Arc::new(keys)));
    }
    let url = settings.jwks_url.as_deref().unwrap_or_default();
    errand.check(url).map_err(|refusal| format!("jwks_url: {refusal}"))?;
    Ok(KeySource::at_url(&settings.issuer, url, errand.clone(), timepiece.clone()))
}

/// The keys of a file: a key set, or one public key in PEM. `None` unless it has a usable key.
fn keys_of_file(text: &str) -> Option<KeySet> {
    let keys = KeySet::pinned(text).ok().or_else(|| KeySet::read(text.as_bytes()));
    keys.filter(KeySet::has_usable_key)
}
