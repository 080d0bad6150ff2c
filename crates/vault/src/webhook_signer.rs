//! Authentication of webhooks: headers for outgoing calls, and checking the signature of their answers.
//!
//! A holder of [`WebhookSigner`] gets headers for given bytes, never the secrets behind them.

mod store_secrets;

pub use store_secrets::StoreAuthentication;

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

use crate::seal::MasterKeys;
use crate::tokens::hash;
use crate::{Fault, Signer, Vault};

const X_SIGNATURE: HeaderName = HeaderName::from_static("x-signature");
const WEBHOOK_ID: HeaderName = HeaderName::from_static("webhook-id");
const WEBHOOK_TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const WEBHOOK_SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Prefix of the hex in `X-Signature`.
const SCHEME: &str = "sha256=";
/// Prefix of a secret that Standard Webhooks decode as base64.
const ENCODED: &str = "whsec_";
/// Base64 with optional padding, because people lose the padding when they copy.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Names under which a connector's secrets are stored.
const LITERAL: &str = "authorization";
const SHARED: &str = "hmac_secret";

/// Makes authentication headers for the requests of connectors and of remote stores. The part of the vault that the post
/// and the workshop get.
#[derive(Clone)]
pub struct WebhookSigner {
    records: Arc<dyn VaultRecords>,
    keys: Arc<MasterKeys>,
    signer: Signer,
}

/// Tells which secrets a connector has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SecretPresence {
    pub authorization: bool,
    pub hmac_secret: bool,
}

/// One connector's secrets, decrypted for one call.
#[derive(Default)]
struct OpenedSecrets {
    literal: Option<Secret>,
    shared: Option<Secret>,
}

impl Vault {
    /// The post's part of the vault: it returns headers, never the secrets behind them.
    pub fn webhook_signer(&self, signer: &Signer) -> WebhookSigner {
        WebhookSigner {
            records: Arc::clone(&self.records),
            keys: Arc::clone(&self.keys),
            signer: signer.clone(),
        }
    }
}

impl WebhookSigner {
    /// Seals a connector's secrets, for a caller that stores them together with the connector. Secrets that could
    /// never be sent or checked fail here rather than at the first delivery.
    pub fn seal(
        &self,
        of: &ConnectorId,
        authorization: Option<&Secret>,
        hmac_secret: Option<&Secret>,
    ) -> Result<Vec<(String, Sealed)>, Fault> {
        given_secrets(authorization, hmac_secret)?
            .map(|(name, secret)| {
                let sealed = self.keys.seal(&context(of, name), secret.expose().as_bytes())?;
                Ok((name.to_owned(), sealed))
            })
            .collect()
    }

    /// Seals and stores secrets of an existing connector, and replaces those of the same name.
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

    /// The headers for `body`: `Authorization` as it was configured, and `X-Signature` if there is an HMAC secret.
    /// With `standard` (an id and the time of this attempt in seconds) also the headers of Standard Webhooks. These
    /// are left out without an HMAC secret, or when the id is not a valid header value.
    pub async fn headers(
        &self,
        of: &ConnectorId,
        body: &[u8],
        standard: Option<(&str, i64)>,
    ) -> Result<HeaderMap, Fault> {
        self.opened(of).await?.headers(body, standard)
    }

    /// Checks `signature`, the value of `X-Signature`, over `body` with the connector's HMAC secret. Returns `None`
    /// when the connector has no HMAC secret, so that no signature can be required.
    pub async fn check_signature(
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

    /// Tells which secrets a connector has, without revealing them.
    pub async fn held(&self, of: &ConnectorId) -> Result<SecretPresence, Fault> {
        let kept = self.records.connector_secrets(of).await?;
        let has = |wanted| kept.iter().any(|(name, _)| name == wanted);
        Ok(SecretPresence { authorization: has(LITERAL), hmac_secret: has(SHARED) })
    }

    /// The token in the reply URL of one question, and the hash by which the ledger finds it.
    pub fn reply_token(&self, tenant: &TenantId, question: &DispatchId) -> (Secret, TokenHash) {
        let token = self.signer.reply_token(tenant, question);
        let hash = hash(token.expose());
        (token, hash)
    }

    /// The hash by which the ledger finds a presented token.
    pub fn reply_token_hash(&self, presented: &str) -> TokenHash {
        hash(presented)
    }

    async fn opened(&self, of: &ConnectorId) -> Result<OpenedSecrets, Fault> {
        let mut opened = OpenedSecrets::default();
        for (name, sealed) in self.records.connector_secrets(of).await? {
            let secret = self.keys.open_text(&context(of, &name), &sealed)?;
            opened.put(&name, secret);
        }
        Ok(opened)
    }
}

impl OpenedSecrets {
    fn put(&mut self, name: &str, secret: Secret) {
        match name {
            LITERAL => self.literal = Some(secret),
            SHARED => self.shared = Some(secret),
            _ => {}
        }
    }

    fn headers(&self, body: &[u8], standard: Option<(&str, i64)>) -> Result<HeaderMap, Fault> {
        let Self { literal, shared } = self;
        let mut headers = HeaderMap::new();
        if let Some(literal) = literal {
            let value = header(literal.expose());
            headers.insert(
                AUTHORIZATION,
                value.ok_or(Fault::Unfit("the stored authorization is not a valid header value"))?,
            );
        }
        let Some(shared) = shared else { return Ok(headers) };
        let signature = hmac::sign(&Key::new(HMAC_SHA256, shared.expose().as_bytes()), body);
        headers.insert(X_SIGNATURE, made(&format!("{SCHEME}{}", hex::encode(signature)))?);
        if let Some((id, seconds)) = standard
            && let Some(named) = header(id)
        {
            let mut signing = hmac::Context::with_key(&standard_key(shared)?);
            signing.update(format!("{id}.{seconds}.").as_bytes());
            signing.update(body);
            headers.insert(WEBHOOK_ID, named);
            headers.insert(WEBHOOK_TIMESTAMP, made(&seconds.to_string())?);
            headers.insert(WEBHOOK_SIGNATURE, made(&format!("v1,{}", STANDARD.encode(signing.sign())))?);
        }
        Ok(headers)
    }
}

/// The given secrets with their names. Those that could never be sent or checked fail.
fn given_secrets<'a>(
    authorization: Option<&'a Secret>,
    hmac_secret: Option<&'a Secret>,
) -> Result<impl Iterator<Item = (&'static str, &'a Secret)>, Fault> {
    if authorization.is_some_and(|literal| header(literal.expose()).is_none()) {
        return Err(Fault::Unfit("the authorization is not a valid header value"));
    }
    if let Some(shared) = hmac_secret {
        if shared.is_empty() {
            return Err(Fault::Unfit("the HMAC secret is empty"));
        }
        standard_key(shared)?;
    }
    let given = [(LITERAL, authorization), (SHARED, hmac_secret)];
    Ok(given.into_iter().filter_map(|(name, secret)| Some((name, secret?))))
}

/// The signing key of Standard Webhooks: the decoded bytes of a `whsec_` secret, or any other secret verbatim.
fn standard_key(shared: &Secret) -> Result<Key, Fault> {
    match shared.expose().strip_prefix(ENCODED) {
        None => Ok(Key::new(HMAC_SHA256, shared.expose().as_bytes())),
        Some(encoded) => {
            let bytes = Zeroizing::new(
                LENIENT
                    .decode(encoded)
                    .map_err(|_| Fault::Unfit("the HMAC secret after `whsec_` is not base64"))?,
            );
            match bytes.is_empty() {
                true => Err(Fault::Unfit("the HMAC secret is empty after `whsec_`")),
                false => Ok(Key::new(HMAC_SHA256, &bytes)),
            }
        }
    }
}

/// A header value marked as sensitive, so that no log shows it. `None` for an empty or invalid text.
fn header(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_bytes(text.as_bytes()).ok().filter(|value| !value.is_empty())?;
    value.set_sensitive(true);
    Some(value)
}

/// A header value that the server generated: hex, digits or base64.
fn made(text: &str) -> Result<HeaderValue, Fault> {
    header(text).ok_or(Fault::Unfit("a generated signature is not a valid header value"))
}

fn context(of: &ConnectorId, name: &str) -> String {
    format!("connector/{of}/{name}")
}
