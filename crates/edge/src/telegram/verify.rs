//! Verification of webhook calls: the secret header must equal the bot's secret. Telegram offers no other proof.

use http::HeaderName;

use crate::bots::OpenedBot;
use crate::platform::{HeadProof, Raw, RequestHead, VerifiedBody, WebhookRefusal};

use super::WEBHOOK_SECRET;

const SECRET_HEADER: HeaderName = HeaderName::from_static("x-telegram-bot-api-secret-token");

pub(super) fn verify(bot: &OpenedBot, raw: Raw) -> Result<VerifiedBody, WebhookRefusal> {
    verify_head(bot, &RequestHead { method: &raw.method, headers: &raw.headers })?;
    Ok(VerifiedBody { body: raw.body, received: raw.received })
}

pub(super) fn verify_head(bot: &OpenedBot, head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
    let mut presented = head.headers.get_all(SECRET_HEADER).iter();
    let Some(first) = presented.next() else { return Err(WebhookRefusal::unproven("missing_header")) };
    if presented.any(|other| other != first) {
        return Err(WebhookRefusal::unproven("ambiguous_header"));
    }
    // Fail closed: for a bot without a secret every call is refused.
    let secret = bot.credentials.get(WEBHOOK_SECRET).filter(|secret| !secret.is_empty());
    let secret = secret.ok_or(WebhookRefusal::unproven("no_secret"))?;
    let proven = first.to_str().is_ok_and(|presented| secret.matches(presented.trim_matches([' ', '\t'])));
    if !proven {
        return Err(WebhookRefusal::unproven("bad_signature"));
    }
    Ok(HeadProof::Proven)
}
