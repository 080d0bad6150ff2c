//! Verification of WhatsApp's webhook calls: the handshake of a new URL, and signatures over the raw body.

use http::{HeaderName, Method};

use super::{APP_SECRET, VERIFY_TOKEN};
use crate::bots::OpenedBot;
use crate::platform::{
    HeadProof, PlatformResponse, RequestHead, UnverifiedRequest, VerifiedRequest, WebhookRefusal,
};
use crate::verification::{
    MacAlgorithm, check_mac, form_fields, prefixed_hex, secret_of, single_field, single_header,
};

const SIGNATURE: HeaderName = HeaderName::from_static("x-hub-signature-256");

/// Checks the handshake, whose proof is in the query. A notification is proven by its body.
pub(super) fn verify_head(bot: &OpenedBot, head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
    if *head.method != Method::GET {
        return Ok(HeadProof::BodyNeeded);
    }
    let fields = form_fields(head.query.as_bytes());
    let token = single_field(&fields, "hub.verify_token").unwrap_or_default();
    let known = secret_of(bot, VERIFY_TOKEN).map_err(|_| WebhookRefusal::forbidden("no_secret"))?;
    if !known.matches(token) {
        return Err(WebhookRefusal::forbidden("bad_token"));
    }
    if single_field(&fields, "hub.mode") != Some("subscribe") {
        return Err(WebhookRefusal::forbidden("bad_mode"));
    }
    match single_field(&fields, "hub.challenge") {
        Some(_) => Ok(HeadProof::Proven),
        None => Err(WebhookRefusal::malformed("malformed_body")),
    }
}

pub(super) fn verify(bot: &OpenedBot, raw: UnverifiedRequest) -> Result<VerifiedRequest, WebhookRefusal> {
    let signature = prefixed_hex::<32>(single_header(&raw.headers, SIGNATURE)?, "sha256=")?;
    let secret = secret_of(bot, APP_SECRET)?;
    check_mac(MacAlgorithm::Sha256, secret.expose().as_bytes(), &[&raw.body], &signature)?;
    Ok(raw.into_verified())
}

/// The response to a verified handshake: its challenge.
pub(super) fn challenge(query: &str) -> PlatformResponse {
    let fields = form_fields(query.as_bytes());
    let challenge = single_field(&fields, "hub.challenge").unwrap_or_default();
    PlatformResponse {
        content_type: Some("text/plain"),
        ..PlatformResponse::text(challenge.as_bytes().to_vec())
    }
}
