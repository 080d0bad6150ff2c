//! Verification of webhook calls: the secret header must equal the bot's secret. Telegram offers no other proof.

use http::{HeaderName, Method, StatusCode};

use crate::bots::Bot;
use crate::platform::{Head, HeadProof, Raw, Refusal, Verified};

use super::WEBHOOK_SECRET;

const SECRET_HEADER: HeaderName = HeaderName::from_static("x-telegram-bot-api-secret-token");

pub(super) fn verify(bot: &Bot, raw: Raw) -> Result<Verified, Refusal> {
    verify_head(bot, &Head { method: &raw.method, rest: &raw.rest, headers: &raw.headers })?;
    Ok(Verified { body: raw.body, rest: raw.rest, received: raw.received })
}

pub(super) fn verify_head(bot: &Bot, head: &Head<'_>) -> Result<HeadProof, Refusal> {
    if head.method != Method::POST {
        return Err(Refusal::method());
    }
    if !head.rest.is_empty() {
        return Err(Refusal { reason: "path", status: StatusCode::NOT_FOUND });
    }
    let mut presented = head.headers.get_all(SECRET_HEADER).iter();
    let Some(first) = presented.next() else { return Err(Refusal::unproven("missing_header")) };
    if presented.any(|other| other != first) {
        return Err(Refusal::unproven("ambiguous_header"));
    }
    // Fail closed: for a bot without a secret every call is refused.
    let secret = bot.credentials.get(WEBHOOK_SECRET).filter(|secret| !secret.is_empty());
    let secret = secret.ok_or(Refusal::unproven("no_secret"))?;
    let proven = first.to_str().is_ok_and(|presented| secret.matches(presented.trim_matches([' ', '\t'])));
    if !proven {
        return Err(Refusal::unproven("bad_signature"));
    }
    Ok(HeadProof::Proven)
}
