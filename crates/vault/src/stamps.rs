//! Headers by which a webhook's receiver knows us, and the check of those by which we know it. Whoever
//! holds [`Stamps`] sees headers made for some bytes, never what they were made with.

use std::sync::Arc;

use aws_lc_rs::hmac::{self, HMAC_SHA256, Key};
use base64::Engine;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use ledger::{Sealed, TokenHash, VaultRecords};
use posthouse_wire::{ConnectorId, DispatchId, Secret, TenantId};
use zeroize::Zeroizing;

use crate::seal::Keys;
use crate::tokens::hash;
use crate::{Fault, Signer, Vault};

const X_SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// What stands before the hex of a signature.
const SCHEME: &str = "sha256=";
/// A secret that Standard Webhooks take for base64.
const ENCODED: &str = "whsec_";
/// People lose the padding when they copy.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The names under which a connector's secrets are kept.
const LITERAL: &str = "authorization";
const SHARED: &str = "hmac_secret";

/// What the post may hold: the headers for one connector's bytes.
#[derive(Clone)]
pub struct Stamps {
    records: Arc<dyn VaultRecords>,
    keys: Arc<Keys>,
    signer: Signer,
}

/// Whether a connector has each of the secrets that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub authorization: bool,
    pub hmac_secret: bool,
}

/// One connector's secrets, opened for one call.
#[derive(Default)]
struct Opened {
    literal: Option<Secret>,
    shared: Option<Secret>,
}

impl Vault {
    /// What the post may hold: it may ask for headers, never for the secrets behind them.
    pub fn stamps(&self, signer: &Signer) -> Stamps {
        Stamps { records: Arc::clone(&self.records), keys: Arc::clone(&self.keys), signer: signer.clone() }
    }
}

impl Stamps {
    /// Seals what a connector proves itself with, for whoever keeps it with the connector itself. What could
    /// never be sent or checked is a fault now rather than at the first delivery.
    pub fn seal(
        &self,
        of: &ConnectorId,
        authorization: Option<&Secret>,
        hmac_secret: Option<&Secret>,
    ) -> Result<Vec<(String, Sealed)>, Fault> {
        if authorization.is_some_and(|literal| header(literal.expose()).is_none()) {
            return Err(Fault::Unfit("the authorization is not the value of a header"));
        }
        if let Some(shared) = hmac_secret {
            if shared.is_empty() {
                return Err(Fault::Unfit("the HMAC secret is empty"));
            }
            standard_key(shared)?;
        }
        let given = [(LITERAL, authorization), (SHARED, hmac_secret)];
        let given = given.into_iter().filter_map(|(name, secret)| Some((name, secret?)));
        given
            .map(|(name, secret)| {
                let sealed = self.keys.seal(&context(of, name), secret.expose().as_bytes())?;
                Ok((name.to_owned(), sealed))
            })
            .collect()
    }

    /// The same for a connector that is there already, replacing what was kept under the same name.
    pub async fn keep(
        &self,
        of: &ConnectorId,
        authorization: Option<&Secret>,
        hmac_secret: Option<&Secret>,
    ) -> Result<(), Fault> {
        for (name, sealed) in self.seal(of, authorization, hmac_secret)? {
            self.records.put_connector_secret(of, &name, sealed).await?;
        }
        Ok(())
    }

    /// The headers for these bytes: `Authorization` as it was given to us, and `X-Signature` where there is
    /// a secret. With `standard`, an id and the second of this attempt, also those of Standard Webhooks,
    /// which are nothing without a secret or with an id that cannot stand in a header.
    pub async fn headers(
        &self,
        of: &ConnectorId,
        body: &[u8],
        standard: Option<(&str, i64)>,
    ) -> Result<HeaderMap, Fault> {
        let Opened { literal, shared } = self.opened(of).await?;
        let mut headers = HeaderMap::new();
        if let Some(literal) = literal {
            let value = header(literal.expose());
            headers.insert(AUTHORIZATION, value.ok_or(Fault::Unfit("the authorization is no header"))?);
        }
        let Some(shared) = shared else { return Ok(headers) };
        let signature = hmac::sign(&Key::new(HMAC_SHA256, shared.expose().as_bytes()), body);
        headers.insert(X_SIGNATURE, made(&format!("{SCHEME}{}", hex::encode(signature)))?);
        if let Some((id, seconds)) = standard
            && let Some(named) = header(id)
        {
            let mut signing = hmac::Context::with_key(&standard_key(&shared)?);
            signing.update(format!("{id}.{seconds}.").as_bytes());
            signing.update(body);
            headers.insert(WEBHOOK_ID, named);
            headers.insert(WEBHOOK_TIMESTAMP, made(&seconds.to_string())?);
            headers.insert(WEBHOOK_SIGNATURE, made(&format!("v1,{}", STANDARD.encode(signing.sign())))?);
        }
        Ok(headers)
    }

    /// Whether this `X-Signature` was made over these bytes by somebody who knows the connector's secret.
    /// Nothing when it has none, so that no signature can be asked for.
    pub async fn vouches(
        &self,
        of: &ConnectorId,
        signature: Option<&str>,
        body: &[u8],
    ) -> Result<Option<bool>, Fault> {
        let Some(shared) = self.opened(of).await?.shared else { return Ok(None) };
        let presented =
            signature.and_then(|text| text.strip_prefix(SCHEME)).and_then(|hex| hex::decode(hex).ok());
        let key = Key::new(HMAC_SHA256, shared.expose().as_bytes());
        // The library compares in constant time.
        Ok(Some(presented.is_some_and(|presented| hmac::verify(&key, body, &presented).is_ok())))
    }

    /// Which secrets a connector has, for those who may know that and no more.
    pub async fn held(&self, of: &ConnectorId) -> Result<Held, Fault> {
        let kept = self.records.connector_secrets(of).await?;
        let has = |wanted| kept.iter().any(|(name, _)| name == wanted);
        Ok(Held { authorization: has(LITERAL), hmac_secret: has(SHARED) })
    }

    /// What stands in the address to which one question's answer may be sent, and the hash it is found by.
    pub fn reply_token(&self, tenant: &TenantId, question: &DispatchId) -> (Secret, TokenHash) {
        let token = self.signer.reply_token(tenant, question);
        let hash = hash(token.expose());
        (token, hash)
    }

    /// The hash that a presented token is looked for by.
    pub fn reply_token_hash(&self, presented: &str) -> TokenHash {
        hash(presented)
    }

    async fn opened(&self, of: &ConnectorId) -> Result<Opened, Fault> {
        let mut opened = Opened::default();
        for (name, sealed) in self.records.connector_secrets(of).await? {
            let secret = self.keys.open_text(&context(of, &name), &sealed)?;
            match name.as_str() {
                LITERAL => opened.literal = Some(secret),
                SHARED => opened.shared = Some(secret),
                _ => {}
            }
        }
        Ok(opened)
    }
}

/// The key that Standard Webhooks sign with: what a `whsec_` secret encodes, any other to the letter.
fn standard_key(shared: &Secret) -> Result<Key, Fault> {
    match shared.expose().strip_prefix(ENCODED) {
        None => Ok(Key::new(HMAC_SHA256, shared.expose().as_bytes())),
        Some(encoded) => {
            let bytes = Zeroizing::new(
                LENIENT.decode(encoded).map_err(|_| Fault::Unfit("what follows `whsec_` is not base64"))?,
            );
            match bytes.is_empty() {
                true => Err(Fault::Unfit("nothing follows `whsec_`")),
                false => Ok(Key::new(HMAC_SHA256, &bytes)),
            }
        }
    }
}

/// A header value that no log shows; nothing for an empty text or one that is none.
fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text.as_bytes()).ok().filter(|value| !value.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}

/// One of our own making: hex, digits and base64.
fn made(text: &str) -> Result<HeaderValue, Fault> {
    header(text).ok_or(Fault::Unfit("a signature is no header"))
}

fn context(of: &ConnectorId, name: &str) -> String {
    format!("connector/{of}/{name}")
}
