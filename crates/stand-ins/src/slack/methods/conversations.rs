//! Methods `conversations.*`.

use serde_json::{Value, json};

use super::{MethodResult, SlackCall};

impl SlackCall<'_> {
    pub(super) fn conversation_info(&self) -> MethodResult {
        let channel = self.need("channel")?;
        let world = self.slack.world.lock();
        let conversation = world.conversations.get(&channel).filter(|one| one.team == self.app.team_id);
        Ok(json!({"channel": conversation.ok_or("channel_not_found")?.object()}))
    }

    pub(super) fn list_conversations(&self) -> MethodResult {
        let world = self.slack.world.lock();
        let mine =
            world.conversations.values().filter(|one| one.team == self.app.team_id && one.kind != "im");
        let channels: Vec<Value> = mine.map(|one| one.object()).collect();
        Ok(json!({"channels": channels, "response_metadata": {"next_cursor": ""}}))
    }

    pub(super) fn open_conversation(&self) -> MethodResult {
        let users = self.need("users")?;
        let mut world = self.slack.world.lock();
        let first = users.split(',').next().unwrap_or_default();
        if world.user(first).is_none() {
            return Err("user_not_found");
        }
        let id = world.direct_message(&self.app, first);
        Ok(json!({"channel": {"id": id}}))
    }

    pub(super) fn history(&self, thread: Option<String>) -> MethodResult {
        let channel = self.need("channel")?;
        self.in_channel(&channel)?;
        let world = self.slack.world.lock();
        let conversation = world.conversations.get(&channel).ok_or("channel_not_found")?;
        let is_here = |message: &&Value| match &thread {
            Some(ts) => message["ts"] == **ts || message["thread_ts"] == **ts,
            None => message.get("thread_ts").is_none(),
        };
        let mut messages: Vec<&Value> = conversation.messages.values().filter(is_here).collect();
        // A thread is read from its beginning, a channel from its end.
        if thread.is_none() {
            messages.reverse();
        } else if messages.is_empty() {
            return Err("thread_not_found");
        }
        let limit = self.arguments.text("limit").and_then(|limit| limit.parse().ok()).unwrap_or(100_usize);
        messages.truncate(limit.clamp(1, 999));
        Ok(json!({"messages": messages, "has_more": false}))
    }

    pub(super) fn members(&self) -> MethodResult {
        let channel = self.need("channel")?;
        let world = self.slack.world.lock();
        let conversation = world.conversations.get(&channel).ok_or("channel_not_found")?;
        Ok(json!({"members": conversation.members, "response_metadata": {"next_cursor": ""}}))
    }
}
