//! Delivery of Slack events: to the sockets of an app, or signed to its URLs.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{SlackPlatform, settings::SlackApp};
use crate::harness::{OutgoingRequest, PlatformRow, ReceiverAnswer, form};

/// URLs of an app, as its settings page has them.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AppUrls {
    /// For events.
    pub events: Option<String>,
    /// For buttons, lists and forms. Default: the same as for events.
    pub interactivity: Option<String>,
    /// For slash commands. Default: the same as for events.
    pub commands: Option<String>,
}

/// Kind of a delivery.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DeliveryKind {
    Event,
    Interaction,
    Command,
}

impl DeliveryKind {
    /// The type of its envelope on a socket.
    pub fn envelope(self) -> &'static str {
        match self {
            DeliveryKind::Event => "events_api",
            DeliveryKind::Interaction => "interactive",
            DeliveryKind::Command => "slash_commands",
        }
    }

    fn url(self, urls: &AppUrls) -> Option<String> {
        let own = match self {
            DeliveryKind::Event => &urls.events,
            DeliveryKind::Interaction => &urls.interactivity,
            DeliveryKind::Command => &urls.commands,
        };
        own.clone().or_else(|| urls.events.clone())
    }

    /// Body and type of the request.
    fn write(self, payload: &Value) -> (Bytes, &'static str) {
        const FORM: &str = "application/x-www-form-urlencoded";
        match self {
            DeliveryKind::Event => (Bytes::from(payload.to_string()), "application/json"),
            DeliveryKind::Interaction => {
                let body = form::write_pairs(&[("payload".to_owned(), payload.to_string())]);
                (Bytes::from(body), FORM)
            }
            DeliveryKind::Command => {
                let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                let fields = payload.as_object().into_iter().flatten();
                let pairs: Vec<_> = fields.map(|(name, value)| (name.clone(), text(value))).collect();
                (Bytes::from(form::write_pairs(&pairs)), FORM)
            }
        }
    }
}

/// A request with the signature of an app, version v0.
pub(super) fn signed(
    app: &SlackApp,
    url: &str,
    body: Bytes,
    kind: &'static str,
    now_ms: i64,
) -> OutgoingRequest {
    let timestamp = (now_ms / 1000).to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, app.signing_secret.as_bytes());
    let tag = hmac::sign(&key, &[b"v0:", timestamp.as_bytes(), b":", &body].concat());
    OutgoingRequest {
        method: http::Method::POST,
        url: url.to_owned(),
        headers: vec![
            ("content-type", kind.to_owned()),
            ("user-agent", "Slackbot 1.0 (+https://api.slack.com/robots)".to_owned()),
            ("x-slack-request-timestamp", timestamp),
            ("x-slack-signature", format!("v0={}", hex::encode(tag.as_ref()))),
        ],
        body,
    }
}

impl SlackPlatform {
    /// Wraps an event and delivers it to every app that is in the conversation.
    pub(super) fn announce(self: &Arc<Self>, channel: &str, event: &Value) -> Vec<String> {
        let apps: Vec<SlackApp> = {
            let world = self.world.lock();
            let members = world.conversations.get(channel).map(|conversation| &conversation.members);
            let is_in = |app: &&SlackApp| members.is_some_and(|members| members.contains(&app.bot_user_id));
            world.apps.iter().filter(is_in).cloned().collect()
        };
        apps.iter().map(|app| self.announce_to(app, event)).collect()
    }

    pub(super) fn announce_to(self: &Arc<Self>, app: &SlackApp, event: &Value) -> String {
        let id = format!("Ev{:08}", self.harness.next_id());
        let payload = json!({
            "token": "legacy-verification-token", "team_id": app.team_id, "api_app_id": app.id,
            "event": event, "type": "event_callback", "event_id": id, "event_time": self.harness.now_ms() / 1000,
            "authorizations": [{
                "enterprise_id": null, "team_id": app.team_id, "user_id": app.bot_user_id, "is_bot": true,
                "is_enterprise_install": false,
            }],
            "is_ext_shared_channel": false, "event_context": format!("4-{id}"),
        });
        self.deliver(app, DeliveryKind::Event, &id, payload);
        id
    }

    /// Delivers to a socket if one is open, otherwise to the URL of the app.
    pub(super) fn deliver(self: &Arc<Self>, app: &SlackApp, kind: DeliveryKind, id: &str, payload: Value) {
        let (has_socket, url) = {
            let world = self.world.lock();
            let has_socket = world.sockets.values().any(|socket| socket.app == app.id);
            (has_socket, world.urls.get(&app.id).and_then(|urls| kind.url(urls)))
        };
        let make = || {
            let (slack, app, id, payload, url) =
                (self.clone(), app.clone(), id.to_owned(), payload.clone(), url.clone());
            async move {
                match url {
                    _ if has_socket => slack.deliver_to_socket(&app, kind, &id, payload).await,
                    Some(url) => slack.deliver_to_url(&app, kind, &id, &payload, &url).await,
                    None => {
                        let row = PlatformRow::new(app.id, "undelivered", kind.envelope()).message(id);
                        slack.harness.record(row.text("the app has neither a socket nor a URL"));
                    }
                }
            }
        };
        self.harness.dispatch(&app.id, make);
    }

    async fn deliver_to_url(&self, app: &SlackApp, kind: DeliveryKind, id: &str, payload: &Value, url: &str) {
        let (body, content_type) = kind.write(payload);
        let build = |attempt: u32, before: Option<&Result<ReceiverAnswer, String>>| {
            let mut request = signed(app, url, body.clone(), content_type, self.harness.now_ms());
            if attempt > 1 {
                let reason = match before {
                    Some(Err(error)) if error.contains("in time") => "http_timeout",
                    Some(Err(_)) => "connection_failed",
                    _ => "http_error",
                };
                request.headers.push(("x-slack-retry-num", (attempt - 1).to_string()));
                request.headers.push(("x-slack-retry-reason", reason.to_owned()));
            }
            request
        };
        let is_final = |answer: &ReceiverAnswer| {
            // Only events are repeated, unless the receiver asks for no repeats.
            (200..300).contains(&answer.status)
                || kind != DeliveryKind::Event
                || answer.headers.get("x-slack-no-retry").is_some_and(|value| value == "1")
        };
        let answer = if kind == DeliveryKind::Event {
            self.harness.deliver(&app.id, id, build, is_final).await
        } else {
            let limit: Duration = self.settings.acknowledgement;
            let attempt = self.harness.attempt(&app.id, id, 1, build(1, None));
            tokio::time::timeout(limit, attempt).await.ok().and_then(Result::ok)
        };
        match answer {
            Some(answer) if (200..300).contains(&answer.status) => {
                self.harness
                    .record(PlatformRow::new(app.id.clone(), "acknowledged", kind.envelope()).message(id));
                if kind != DeliveryKind::Event {
                    self.take_reply(app, payload, &answer.body);
                }
            }
            _ => {
                let row = PlatformRow::new(app.id.clone(), "unacknowledged", kind.envelope()).message(id);
                self.harness.record(row);
            }
        }
    }

    /// Stores URLs. A new events URL is verified with a challenge.
    pub(super) fn set_urls(self: &Arc<Self>, app: Option<&str>, urls: AppUrls) {
        let app = {
            let mut world = self.world.lock();
            let app = app.map_or_else(|| world.apps.first(), |id| world.app(id)).cloned();
            let Some(app) = app else { return };
            world.urls.insert(app.id.clone(), urls.clone());
            app
        };
        let Some(url) = urls.events else { return };
        let slack = self.clone();
        self.harness.spawn(async move {
            let challenge = format!("challenge-{}", slack.harness.next_id());
            let body = json!({"token": "legacy", "challenge": challenge, "type": "url_verification"});
            let request =
                signed(&app, &url, Bytes::from(body.to_string()), "application/json", slack.harness.now_ms());
            let answer = slack.harness.attempt(&app.id, "url_verification", 1, request).await;
            let echoes = |answer: ReceiverAnswer| {
                let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                answer.status == 200
                    && (answer.body == challenge.as_bytes() || said["challenge"] == *challenge)
            };
            let kind = if answer.is_ok_and(echoes) { "events_url_verified" } else { "events_url_refused" };
            slack.harness.record(PlatformRow::new(app.id, kind, "url_verification"));
        });
    }
}
