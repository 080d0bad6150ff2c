//! Interactions of Slack (buttons, lists, forms, slash commands): response URLs, triggers, and replies in the
//! acknowledgement.

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::{SlackPlatform, settings::SlackApp, workspace::SlackTrigger};
use crate::harness::{ApiCall, PlatformRow, RefusedCall, json_response, respond};

/// Lifetime of a response URL.
const RESPONSE_URL_MS: i64 = 30 * 60 * 1000;
/// How often it can be used.
const RESPONSE_URL_USES: u32 = 5;
/// Lifetime of a trigger.
const TRIGGER_MS: i64 = 3_000;

/// A response URL that was given out.
pub(super) struct ResponseUrl {
    app: String,
    channel: String,
    /// The message with the button, if there is one.
    message_ts: Option<String>,
    at_ms: i64,
    uses: u32,
}

impl SlackPlatform {
    /// A new response URL and a new trigger id.
    pub(super) fn new_capabilities(
        &self,
        app: &SlackApp,
        channel: &str,
        message_ts: Option<&str>,
    ) -> (String, String) {
        let (number, at_ms) = (self.harness.next_id(), self.harness.now_ms());
        let token = format!("response-token-{number}");
        let trigger = format!("{number}.{}.trigger", at_ms);
        let mut world = self.world.lock();
        let url = ResponseUrl {
            app: app.id.clone(),
            channel: channel.to_owned(),
            message_ts: message_ts.map(str::to_owned),
            at_ms,
            uses: 0,
        };
        world.response_urls.insert(token.clone(), url);
        world.triggers.insert(trigger.clone(), SlackTrigger { app: app.id.clone(), at_ms, is_used: false });
        (format!("{}/response/{}/{token}", self.harness.base_url(), app.team_id), trigger)
    }

    /// Posts a message through a response URL.
    pub(super) fn answer_by_url(&self, call: &ApiCall) -> Response<Body> {
        let refuse =
            |status: u16, error: &'static str| json_response(status, &json!({"ok": false, "error": error}));
        let token = call.path.rsplit('/').next().unwrap_or_default();
        let Ok(body) = serde_json::from_slice::<Value>(&call.body) else {
            return refuse(400, "invalid_payload");
        };
        let now_ms = self.harness.now_ms();
        let (app, channel, message_ts) = {
            let mut world = self.world.lock();
            let Some(url) = world.response_urls.get_mut(token) else { return refuse(404, "no_service") };
            if now_ms - url.at_ms >= RESPONSE_URL_MS {
                return refuse(404, "expired_url");
            }
            if url.uses >= RESPONSE_URL_USES {
                return refuse(404, "used_url");
            }
            url.uses += 1;
            (url.app.clone(), url.channel.clone(), url.message_ts.clone())
        };
        self.publish_reply(&app, &channel, message_ts.as_deref(), &body, "response_url");
        respond(200, "text/plain", "ok")
    }

    /// Posts the message in the acknowledgement of a command or an interaction, if there is one.
    pub(super) fn take_reply(&self, app: &SlackApp, payload: &Value, body: &[u8]) {
        if body.is_empty() {
            return;
        }
        let said =
            serde_json::from_slice(body).unwrap_or_else(|_| json!({"text": String::from_utf8_lossy(body)}));
        let channel = payload["channel_id"].as_str().or_else(|| payload["channel"]["id"].as_str());
        if said.get("text").is_some() || said.get("blocks").is_some() {
            self.publish_reply(&app.id, channel.unwrap_or_default(), None, &said, "acknowledgement");
        }
    }

    /// Posts a reply: ephemeral unless it says `in_channel`, and in place of the original if it says so.
    fn publish_reply(
        &self,
        app: &str,
        channel: &str,
        message_ts: Option<&str>,
        body: &Value,
        call: &'static str,
    ) {
        let replaces = body["replace_original"] == true || body["delete_original"] == true;
        let is_public = body["response_type"] == "in_channel";
        let mut world = self.world.lock();
        let ts = world.next_ts(self.harness.now_ms());
        if let Some(conversation) = world.conversations.get_mut(channel) {
            let text = body["text"].clone();
            match message_ts.filter(|_| replaces).and_then(|ts| conversation.messages.get_mut(ts)) {
                Some(message) => {
                    message["text"] = text;
                    message["blocks"] = body["blocks"].clone();
                }
                None if is_public => {
                    let message = json!({"type": "message", "ts": ts, "text": text, "app_id": app});
                    conversation.store(ts.clone(), message);
                }
                None => {}
            }
        }
        drop(world);
        let kind = if replaces && message_ts.is_some() { "edited" } else { "sent" };
        let mut row = PlatformRow::new(app, kind, call).chat(channel).raw(body.clone());
        row.message_id = Some(message_ts.filter(|_| replaces).map_or(ts, str::to_owned));
        row.thread_id = body["thread_ts"].as_str().map(str::to_owned);
        row.text = body["text"].as_str().map(str::to_owned);
        self.harness.record(row);
    }

    /// Uses up a trigger. `Err` is the error of the Web API.
    pub(super) fn use_trigger(&self, app: &SlackApp, id: &str) -> Result<(), &'static str> {
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        let trigger =
            world.triggers.get_mut(id).filter(|trigger| trigger.app == app.id).ok_or("invalid_trigger_id")?;
        if now_ms - trigger.at_ms > TRIGGER_MS {
            return Err("expired_trigger_id");
        }
        if std::mem::replace(&mut trigger.is_used, true) {
            return Err("exchanged_trigger_id");
        }
        Ok(())
    }
}

/// `{"ok": false, "error": ...}` with status 200, as the Web API refuses.
pub(super) fn refusal(error: &str) -> Response<Body> {
    let mut response = json_response(200, &json!({"ok": false, "error": error}));
    response.extensions_mut().insert(RefusedCall);
    response
}
