//! Threads: topics of a forum group.

use posthouse_wire::{ChatId, Outcome, ThreadId};
use serde::{Deserialize, Serialize};

use super::{IgnoredResult, TelegramCalls, chat, topic};
use crate::platform_calls::{CallFailure, RepeatRule};
use crate::telegram::LABEL;

#[derive(Serialize)]
struct CreateForumTopic<'a> {
    chat_id: i64,
    name: &'a str,
}

#[derive(Deserialize)]
struct CreatedTopic {
    message_thread_id: i64,
}

#[derive(Serialize)]
struct EditForumTopic<'a> {
    chat_id: i64,
    message_thread_id: i64,
    name: &'a str,
}

impl TelegramCalls<'_> {
    /// Creates a topic. A topic belongs to the group, so that it cannot begin under a message.
    pub(super) async fn create_thread(&mut self, chat_id: &ChatId, name: &str) -> Outcome {
        let chat_id = match chat(chat_id) {
            Ok(chat) => chat,
            Err(error) => return Outcome::failed(error),
        };
        let params = CreateForumTopic { chat_id, name };
        match self.ask::<CreatedTopic>("createForumTopic", &params, RepeatRule::IfNothingWasDone).await {
            Ok(created) => Outcome::thread(created.message_thread_id.to_string().into()),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    pub(super) async fn rename_thread(&mut self, chat_id: &ChatId, thread: &ThreadId, name: &str) -> Outcome {
        let (chat_id, message_thread_id) = match (chat(chat_id), topic(Some(thread))) {
            (Ok(chat), Ok(Some(topic))) => (chat, topic),
            (Ok(_), Ok(None)) => return Outcome::failed("thread not found"),
            (Err(error), _) | (_, Err(error)) => return Outcome::failed(error),
        };
        let params = EditForumTopic { chat_id, message_thread_id, name };
        match self.ask::<IgnoredResult>("editForumTopic", &params, RepeatRule::Harmless).await {
            Ok(_) => Outcome::done(),
            Err(CallFailure::Refused(refused)) if refused.says("not_modified") => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}
