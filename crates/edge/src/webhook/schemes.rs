//! Signature schemes of webhooks: Standard Webhooks, GitHub, GitLab, Stripe and bearer tokens.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName};
use posthouse_time::Moment;
use posthouse_wire::Secret;

use super::SCHEMES;
use crate::bots::OpenedBot;
use crate::platform::{HeadProof, UnverifiedRequest, WebhookRefusal};
use crate::verification::{
    MacAlgorithm, WINDOW_SECONDS, check_mac, check_window, credential_header, hex_bytes, prefixed_hex,
    secret_of, single_header,
};

const GITLAB_TOKEN: HeaderName = HeaderName::from_static("x-gitlab-token");
/// Longest id of a delivery. A longer one is replaced by its digest.
const LONGEST_ID: usize = 100;

/// A way in which a sender proves itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookProof {
    Standard,
    GitHub,
    GitLab,
    Stripe,
    Bearer,
}

impl WebhookProof {
    pub const ALL: [WebhookProof; 5] = [
        WebhookProof::Standard,
        WebhookProof::GitHub,
        WebhookProof::GitLab,
        WebhookProof::Stripe,
        WebhookProof::Bearer,
    ];

    /// Its name in the setting `schemes`.
    pub const fn name(self) -> &'static str {
        match self {
            WebhookProof::Standard => "standard",
            WebhookProof::GitHub => "github",
            WebhookProof::GitLab => "gitlab",
            WebhookProof::Stripe => "stripe",
            WebhookProof::Bearer => "bearer",
        }
    }

    /// The bot's secret for this scheme.
    pub const fn secret_name(self) -> &'static str {
        match self {
            WebhookProof::Standard => "standard_secret",
            WebhookProof::GitHub => "github_secret",
            WebhookProof::GitLab => "gitlab_token",
            WebhookProof::Stripe => "stripe_secret",
            WebhookProof::Bearer => "bearer_token",
        }
    }

    /// The headers by which a request shows that it uses this scheme.
    const fn marks(self) -> &'static [&'static str] {
        match self {
            WebhookProof::Standard => &["webhook-signature", "webhook-id"],
            WebhookProof::GitHub => &["x-hub-signature-256", "x-github-event"],
            WebhookProof::GitLab => &["x-gitlab-token"],
            WebhookProof::Stripe => &["stripe-signature"],
            WebhookProof::Bearer => &["authorization"],
        }
    }

    fn is_shown_by(self, headers: &HeaderMap) -> bool {
        self.marks().iter().any(|mark| headers.contains_key(*mark))
    }
}

/// The schemes that the operator chose. A name that is none of them is returned as the error.
pub(super) fn chosen(bot: &OpenedBot) -> Result<Vec<WebhookProof>, String> {
    let names =
        bot.setting(SCHEMES).unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let found = WebhookProof::ALL.into_iter().find(|scheme| scheme.name() == name);
            found.ok_or_else(|| name.to_owned())
        })
        .collect()
}

/// The scheme of a request: the first chosen one whose headers it has. Without a chosen scheme nothing is accepted.
pub(super) fn of_request(bot: &OpenedBot, headers: &HeaderMap) -> Result<WebhookProof, WebhookRefusal> {
    let chosen = chosen(bot).unwrap_or_default();
    if chosen.is_empty() {
        return Err(WebhookRefusal::unproven("no_secret"));
    }
    let shown = chosen.into_iter().find(|scheme| scheme.is_shown_by(headers));
    shown.ok_or(WebhookRefusal::unproven("missing_header"))
}

/// Checks a scheme whose proof is in the head: a shared token.
pub(super) fn check_head(
    scheme: WebhookProof,
    bot: &OpenedBot,
    headers: &HeaderMap,
) -> Result<HeadProof, WebhookRefusal> {
    let presented = match scheme {
        WebhookProof::GitLab => credential_header(headers, GITLAB_TOKEN)?,
        WebhookProof::Bearer => {
            let value = credential_header(headers, AUTHORIZATION)?;
            let (kind, token) = value.split_once(' ').unwrap_or((value, ""));
            if !kind.eq_ignore_ascii_case("bearer") {
                return Err(WebhookRefusal::unproven("malformed_signature"));
            }
            token.trim()
        }
        WebhookProof::Standard | WebhookProof::GitHub | WebhookProof::Stripe => {
            return Ok(HeadProof::BodyNeeded);
        }
    };
    match secret_of(bot, scheme.secret_name())?.matches(presented) {
        true => Ok(HeadProof::Proven),
        false => Err(WebhookRefusal::unproven("bad_token")),
    }
}

/// Checks a scheme that signs the body.
pub(super) fn check_body(
    scheme: WebhookProof,
    bot: &OpenedBot,
    raw: &UnverifiedRequest,
) -> Result<(), WebhookRefusal> {
    let secret = secret_of(bot, scheme.secret_name())?;
    match scheme {
        WebhookProof::Standard => check_standard(secret, raw),
        WebhookProof::GitHub => {
            let signature = single_header(&raw.headers, "x-hub-signature-256")?;
            let signature = prefixed_hex::<32>(signature, "sha256=")?;
            check_mac(MacAlgorithm::Sha256, secret.expose().as_bytes(), &[&raw.body], &signature)
        }
        WebhookProof::Stripe => check_stripe(secret, raw),
        WebhookProof::GitLab | WebhookProof::Bearer => Err(WebhookRefusal::unproven("missing_header")),
    }
}

/// The key in a secret of Standard Webhooks: base64, with or without the prefix `whsec_`.
pub(super) fn standard_key(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.expose().trim();
    let key = STANDARD.decode(text.strip_prefix("whsec_").unwrap_or(text)).ok()?;
    (!key.is_empty()).then_some(key)
}

fn check_standard(secret: &Secret, raw: &UnverifiedRequest) -> Result<(), WebhookRefusal> {
    let id = single_header(&raw.headers, "webhook-id")?;
    let timestamp = single_header(&raw.headers, "webhook-timestamp")?;
    let signatures = single_header(&raw.headers, "webhook-signature")?;
    let key = standard_key(secret).ok_or(WebhookRefusal::unproven("no_secret"))?;
    // The signed text has dots between its parts, so that an id with a dot could be read in two ways.
    if id.contains('.') {
        return Err(WebhookRefusal::unproven("malformed_signature"));
    }
    check_window(raw.received, timestamp, WINDOW_SECONDS)?;
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &raw.body];
    let given = signatures.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    any_matches(&key, &parts, given)
}

fn check_stripe(secret: &Secret, raw: &UnverifiedRequest) -> Result<(), WebhookRefusal> {
    let header = single_header(&raw.headers, "stripe-signature")?;
    let fields = || header.split(',').filter_map(|field| field.trim().split_once('='));
    let mut times = fields().filter(|(name, _)| *name == "t").map(|(_, time)| time);
    let (Some(time), None) = (times.next(), times.next()) else {
        return Err(WebhookRefusal::unproven("malformed_signature"));
    };
    check_window(raw.received, time, WINDOW_SECONDS)?;
    let given = fields().filter(|(name, _)| *name == "v1");
    let given = given.filter_map(|(_, digits)| hex_bytes::<32>(digits).ok().map(Vec::from));
    any_matches(secret.expose().as_bytes(), &[time.as_bytes(), b".", &raw.body], given)
}

/// A sender that changes its secret signs with both for a while, so one good signature is enough.
fn any_matches(
    key: &[u8],
    parts: &[&[u8]],
    mut given: impl Iterator<Item = Vec<u8>>,
) -> Result<(), WebhookRefusal> {
    match given.any(|signature| check_mac(MacAlgorithm::Sha256, key, parts, &signature).is_ok()) {
        true => Ok(()),
        false => Err(WebhookRefusal::unproven("bad_signature")),
    }
}

/// The sender's id of a delivery, by which repeats are recognised. `body_id` is the id in the body, if it has one.
pub(super) fn delivery_id(
    scheme: Option<WebhookProof>,
    headers: &HeaderMap,
    body_id: Option<&str>,
    received: Moment,
) -> String {
    let header = |name: &str| single_header(headers, name).ok().filter(|id| !id.is_empty());
    let given = match scheme {
        Some(WebhookProof::Standard) => header("webhook-id"),
        Some(WebhookProof::GitHub) => header("x-github-delivery"),
        Some(WebhookProof::GitLab) => header("idempotency-key").or_else(|| header("x-gitlab-event-uuid")),
        Some(WebhookProof::Stripe) => body_id,
        Some(WebhookProof::Bearer) | None => header("idempotency-key").or_else(|| header("webhook-id")),
    };
    match given {
        Some(id) if id.len() <= LONGEST_ID && id.bytes().all(|byte| byte.is_ascii_graphic()) => id.to_owned(),
        Some(id) => hex::encode(digest::digest(&digest::SHA256, id.as_bytes())),
        // Nothing tells a repeat from a second event. A lost event would be worse than a repeated one.
        None => posthouse_wire::EntryId::mint(received.millis()).to_string().replacen("ent_", "req_", 1),
    }
}

/// The name of the event, as its sender gives it in the headers.
pub(super) fn event_name(headers: &HeaderMap) -> Option<&str> {
    ["x-github-event", "x-gitlab-event"].into_iter().find_map(|name| single_header(headers, name).ok())
}
