//! Verification of Feishu's requests: the signature over the encrypted body, and the verification token inside.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName};
use posthouse_wire::Secret;
use serde::Deserialize;

use super::{ENCRYPT_KEY, VERIFICATION_TOKEN};
use crate::bots::OpenedBot;
use crate::platform::{PayloadText, UnverifiedRequest, VerifiedRequest, WebhookRefusal};
use crate::verification::cbc::{IV, KEY, decrypt_cbc};
use crate::verification::{WINDOW_SECONDS, check_window, equal, hex_bytes, single_header};

const SIGNATURE: HeaderName = HeaderName::from_static("x-lark-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-lark-request-timestamp");
const NONCE: HeaderName = HeaderName::from_static("x-lark-request-nonce");
/// The key for the check of a bot without a secret. Its result does not count.
const NOBODYS_KEY: &str = "nobody";
const BAD_TOKEN: WebhookRefusal = WebhookRefusal::unproven("bad_token");
const DECRYPT_FAILED: WebhookRefusal = WebhookRefusal::unproven("decrypt_failed");
/// Padding fills up one AES block.
const PADDING_BLOCK: usize = 16;
const NOT_ENCRYPTED: WebhookRefusal = WebhookRefusal::unproven("not_encrypted");

/// The outer object of an encrypted body.
#[derive(Deserialize)]
struct EncryptedBody<'a> {
    #[serde(borrow)]
    encrypt: PayloadText<'a>,
}

/// The fields of a payload that prove it.
#[derive(Deserialize)]
struct PayloadProof<'a> {
    #[serde(borrow, rename = "type")]
    kind: Option<PayloadText<'a>>,
    /// Of a handshake, and of events in the older schema.
    #[serde(borrow)]
    token: Option<PayloadText<'a>>,
    #[serde(borrow)]
    header: Option<HeaderProof<'a>>,
}

#[derive(Deserialize)]
struct HeaderProof<'a> {
    #[serde(borrow)]
    token: Option<PayloadText<'a>>,
}

/// Checks a request and decrypts its body. A bot with an encrypt key takes only encrypted and signed bodies. The one
/// exception is the check of the address, which may be unsigned: there the token inside is the proof.
pub(super) fn verify(bot: &OpenedBot, raw: UnverifiedRequest) -> Result<VerifiedRequest, WebhookRefusal> {
    let secret = |name| bot.credentials.get(name).filter(|secret| !secret.is_empty());
    match (secret(ENCRYPT_KEY), secret(VERIFICATION_TOKEN)) {
        (Some(key), token) => verify_encrypted(key, token, raw),
        // Without an encrypt key the token is the only proof.
        (None, Some(token)) => {
            check_token(&raw.body, Some(token), false)?;
            Ok(raw.into_verified())
        }
        (None, None) => {
            // Fail closed: for a bot without a secret every call is refused, after the same work, so that the response
            // time does not reveal which bots exist.
            let _ = verify_encrypted(&Secret::new(NOBODYS_KEY), None, raw);
            Err(WebhookRefusal::unproven("no_secret"))
        }
    }
}

fn verify_encrypted(
    key: &Secret,
    token: Option<&Secret>,
    mut raw: UnverifiedRequest,
) -> Result<VerifiedRequest, WebhookRefusal> {
    let is_signed = raw.headers.contains_key(SIGNATURE);
    if is_signed {
        check_signature(&raw.headers, key, &raw.body)?;
        check_window(raw.received, single_header(&raw.headers, TIMESTAMP)?, WINDOW_SECONDS)?;
    }
    let plain = match decrypt(key, &raw.body) {
        Ok(plain) => plain,
        Err(refusal) if is_signed => return Err(refusal),
        Err(_) => return Err(WebhookRefusal::unproven("missing_header")),
    };
    // A handshake without a signature is proven by its token alone, so that it needs one.
    if !is_signed && token.is_none() {
        return Err(WebhookRefusal::unproven("missing_header"));
    }
    check_token(&plain, token, !is_signed)?;
    raw.body = plain.into();
    Ok(raw.into_verified())
}

/// The signature is the hash of timestamp, nonce, key and body, one after the other.
fn check_signature(headers: &HeaderMap, key: &Secret, body: &[u8]) -> Result<(), WebhookRefusal> {
    let signature = hex_bytes::<32>(single_header(headers, SIGNATURE)?)?;
    let (timestamp, nonce) = (single_header(headers, TIMESTAMP)?, single_header(headers, NONCE)?);
    let mut hash = digest::Context::new(&digest::SHA256);
    for part in [timestamp.as_bytes(), nonce.as_bytes(), key.expose().as_bytes(), body] {
        hash.update(part);
    }
    match equal(hash.finish().as_ref(), &signature) {
        true => Ok(()),
        false => Err(WebhookRefusal::unproven("bad_signature")),
    }
}

/// The payload of an encrypted body. The first block is the IV.
fn decrypt(key: &Secret, body: &[u8]) -> Result<Vec<u8>, WebhookRefusal> {
    let outer: EncryptedBody<'_> = serde_json::from_slice(body).map_err(|_| NOT_ENCRYPTED)?;
    let mut bytes = STANDARD.decode(&*outer.encrypt).map_err(|_| DECRYPT_FAILED)?;
    if bytes.len() <= IV {
        return Err(DECRYPT_FAILED);
    }
    let ciphertext = bytes.split_off(IV);
    let iv: [u8; IV] = bytes.try_into().map_err(|_| DECRYPT_FAILED)?;
    let hash = digest::digest(&digest::SHA256, key.expose().as_bytes());
    let key: [u8; KEY] = hash.as_ref().try_into().map_err(|_| DECRYPT_FAILED)?;
    decrypt_cbc(&key, iv, ciphertext, PADDING_BLOCK).ok_or(DECRYPT_FAILED)
}

/// Compares the token of a payload with that of the bot, if the bot has one.
fn check_token(
    payload: &[u8],
    expected: Option<&Secret>,
    only_handshake: bool,
) -> Result<(), WebhookRefusal> {
    // A decrypted or unencrypted payload that is no JSON proves nothing.
    let proof: PayloadProof<'_> = serde_json::from_slice(payload).map_err(|_| BAD_TOKEN)?;
    if only_handshake && proof.kind.as_deref() != Some("url_verification") {
        return Err(WebhookRefusal::unproven("missing_header"));
    }
    let Some(expected) = expected else { return Ok(()) };
    let found = proof.header.as_ref().and_then(|header| header.token.as_deref()).or(proof.token.as_deref());
    match found.is_some_and(|found| equal(found.as_bytes(), expected.expose().as_bytes())) {
        true => Ok(()),
        false => Err(BAD_TOKEN),
    }
}
