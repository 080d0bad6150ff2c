//! Injections into Slack: carries out messages, edits, buttons, forms and commands of people.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{SlackPlatform, events::DeliveryKind, injection::SlackInjection, settings::SlackApp};
use crate::harness::PlatformRow;

impl SlackPlatform {
    pub(super) fn act(self: &Arc<Self>, injection: SlackInjection) -> Result<Value, String> {
        match injection {
            SlackInjection::Message {
                text,
                user,
                user_name,
                channel,
                channel_type,
                thread_ts,
                files,
                app,
            } => {
                let app = self.default_app(app)?;
                let channel = self.place(&app, &user, user_name.as_deref(), channel, channel_type.as_deref());
                let mut objects = Vec::new();
                for file in files {
                    let content = BASE64_STANDARD.decode(&file.base64).map_err(|error| error.to_string())?;
                    objects.push(self.add_file(&app, &file.name, &file.mimetype, content.into()));
                }
                Ok(self.person_writes(&app, &user, &channel, &text, thread_ts, objects))
            }
            SlackInjection::Edit { channel, ts, text } => self.person_edits(&channel, &ts, &text),
            SlackInjection::Delete { channel, ts } => self.person_deletes(&channel, &ts),
            SlackInjection::React { channel, ts, name, user } => {
                let author = {
                    let world = self.world.lock();
                    let conversation = world.conversations.get(&channel).ok_or("no such channel")?;
                    conversation.messages.get(&ts).ok_or("no such message")?["user"].clone()
                };
                let event = json!({
                    "type": "reaction_added", "user": user, "reaction": name, "item_user": author,
                    "item": {"type": "message", "channel": channel, "ts": ts}, "event_ts": ts,
                });
                Ok(json!({"events": self.announce(&channel, &event)}))
            }
            SlackInjection::Press { channel, ts, action_id, user } => {
                self.person_presses(&channel, &ts, &action_id, &user)
            }
            SlackInjection::SubmitView { callback_id, values, user, app } => {
                let app = self.default_app(app)?;
                let (_, trigger) = self.new_capabilities(&app, "", None);
                let mut payload = self.interaction(&app, "view_submission", &user, &trigger);
                payload["view"] = json!({
                    "id": "V1", "type": "modal", "callback_id": callback_id, "state": {"values": values},
                });
                payload["response_urls"] = json!([]);
                Ok(self.deliver_interaction(&app, "", &callback_id, payload))
            }
            SlackInjection::Command { command, text, user, channel, app } => {
                let app = self.default_app(app)?;
                let channel = self.place(&app, &user, None, channel, None);
                let (response_url, trigger_id) = self.new_capabilities(&app, &channel, None);
                let (user_name, channel_name) = {
                    let world = self.world.lock();
                    let name = world.conversations.get(&channel).map(|one| one.name.clone());
                    (world.name_of(&user), name.unwrap_or_default())
                };
                let payload = json!({
                    "token": "legacy-verification-token", "team_id": app.team_id, "team_domain": "stand-in",
                    "channel_id": channel, "channel_name": channel_name, "user_id": user, "user_name": user_name,
                    "command": command, "text": text, "api_app_id": app.id, "is_enterprise_install": "false",
                    "response_url": response_url, "trigger_id": trigger_id,
                });
                let id = format!("command-{}", self.harness.next_id());
                let row = PlatformRow::new(app.id.clone(), "received", "slash_commands").chat(&*channel);
                self.harness.record(row.message(&*id).text(format!("{command} {text}")));
                let answer = json!({
                    "channel": channel, "delivery": id, "response_url": response_url, "trigger_id": trigger_id,
                });
                self.deliver(&app, DeliveryKind::Command, &id, payload);
                Ok(answer)
            }
            SlackInjection::Event { event, app } => {
                let app = self.default_app(app)?;
                Ok(json!({"events": [self.announce_to(&app, &event)]}))
            }
        }
    }

    fn default_app(&self, app: Option<String>) -> Result<SlackApp, String> {
        let world = self.world.lock();
        let found = app.map_or_else(|| world.apps.first(), |id| world.app(&id));
        found.cloned().ok_or_else(|| "no such app".to_owned())
    }

    /// The conversation of an action. Creates what does not exist.
    fn place(
        &self,
        app: &SlackApp,
        user: &str,
        name: Option<&str>,
        channel: Option<String>,
        kind: Option<&str>,
    ) -> String {
        let mut world = self.world.lock();
        world.add_user(user, name, &app.team_id);
        match channel {
            None => world.direct_message(app, user),
            Some(channel) => {
                let members = [user.to_owned(), app.bot_user_id.clone()];
                world.conversation(&channel, &app.team_id, kind.unwrap_or("channel"), &members);
                channel
            }
        }
    }

    fn person_writes(
        self: &Arc<Self>,
        app: &SlackApp,
        user: &str,
        channel: &str,
        text: &str,
        thread_ts: Option<String>,
        files: Vec<Value>,
    ) -> Value {
        let (event, kind) = {
            let mut world = self.world.lock();
            let ts = world.next_ts(self.harness.now_ms());
            let kind = world.conversations.get(channel).map(|one| one.kind.clone()).unwrap_or_default();
            let mut event = json!({
                "type": "message", "user": user, "text": text, "ts": ts, "team": app.team_id, "channel": channel,
                "channel_type": kind, "event_ts": ts, "client_msg_id": format!("client-{ts}"),
                "blocks": [{"type": "rich_text", "block_id": "b1", "elements": [{
                    "type": "rich_text_section", "elements": [{"type": "text", "text": text}],
                }]}],
            });
            if let Some(thread) = thread_ts {
                let parent = world.conversations.get(channel).and_then(|one| one.messages.get(&thread));
                event["parent_user_id"] = parent.map(|parent| parent["user"].clone()).unwrap_or_default();
                event["thread_ts"] = json!(thread);
            }
            if !files.is_empty() {
                event["subtype"] = json!("file_share");
                event["files"] = json!(files);
            }
            if let Some(conversation) = world.conversations.get_mut(channel) {
                conversation.store(ts, event.clone());
            }
            (event, kind)
        };
        let ts = event["ts"].as_str().unwrap_or_default();
        let mut row =
            PlatformRow::new(app.id.clone(), "received", "message").chat(channel).message(ts).text(text);
        row.thread_id = event["thread_ts"].as_str().map(str::to_owned);
        self.harness.record(row);
        let mut events = self.announce(channel, &event);
        // A mention in a channel is announced a second time.
        if kind != "im" && text.contains(&format!("<@{}>", app.bot_user_id)) {
            let mut mention = event.clone();
            mention["type"] = json!("app_mention");
            if let Some(fields) = mention.as_object_mut() {
                fields.remove("channel_type");
            }
            events.push(self.announce_to(app, &mention));
        }
        json!({"channel": channel, "ts": ts, "events": events})
    }

    fn person_edits(self: &Arc<Self>, channel: &str, ts: &str, text: &str) -> Result<Value, String> {
        let (before, message) = {
            let mut world = self.world.lock();
            let conversation = world.conversations.get_mut(channel).ok_or("no such channel")?;
            let before = conversation.messages.get(ts).ok_or("no such message")?.clone();
            let mut message = before.clone();
            message["text"] = json!(text);
            message["edited"] = json!({"user": before["user"], "ts": ts});
            conversation.store(ts.to_owned(), message.clone());
            (before, message)
        };
        let event = json!({
            "type": "message", "subtype": "message_changed", "hidden": true, "channel": channel,
            "message": message, "previous_message": before, "ts": ts, "event_ts": ts,
        });
        Ok(json!({"events": self.announce(channel, &event)}))
    }

    fn person_deletes(self: &Arc<Self>, channel: &str, ts: &str) -> Result<Value, String> {
        let before = {
            let mut world = self.world.lock();
            let conversation = world.conversations.get_mut(channel).ok_or("no such channel")?;
            conversation.messages.remove(ts).ok_or("no such message")?
        };
        let event = json!({
            "type": "message", "subtype": "message_deleted", "hidden": true, "channel": channel,
            "deleted_ts": ts, "previous_message": before, "ts": ts, "event_ts": ts,
        });
        Ok(json!({"events": self.announce(channel, &event)}))
    }

    fn person_presses(
        self: &Arc<Self>,
        channel: &str,
        ts: &str,
        action_id: &str,
        user: &str,
    ) -> Result<Value, String> {
        let (message, name) = {
            let world = self.world.lock();
            let conversation = world.conversations.get(channel).ok_or("no such channel")?;
            (conversation.messages.get(ts).ok_or("no such message")?.clone(), conversation.name.clone())
        };
        let app = self.default_app(message["app_id"].as_str().map(str::to_owned))?;
        let blocks = message["blocks"].as_array().into_iter().flatten();
        let mut found = None;
        for block in blocks {
            let accessory = block.get("accessory").into_iter();
            let elements = block["elements"].as_array().into_iter().flatten().chain(accessory);
            for element in elements.filter(|element| element["action_id"] == action_id) {
                let mut action = element.clone();
                action["block_id"] = block.get("block_id").cloned().unwrap_or_else(|| json!("b1"));
                action["action_ts"] = json!(ts);
                found = Some(action);
            }
        }
        let action = found.ok_or("no such button")?;
        let (response_url, trigger) = self.new_capabilities(&app, channel, Some(ts));
        let mut payload = self.interaction(&app, "block_actions", user, &trigger);
        payload["container"] = json!({
            "type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false,
            "thread_ts": message["thread_ts"],
        });
        payload["channel"] = json!({"id": channel, "name": name});
        payload["message"] = message;
        payload["response_url"] = json!(response_url);
        payload["actions"] = json!([action]);
        let mut answer = self.deliver_interaction(&app, channel, action_id, payload);
        answer["response_url"] = json!(response_url);
        Ok(answer)
    }

    fn interaction(&self, app: &SlackApp, kind: &str, user: &str, trigger: &str) -> Value {
        let mut world = self.world.lock();
        world.add_user(user, None, &app.team_id);
        let name = world.name_of(user);
        json!({
            "type": kind, "user": {"id": user, "username": name, "name": name, "team_id": app.team_id},
            "api_app_id": app.id, "token": "legacy-verification-token", "trigger_id": trigger,
            "team": {"id": app.team_id, "domain": "stand-in"}, "enterprise": null, "is_enterprise_install": false,
        })
    }

    fn deliver_interaction(
        self: &Arc<Self>,
        app: &SlackApp,
        channel: &str,
        text: &str,
        payload: Value,
    ) -> Value {
        let id = format!("interaction-{}", self.harness.next_id());
        let row = PlatformRow::new(app.id.clone(), "received", "interactive")
            .chat(channel)
            .message(&*id)
            .text(text);
        self.harness.record(row);
        let answer = json!({"channel": channel, "delivery": id, "trigger_id": payload["trigger_id"]});
        self.deliver(app, DeliveryKind::Interaction, &id, payload);
        answer
    }
}
