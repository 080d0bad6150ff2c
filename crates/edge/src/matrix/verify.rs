//! Verification of a homeserver's calls to an application service: its `hs_token`, in the head of each request.

use http::header::AUTHORIZATION;

use super::{ALLOW_QUERY_TOKEN, HS_TOKEN};
use crate::bots::OpenedBot;
use crate::platform::{HeadProof, RequestHead, WebhookRefusal};
use crate::verification::{equal, form_fields, secret_of, single_field, single_header};

pub(super) fn verify_head(bot: &OpenedBot, head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
    let in_header = match head.headers.contains_key(AUTHORIZATION) {
        true => bearer(single_header(head.headers, AUTHORIZATION)?),
        false => None,
    };
    let fields = form_fields(head.query.as_bytes());
    let has_query_token = fields.iter().any(|(name, _)| name == "access_token");
    let in_query = single_field(&fields, "access_token");
    let token = match (in_header, in_query) {
        // Which of two different tokens counts would depend on the reader.
        (Some(header), Some(query)) if !equal(header.as_bytes(), query.as_bytes()) => {
            return Err(WebhookRefusal::forbidden("ambiguous_header"));
        }
        (Some(_), None) if has_query_token => return Err(WebhookRefusal::forbidden("ambiguous_header")),
        (Some(header), _) => header,
        (None, Some(query)) if bot.setting(ALLOW_QUERY_TOKEN) == Some("true") => query,
        (None, _) => return Err(WebhookRefusal::unproven("missing_header")),
    };
    // The same status as for a wrong token, so that a bot without this secret looks like one with it.
    let known = secret_of(bot, HS_TOKEN).map_err(|_| WebhookRefusal::forbidden("no_secret"))?;
    match known.matches(token) {
        true => Ok(HeadProof::Proven),
        false => Err(WebhookRefusal::forbidden("bad_token")),
    }
}

/// The token of the scheme `Bearer`, whose name is case-insensitive.
fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_start_matches(' '))
}
