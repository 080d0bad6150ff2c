//! Streaming methods (`chat.startStream`, `chat.appendStream`, `chat.stopStream`): a message that grows.

use serde_json::{Value, json};

use super::{
    MethodResult, SlackCall,
    chat::{MOST_MARKDOWN, SlackContent},
};

impl SlackCall<'_> {
    /// The new text: an argument, or the text of chunks.
    fn streamed_text(&self) -> String {
        let chunks = self.arguments.structure("chunks").unwrap_or_default();
        let chunks = chunks.as_array().into_iter().flatten().filter(|chunk| chunk["type"] == "markdown_text");
        let text: String = chunks.filter_map(|chunk| chunk["text"].as_str()).collect();
        self.arguments.text("markdown_text").unwrap_or_default() + &text
    }

    pub(super) fn start_stream(&self) -> MethodResult {
        let (channel, thread) = (self.need("channel")?, self.need("thread_ts")?);
        self.in_channel(&channel)?;
        let is_direct =
            self.slack.world.lock().conversations.get(&channel).is_some_and(|one| one.kind == "im");
        let has_recipient = self.arguments.text("recipient_user_id").is_some()
            && self.arguments.text("recipient_team_id").is_some();
        if !is_direct && !has_recipient {
            return Err("missing_recipient_user_id");
        }
        let text = self.streamed_text();
        if text.chars().count() > MOST_MARKDOWN {
            return Err("msg_too_long");
        }
        let content = SlackContent { text: text.clone(), blocks: Value::Null };
        let mut message = self.store(&channel, &content, Some(&thread))?;
        let ts = message["ts"].as_str().unwrap_or_default().to_owned();
        message["stand_in_streaming"] = json!(true);
        self.replace(&channel, &ts, message);
        let mut row = self.row("sent", &channel).message(&*ts).text(text);
        row.thread_id = Some(thread);
        self.slack.harness.record(row);
        Ok(json!({"channel": channel, "ts": ts}))
    }

    pub(super) fn append_stream(&self) -> MethodResult {
        self.grow(false)
    }

    pub(super) fn stop_stream(&self) -> MethodResult {
        self.grow(true)
    }

    fn grow(&self, is_last: bool) -> MethodResult {
        let (channel, ts) = (self.need("channel")?, self.need("ts")?);
        self.in_channel(&channel)?;
        let mut message = self.own_message(&channel, &ts, "message_not_owned_by_app")?;
        if message["stand_in_streaming"] != true {
            return Err("message_not_in_streaming_state");
        }
        let more = self.streamed_text();
        if more.is_empty() && !is_last {
            return Err("no_text");
        }
        let text = format!("{}{more}", message["text"].as_str().unwrap_or_default());
        if text.chars().count() > MOST_MARKDOWN {
            return Err("msg_too_long");
        }
        message["text"] = json!(text);
        if is_last {
            message["stand_in_streaming"] = json!(false);
        }
        self.replace(&channel, &ts, message.clone());
        self.slack.harness.record(self.row("edited", &channel).message(&*ts).text(text));
        Ok(json!({"channel": channel, "ts": ts, "message": message}))
    }
}
