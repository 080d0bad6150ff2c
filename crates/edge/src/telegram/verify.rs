//! Verification of webhook calls: the secret header must equal the bot's secret. Telegram offers no other proof.

use http::HeaderName;

use crate::bots::OpenedBot;
use crate::platform::{HeadProof, RequestHead, WebhookRefusal};
use crate::verification::{credential_header, secret_of};

use super::WEBHOOK_SECRET;

const SECRET_HEADER: HeaderName = HeaderName::from_static("x-telegram-bot-api-secret-token");

pub(super) fn verify_head(bot: &OpenedBot, head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
    let presented = credential_header(head.headers, SECRET_HEADER)?;
    match secret_of(bot, WEBHOOK_SECRET)?.matches(presented) {
        true => Ok(HeadProof::Proven),
        false => Err(WebhookRefusal::unproven("bad_signature")),
    }
}
