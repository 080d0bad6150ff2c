//! Signed webhooks of any service: each bot is a route that proves its sender, filters events and makes texts of them.
//!
//! Settings of a bot:
//!
//! - `schemes`: the signature schemes that the sender may use, separated by commas
//! - `template`, `mask`, `only`, `events`: which events become messages, and with which text ([`rendering`])
//! - `host`: a host name that the operator maps to this bot

pub mod rendering;
mod schemes;
mod strict_json;

use async_trait::async_trait;
use aws_lc_rs::digest;
use http::header::CONTENT_TYPE;
use posthouse_wire::{Descriptor, Event, Outcome, Source};
use relay::{EgressResult, PermittedAction, StopRule};
use serde_json::{Map, Value};

use self::rendering::{RenderedWebhook, WebhookRendering};
pub use self::schemes::WebhookProof;
use crate::bots::OpenedBot;
use crate::mapped_hosts::host_name;
use crate::platform::{
    Arrival, BotField, BotTrouble, EventDelivery, HeadProof, Platform, PlatformBot, Reading, RequestHead,
    UnverifiedRequest, Verification, VerifiedRequest, WebhookRefusal,
};
use crate::verification::{form_fields, single_field};

const PLATFORM: &str = "webhook";
/// Display name of the platform.
const LABEL: &str = "Webhook";
const SCHEMES: &str = "schemes";
const HOST: &str = "host";

/// The platform `webhook`.
#[derive(Clone, Debug, Default)]
pub struct Webhook;

impl Webhook {
    /// What a body becomes with these settings, for trying them out.
    pub fn try_out(
        settings: &Map<String, Value>,
        body: &[u8],
        event: Option<&str>,
    ) -> Result<RenderedWebhook, String> {
        let rendering = WebhookRendering::read(settings)?;
        let unreadable = || "the body is no JSON, or an object in it has the same key twice".to_owned();
        rendering.render(body, event).ok_or_else(unreadable)
    }
}

/// The body of a request. GitHub can send its JSON as a field of a form.
fn body_of(verified: &VerifiedRequest) -> Result<Vec<u8>, WebhookRefusal> {
    let kind = verified.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    if !kind.trim_start().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded") {
        return Ok(verified.body.to_vec());
    }
    let fields = form_fields(&verified.body);
    match (single_field(&fields, "payload"), fields.iter().any(|(name, _)| name == "payload")) {
        (Some(payload), _) => Ok(payload.as_bytes().to_vec()),
        (None, true) => Err(WebhookRefusal::malformed("malformed_body")),
        (None, false) => Ok(verified.body.to_vec()),
    }
}

fn normalize(bot: &OpenedBot, verified: &VerifiedRequest) -> Result<Reading, WebhookRefusal> {
    let malformed = || WebhookRefusal::malformed("malformed_body");
    let body = body_of(verified)?;
    let rendering = WebhookRendering::read(&bot.settings).map_err(|wrong| {
        tracing::warn!(bot.id = %bot.id, wrong, "a webhook cannot be read with the settings of its bot");
        malformed()
    })?;
    let event_name = schemes::event_name(&verified.headers);
    let text = match rendering.render(&body, event_name).ok_or_else(malformed)? {
        RenderedWebhook::Text(text) => text,
        RenderedWebhook::Filtered => return Ok(Reading::ignored("filter")),
        RenderedWebhook::Empty => return Ok(Reading::ignored("empty")),
    };
    let scheme = schemes::of_request(bot, &verified.headers).ok();
    let id_in_body = strict_json::read(&body).and_then(|fields| Some(fields.get("id")?.as_str()?.to_owned()));
    let delivery = schemes::delivery_id(scheme, &verified.headers, id_in_body.as_deref(), verified.received);
    let route = bot.id.as_str();
    let source = Source {
        platform: PLATFORM.into(),
        chat_id: Some(format!("webhook:{route}:{delivery}").into()),
        chat_type: "webhook".to_owned(),
        chat_name: Some(format!("webhook/{route}")),
        user_id: Some(format!("webhook:{route}").into()),
        user_name: Some(route.to_owned()),
        message_id: Some(delivery.as_str().into()),
        ..Source::default()
    };
    let event = Event { text, message_id: source.message_id.clone(), source, ..Event::default() };
    let key = |id: &str| format!("{PLATFORM}:{route}:{id}").into();
    // GitHub does not sign the id of a delivery. A repeat of the same body under another id is a replay.
    let signed = (scheme == Some(WebhookProof::GitHub))
        .then(|| key(&hex::encode(digest::digest(&digest::SHA256, &verified.body))));
    Ok(Reading {
        arrivals: vec![Arrival {
            addressed: true,
            path: Some(route.to_owned()),
            other_dedups: signed.into_iter().collect(),
            ..Arrival::new(event, key(&delivery), verified.received)
        }],
        ..Reading::default()
    })
}

#[async_trait]
impl Platform for Webhook {
    fn name(&self) -> &'static str {
        PLATFORM
    }

    fn descriptor(&self, _: &OpenedBot) -> Descriptor {
        Descriptor { emoji: "🪝".to_owned(), ..Descriptor::new(PLATFORM, LABEL) }
    }

    /// A text of a program is never a command of a person.
    fn stop_rule(&self) -> StopRule {
        StopRule::Text
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::setting(
                SCHEMES,
                "how the sender proves itself: standard, github, gitlab, stripe or bearer",
            ),
            BotField::secret(
                WebhookProof::Standard.secret_name(),
                "the signing secret of Standard Webhooks, which begins with whsec_",
            )
            .needed_with(SCHEMES, WebhookProof::Standard.name()),
            BotField::secret(WebhookProof::GitHub.secret_name(), "the secret of the webhook at GitHub")
                .needed_with(SCHEMES, WebhookProof::GitHub.name()),
            BotField::secret(WebhookProof::GitLab.secret_name(), "the secret token of the webhook at GitLab")
                .needed_with(SCHEMES, WebhookProof::GitLab.name()),
            BotField::secret(
                WebhookProof::Stripe.secret_name(),
                "the signing secret of the endpoint at Stripe",
            )
            .needed_with(SCHEMES, WebhookProof::Stripe.name()),
            BotField::secret(WebhookProof::Bearer.secret_name(), "the token that the sender sends as bearer")
                .needed_with(SCHEMES, WebhookProof::Bearer.name()),
            BotField::setting("template", "the text of a message, with {paths} of fields of the body")
                .optional(),
            BotField::setting("mask", "fields that no agent gets, as paths separated by commas").optional(),
            BotField::setting("events", "names of the events that become messages, separated by commas")
                .optional(),
            BotField::setting(HOST, "a host name whose requests are for this webhook").optional(),
        ];
        FIELDS
    }

    fn delivery(&self, _bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        EventDelivery::Webhook
    }

    fn setup_steps(&self, bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
        let address = match (bot.setting(HOST), door) {
            (Some(host), _) => format!("https://{host}/"),
            (None, Some(door)) => door.to_owned(),
            (None, None) => {
                let needed = "The sender cannot call this server. Set server.public_url to an address that it can reach.";
                return vec![needed.to_owned()];
            }
        };
        vec![format!("Enter {address} as the URL of the webhook at the sender, with the same secret.")]
    }

    /// A sender is anything that can call this server, also one on the same machine.
    fn is_neighbour(&self, _bot: &OpenedBot) -> bool {
        true
    }

    fn proves_senders(&self) -> bool {
        true
    }

    fn host_of<'b>(&self, bot: &'b OpenedBot) -> Option<&'b str> {
        bot.setting(HOST)
    }

    /// There is no account to ask. The settings are checked, so that a mistake shows before the first event.
    async fn check_credentials(&self, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
        let trouble = |text: &str| BotTrouble::Other(text.to_owned());
        let chosen = schemes::chosen(draft).map_err(|name| {
            BotTrouble::Other(format!(
                "`{name}` is no signature scheme: use standard, github, gitlab, stripe or bearer"
            ))
        })?;
        if chosen.is_empty() {
            return Err(trouble(
                "a webhook needs a signature scheme, because it would be open to everybody otherwise",
            ));
        }
        for scheme in &chosen {
            let secret = draft.credentials.get(scheme.secret_name()).filter(|secret| !secret.is_empty());
            let secret = secret.ok_or_else(|| {
                BotTrouble::Other(format!(
                    "the scheme {} needs the secret `{}`",
                    scheme.name(),
                    scheme.secret_name()
                ))
            })?;
            if *scheme == WebhookProof::Standard && schemes::standard_key(secret).is_none() {
                return Err(trouble(
                    "the secret of Standard Webhooks must be base64 after the prefix whsec_",
                ));
            }
        }
        WebhookRendering::read(&draft.settings).map_err(BotTrouble::Other)?;
        if draft.setting(HOST).is_some_and(|host| host_name(host).as_deref() != Some(host)) {
            return Err(trouble(
                "the setting `host` must be a host name in lower case, without scheme and port",
            ));
        }
        if draft.id.is_empty() {
            return Err(trouble("give the webhook an id: posthouse bot create webhook --id NAME"));
        }
        Ok(PlatformBot { id: draft.id.to_string(), settings: Map::new() })
    }

    fn verify_head(&self, bot: &OpenedBot, head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
        schemes::check_head(schemes::of_request(bot, head.headers)?, bot, head.headers)
    }

    fn verify<'a>(&'a self, bot: &'a OpenedBot, raw: UnverifiedRequest) -> Verification<'a> {
        let checked = schemes::of_request(bot, &raw.headers)
            .and_then(|scheme| schemes::check_body(scheme, bot, &raw))
            .map(|()| raw.into_verified());
        Verification::Done(checked)
    }

    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        normalize(bot, &verified)
    }

    /// A sender of webhooks cannot be written to.
    async fn perform(&self, _bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        Outcome::unsupported(permitted.action.op()).into()
    }

    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }
}
