//! Verification of Slack's requests: the `v0` signature, an HMAC over version, timestamp and body.

use http::HeaderName;

use crate::bots::OpenedBot;
use crate::platform::{UnverifiedRequest, VerifiedRequest, WebhookRefusal};
use crate::verification::{MacAlgorithm, WINDOW_SECONDS, check_mac, check_window, hex_bytes, single_header};

use super::SIGNING_SECRET;

const SIGNATURE: HeaderName = HeaderName::from_static("x-slack-signature");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-slack-request-timestamp");
/// The version of the signature, before its digits.
const VERSION: &str = "v0=";

/// The key for the check of a bot without a signing secret. Its result does not count.
const NOBODYS_KEY: &[u8] = &[0; 32];

pub(super) fn verify(bot: &OpenedBot, raw: UnverifiedRequest) -> Result<VerifiedRequest, WebhookRefusal> {
    let signature = single_header(&raw.headers, SIGNATURE)?;
    let timestamp = single_header(&raw.headers, TIMESTAMP)?;
    let digits = signature.strip_prefix(VERSION).ok_or(WebhookRefusal::unproven("malformed_signature"))?;
    let signature = hex_bytes::<32>(digits)?;
    // Not a time at all: the window says so. Whether a time is recent is checked after the signature.
    let in_window = check_window(raw.received, timestamp, WINDOW_SECONDS);
    if in_window.is_err_and(|refusal| refusal.reason == "malformed_timestamp") {
        in_window?;
    }
    let secret = bot.credentials.get(SIGNING_SECRET).filter(|secret| !secret.is_empty());
    // A bot without a secret takes the same work, so that the response time does not reveal which bots exist.
    let key = secret.map_or(NOBODYS_KEY, |secret| secret.expose().as_bytes());
    let parts: [&[u8]; 4] = [b"v0:", timestamp.as_bytes(), b":", &raw.body];
    let proven = check_mac(MacAlgorithm::Sha256, key, &parts, &signature);
    // Fail closed: for a bot without a secret every call is refused.
    if secret.is_none() {
        return Err(WebhookRefusal::unproven("no_secret"));
    }
    proven?;
    in_window?;
    Ok(raw.into_verified())
}
