//! Is it truly Telegram? Equality of one header with our secret is the only proof there is.

use http::{HeaderName, Method, StatusCode};

use crate::bots::Bot;
use crate::platform::{Raw, Refusal, Verified};

use super::WEBHOOK_SECRET;

const SECRET_HEADER: HeaderName = HeaderName::from_static("x-telegram-bot-api-secret-token");

pub(super) fn verify(bot: &Bot, raw: Raw) -> Result<Verified, Refusal> {
    if raw.method != Method::POST {
        return Err(Refusal::method());
    }
    if !raw.rest.is_empty() {
        return Err(Refusal { reason: "path", status: StatusCode::NOT_FOUND });
    }
    let mut presented = raw.headers.get_all(SECRET_HEADER).iter();
    let Some(first) = presented.next() else { return Err(Refusal::unproven("missing_header")) };
    if presented.any(|other| other != first) {
        return Err(Refusal::unproven("ambiguous_header"));
    }
    // Fail closed: a bot without a secret has a door that does not open.
    let secret = bot.credentials.get(WEBHOOK_SECRET).filter(|secret| !secret.is_empty());
    let secret = secret.ok_or(Refusal::unproven("no_secret"))?;
    let proven = first.to_str().is_ok_and(|presented| secret.matches(presented.trim_matches([' ', '\t'])));
    if !proven {
        return Err(Refusal::unproven("bad_signature"));
    }
    Ok(Verified { body: raw.body, rest: raw.rest, received: raw.received })
}
