//! Methods of Slack's Web API: tokens, rate limits, and the list of methods.

mod chat;
mod conversations;
mod files;
mod stream;

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use http::Response;
use serde_json::{Value, json};

use super::{SlackPlatform, arguments::Arguments, interactions::refusal, settings::SlackApp, too_many};
use crate::harness::{ApiCall, PlatformRow, json_response};

/// The result of a method: the fields of the answer, or an error code.
pub(super) type MethodResult = Result<Value, &'static str>;

/// A call of a method by an app.
pub(super) struct SlackCall<'a> {
    pub slack: &'a Arc<SlackPlatform>,
    pub app: SlackApp,
    pub method: &'a str,
    pub arguments: Arguments,
    pub now_ms: i64,
}

impl SlackPlatform {
    pub(super) fn method(self: &Arc<Self>, call: &ApiCall) -> Response<Body> {
        let method = call.subject.call.as_str();
        let arguments = Arguments::read(&call.head, &call.body);
        let Some(token) = arguments.token(&call.head) else { return refusal("not_authed") };
        let app = self.world.lock().app_by_token(&token).cloned();
        let Some(app) = app else { return refusal("invalid_auth") };
        // An app-level token opens sockets and nothing else.
        if (token == app.app_token) != (method == "apps.connections.open") {
            return refusal("not_allowed_token_type");
        }
        if let Some(wait) = self.limit(&app, method, call.subject.chat.as_deref()) {
            return too_many(wait);
        }
        let call = SlackCall { slack: self, app, method, arguments, now_ms: self.harness.now_ms() };
        match call.run() {
            Ok(mut answer) => {
                answer["ok"] = Value::Bool(true);
                json_response(200, &answer)
            }
            Err(error) => refusal(error),
        }
    }

    /// Time to wait, if the app is over a limit.
    fn limit(&self, app: &SlackApp, method: &str, channel: Option<&str>) -> Option<Duration> {
        let limits = self.settings.limits?;
        let is_message = method == "chat.postMessage";
        let key = format!("{}/{method}/{}", app.id, channel.filter(|_| is_message).unwrap_or_default());
        let (most, window_ms) =
            if is_message { (limits.messages_per_second, 1_000) } else { (limits.calls_per_minute, 60_000) };
        let mut world = self.world.lock();
        if world.windows.len() > 10_000 {
            world.windows.clear();
        }
        let wait =
            world.windows.entry(key).or_default().admit(most, window_ms, self.harness.now_ms()).err()?;
        Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
    }
}

impl SlackCall<'_> {
    fn run(&self) -> MethodResult {
        match self.method {
            "api.test" => Ok(json!({"args": self.arguments.described()})),
            "auth.test" => Ok(self.identity()),
            "apps.connections.open" => self.open_socket(),
            "bots.info" => Ok(json!({"bot": {
                "id": self.app.bot_id, "name": self.app.name, "user_id": self.app.bot_user_id, "app_id": self.app.id,
            }})),
            "team.info" => Ok(json!({"team": {
                "id": self.app.team_id, "name": "Stand-in", "domain": "stand-in",
            }})),
            "users.info" => {
                let user = self.slack.world.lock().user(&self.need("user")?).ok_or("user_not_found")?;
                Ok(json!({"user": user}))
            }
            "chat.postMessage" => self.post_message(),
            "chat.postEphemeral" => self.post_ephemeral(),
            "chat.update" => self.update(),
            "chat.delete" => self.delete(),
            "chat.startStream" => self.start_stream(),
            "chat.appendStream" => self.append_stream(),
            "chat.stopStream" => self.stop_stream(),
            "reactions.add" => self.react(true),
            "reactions.remove" => self.react(false),
            "assistant.threads.setStatus" | "agents.sessions.setStatus" => self.set_status(),
            "views.open" => self.open_view(),
            "conversations.info" => self.conversation_info(),
            "conversations.list" => self.list_conversations(),
            "conversations.open" => self.open_conversation(),
            "conversations.history" => self.history(None),
            "conversations.replies" => self.history(Some(self.need("ts")?)),
            "conversations.members" => self.members(),
            "files.getUploadURLExternal" => self.upload_url(),
            "files.completeUploadExternal" => self.complete_upload(),
            "files.info" => self.file_info(),
            _ => Err("unknown_method"),
        }
    }

    fn need(&self, name: &str) -> Result<String, &'static str> {
        self.arguments.text(name).filter(|value| !value.is_empty()).ok_or("invalid_arguments")
    }

    fn row(&self, kind: &'static str, channel: &str) -> PlatformRow {
        PlatformRow::new(self.app.id.clone(), kind, self.method.to_owned())
            .chat(channel)
            .raw(self.arguments.described())
    }

    fn identity(&self) -> Value {
        json!({
            "url": format!("{}/", self.slack.harness.base_url()), "team": "Stand-in", "team_id": self.app.team_id,
            "user": self.app.name, "user_id": self.app.bot_user_id, "bot_id": self.app.bot_id,
            "app_id": self.app.id, "is_enterprise_install": false,
        })
    }

    /// The URL of a socket. It can be used for one connection.
    fn open_socket(&self) -> MethodResult {
        let ticket = format!("ticket-{}", self.slack.harness.next_id());
        self.slack.world.lock().tickets.insert(ticket.clone(), self.app.id.clone());
        let address = self.slack.harness.address;
        Ok(json!({"url": format!("ws://{address}/link/?ticket={ticket}&app_id={}", self.app.id)}))
    }

    fn set_status(&self) -> MethodResult {
        let channel = self.need("channel_id")?;
        let thread = self.need("thread_ts")?;
        let status = self.arguments.text("status").ok_or("invalid_arguments")?;
        self.in_channel(&channel)?;
        let mut row = self.row("typing", &channel).text(status);
        row.thread_id = Some(thread);
        self.slack.harness.record(row);
        Ok(json!({}))
    }

    fn open_view(&self) -> MethodResult {
        let view = self.arguments.structure("view").filter(Value::is_object).ok_or("invalid_arguments")?;
        self.slack.use_trigger(&self.app, &self.need("trigger_id")?)?;
        let id = format!("V{}", self.slack.harness.next_id());
        let row = PlatformRow::new(self.app.id.clone(), "view_opened", "views.open")
            .message(&*id)
            .raw(view.clone());
        self.slack.harness.record(row);
        let mut opened = view;
        opened["id"] = json!(id);
        Ok(json!({"view": opened}))
    }
}
