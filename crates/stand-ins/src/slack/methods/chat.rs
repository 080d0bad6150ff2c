//! Methods `chat.*` and `reactions.*`.

use serde_json::{Value, json};

use super::{MethodResult, SlackCall};

/// Longer texts are cut.
const MOST_TEXT: usize = 40_000;
/// The most characters of `markdown_text`.
pub(super) const MOST_MARKDOWN: usize = 12_000;

/// The content of a message.
pub(super) struct SlackContent {
    pub text: String,
    pub blocks: Value,
}

impl SlackCall<'_> {
    /// Whether the app may write in this conversation.
    pub(super) fn in_channel(&self, channel: &str) -> Result<(), &'static str> {
        let world = self.slack.world.lock();
        let conversation = world.conversations.get(channel).filter(|one| one.team == self.app.team_id);
        let conversation = conversation.ok_or("channel_not_found")?;
        if conversation.is_archived {
            return Err("is_archived");
        }
        if conversation.members.contains(&self.app.bot_user_id) { Ok(()) } else { Err("not_in_channel") }
    }

    pub(super) fn content(&self) -> Result<SlackContent, &'static str> {
        let blocks = self.arguments.structure("blocks").unwrap_or_default();
        check_blocks(&blocks)?;
        if let Some(markdown) = self.arguments.text("markdown_text") {
            if self.arguments.text("text").is_some() || blocks.is_array() {
                return Err("markdown_text_conflict");
            }
            if markdown.chars().count() > MOST_MARKDOWN {
                return Err("msg_too_long");
            }
            return Ok(SlackContent { text: markdown, blocks: json!([]) });
        }
        let text = self.arguments.text("text").unwrap_or_default();
        let has_blocks = blocks.as_array().is_some_and(|blocks| !blocks.is_empty());
        if text.is_empty() && !has_blocks && self.arguments.structure("attachments").is_none() {
            return Err("no_text");
        }
        Ok(SlackContent { text, blocks })
    }

    /// The message object of the bot.
    pub(super) fn message(&self, ts: &str, content: &SlackContent) -> Value {
        let mut message = json!({
            "type": "message", "ts": ts, "user": self.app.bot_user_id, "bot_id": self.app.bot_id,
            "app_id": self.app.id, "team": self.app.team_id, "text": content.text,
            "bot_profile": {"id": self.app.bot_id, "app_id": self.app.id, "name": self.app.name},
        });
        if content.blocks.is_array() {
            message["blocks"] = content.blocks.clone();
        }
        message
    }

    pub(super) fn post_message(&self) -> MethodResult {
        let mut channel = self.need("channel")?;
        if channel.starts_with('U') {
            channel = self.slack.world.lock().direct_message(&self.app, &channel);
        }
        self.in_channel(&channel)?;
        let mut content = self.content()?;
        if content.text.chars().count() > MOST_TEXT {
            content.text = content.text.chars().take(MOST_TEXT).collect();
        }
        let thread = self.arguments.text("thread_ts");
        let message = self.store(&channel, &content, thread.as_deref())?;
        let ts = message["ts"].as_str().unwrap_or_default().to_owned();
        let mut row = self.row("sent", &channel).message(&*ts).text(content.text);
        row.thread_id = thread;
        self.slack.harness.record(row);
        let mut event = message.clone();
        event["channel"] = json!(channel);
        event["event_ts"] = json!(ts);
        self.slack.announce(&channel, &event);
        Ok(json!({"channel": channel, "ts": ts, "message": message}))
    }

    /// Stores a message of the bot.
    pub(super) fn store(
        &self,
        channel: &str,
        content: &SlackContent,
        thread: Option<&str>,
    ) -> Result<Value, &'static str> {
        let mut world = self.slack.world.lock();
        let ts = world.next_ts(self.now_ms);
        let mut message = self.message(&ts, content);
        if let Some(thread) = thread {
            message["thread_ts"] = json!(thread);
        }
        let conversation = world.conversations.get_mut(channel).ok_or("channel_not_found")?;
        conversation.store(ts, message.clone());
        Ok(message)
    }

    pub(super) fn post_ephemeral(&self) -> MethodResult {
        let (channel, user) = (self.need("channel")?, self.need("user")?);
        self.in_channel(&channel)?;
        let content = self.content()?;
        let ts = self.slack.world.lock().next_ts(self.now_ms);
        let mut row = self.row("sent", &channel).message(&*ts).text(content.text);
        row.reply_to = Some(user);
        self.slack.harness.record(row);
        Ok(json!({"message_ts": ts}))
    }

    /// The stored message of this `ts`, if the app wrote it.
    pub(super) fn own_message(
        &self,
        channel: &str,
        ts: &str,
        other: &'static str,
    ) -> Result<Value, &'static str> {
        let world = self.slack.world.lock();
        let conversation = world.conversations.get(channel).ok_or("channel_not_found")?;
        let message = conversation.messages.get(ts).ok_or("message_not_found")?;
        if message["bot_id"] == *self.app.bot_id { Ok(message.clone()) } else { Err(other) }
    }

    pub(super) fn replace(&self, channel: &str, ts: &str, message: Value) {
        if let Some(conversation) = self.slack.world.lock().conversations.get_mut(channel) {
            conversation.store(ts.to_owned(), message);
        }
    }

    pub(super) fn update(&self) -> MethodResult {
        let (channel, ts) = (self.need("channel")?, self.need("ts")?);
        self.in_channel(&channel)?;
        let before = self.own_message(&channel, &ts, "cant_update_message")?;
        let content = self.content()?;
        if content.text.chars().count() > MOST_TEXT {
            return Err("msg_too_long");
        }
        if before["stand_in_streaming"] == true {
            return Err("streaming_state_conflict");
        }
        let mut message = before.clone();
        message["text"] = json!(content.text);
        if content.blocks.is_array() {
            message["blocks"] = content.blocks.clone();
        }
        message["edited"] = json!({"user": self.app.bot_user_id, "ts": ts});
        self.replace(&channel, &ts, message.clone());
        self.slack.harness.record(self.row("edited", &channel).message(&*ts).text(content.text.clone()));
        let event = json!({
            "type": "message", "subtype": "message_changed", "hidden": true, "channel": channel,
            "message": message, "previous_message": before, "ts": ts, "event_ts": ts,
        });
        self.slack.announce(&channel, &event);
        Ok(json!({"channel": channel, "ts": ts, "text": content.text, "message": message}))
    }

    pub(super) fn delete(&self) -> MethodResult {
        let (channel, ts) = (self.need("channel")?, self.need("ts")?);
        self.own_message(&channel, &ts, "cant_delete_message")?;
        if let Some(conversation) = self.slack.world.lock().conversations.get_mut(&channel) {
            conversation.messages.remove(&ts);
        }
        self.slack.harness.record(self.row("deleted", &channel).message(&*ts));
        Ok(json!({"channel": channel, "ts": ts}))
    }

    pub(super) fn react(&self, add: bool) -> MethodResult {
        let (channel, ts, name) = (self.need("channel")?, self.need("timestamp")?, self.need("name")?);
        self.in_channel(&channel)?;
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-+'".contains(c);
        if !name.chars().all(plain) {
            return Err("invalid_name");
        }
        let mut world = self.slack.world.lock();
        let conversation = world.conversations.get_mut(&channel).ok_or("channel_not_found")?;
        let message = conversation.messages.get_mut(&ts).ok_or("message_not_found")?;
        let mut mine: Vec<Value> = message["stand_in_reactions"].as_array().cloned().unwrap_or_default();
        let reaction = json!(format!("{}/{name}", self.app.id));
        match (mine.contains(&reaction), add) {
            (true, true) => return Err("already_reacted"),
            (false, false) => return Err("no_reaction"),
            (false, true) => mine.push(reaction),
            (true, false) => mine.retain(|one| *one != reaction),
        }
        message["stand_in_reactions"] = Value::Array(mine);
        drop(world);
        let kind = if add { "reaction" } else { "reaction_removed" };
        self.slack.harness.record(self.row(kind, &channel).message(ts).text(name));
        Ok(json!({}))
    }
}

/// At most 50 blocks, and 3,000 characters in a section.
fn check_blocks(blocks: &Value) -> Result<(), &'static str> {
    let Some(blocks) = blocks.as_array() else { return Ok(()) };
    let length = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
    let is_wrong = |block: &Value| match block["type"].as_str() {
        Some("section") => length(&block["text"]["text"]) > 3_000,
        Some("header") => length(&block["text"]["text"]) > 150,
        Some("markdown") => length(&block["text"]) > MOST_MARKDOWN,
        Some("actions") => block["elements"].as_array().is_none_or(|elements| {
            elements.len() > 25
                || elements
                    .iter()
                    .any(|one| length(&one["text"]["text"]) > 75 || length(&one["value"]) > 2_000)
        }),
        Some(_) => false,
        None => true,
    };
    if blocks.len() > 50 || blocks.iter().any(is_wrong) { Err("invalid_blocks") } else { Ok(()) }
}
