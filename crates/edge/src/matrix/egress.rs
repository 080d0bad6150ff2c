//! Sending actions of agents as calls of the client-server API, each within its deadline.

mod calls;
mod media;
mod reactions;

use http::Method;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api::MatrixCall;
use super::dialect::{edit_of, text_content, text_contents};
use super::ids::{is_event_id, is_room_id};
use super::{LABEL, Matrix, USER_ID};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, RepeatRule};
use calls::MatrixCalls;
pub(super) use media::send_media;

/// Time for which a homeserver shows that the bot types.
const TYPING_MS: u32 = 30_000;

/// Where an action writes.
#[derive(Clone)]
pub(super) struct MatrixPlace {
    pub room: String,
    /// The first message of the thread.
    pub thread: Option<String>,
    pub reply_to: Option<String>,
}

/// Carries out one action.
pub(super) async fn perform(matrix: &Matrix, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
    let mut calls = MatrixCalls::new(matrix, bot, &permitted);
    let outcome = match permitted.action {
        Action::Send { chat_id, content, reply_to, metadata } => {
            match place(&chat_id, &metadata, reply_to.as_ref()) {
                Some(place) => {
                    let contents = calls.contents(&content).await;
                    calls.send(&place, contents).await
                }
                None => no_chat(),
            }
        }
        Action::Edit { chat_id, message_id, content, metadata } => match place(&chat_id, &metadata, None) {
            Some(place) => calls.edit(&place, &message_id, &content).await,
            None => no_chat(),
        },
        Action::Typing { chat_id, content, .. } => {
            calls.type_in(&chat_id, content.as_deref() != Some("")).await
        }
        Action::GetChatInfo { chat_id } => calls.chat_info(&chat_id).await,
        Action::React { chat_id, message_id, emoji, remove, .. } => {
            calls.react(&chat_id, &message_id, (&emoji, remove)).await
        }
        Action::ThreadCreate { chat_id, thread_name, message_id, .. } => {
            calls.create_thread(&chat_id, &thread_name, message_id.as_ref()).await
        }
        other => Outcome::unsupported(other.op()),
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// The room of a chat. An alias would be resolved by the server, and could be any room.
pub(super) fn room_of(chat: &ChatId) -> Option<&str> {
    Some(chat.as_str()).filter(|room| is_room_id(room))
}

/// The outcome for a chat id that is no room.
pub(super) fn no_chat() -> Outcome {
    Outcome::failed("chat not found")
}

/// Where an action writes. A thread is always in the room itself, so that the permission for the room covers it.
pub(super) fn place(chat: &ChatId, metadata: &Metadata, reply_to: Option<&MessageId>) -> Option<MatrixPlace> {
    let event = |id: &str| is_event_id(id).then(|| id.to_owned());
    Some(MatrixPlace {
        room: room_of(chat)?.to_owned(),
        thread: metadata.thread_id.as_ref().and_then(|thread| event(thread.as_str())),
        reply_to: reply_to.and_then(|message| event(message.as_str())),
    })
}

/// Adds the thread and the replied message to a content.
pub(super) fn related(mut content: Value, place: &MatrixPlace) -> Value {
    let replied = place.reply_to.as_deref();
    content["m.relates_to"] = match (&place.thread, replied) {
        // Clients without threads show a message of a thread as a reply.
        (Some(thread), replied) => json!({
            "rel_type": "m.thread", "event_id": thread,
            "is_falling_back": replied.is_none_or(|replied| replied == thread),
            "m.in_reply_to": { "event_id": replied.unwrap_or(thread) },
        }),
        (None, Some(replied)) => json!({ "m.in_reply_to": { "event_id": replied } }),
        (None, None) => return content,
    };
    content
}

/// The outcome of a failed action. After a part was sent, the whole must not be sent again. Stock gateways repeat every
/// failure except one with `timed out`.
fn failed(failure: &CallFailure, sent: usize, of: usize) -> Outcome {
    if sent == 0 {
        return Outcome::failed(failure.error(LABEL));
    }
    let cause = failure.cause(LABEL);
    Outcome::failed(format!("only {sent} of {of} messages were sent, then it failed or timed out: {cause}"))
}

impl MatrixCalls<'_> {
    /// The contents of one message each.
    async fn contents(&self, markdown: &str) -> Vec<Value> {
        self.matrix.split_limits.run(&self.bot.id, markdown, text_contents).await
    }

    /// Sends all messages in order. The outcome names the **last** message, because the conversation continues below it.
    /// An edit of it replaces all of them.
    async fn send(&mut self, place: &MatrixPlace, contents: Vec<Value>) -> Outcome {
        let mut place = place.clone();
        let mut sent: Vec<String> = Vec::with_capacity(contents.len());
        let of = contents.len();
        for content in contents {
            match self.post(&place, content).await {
                Ok(event) => sent.push(event),
                Err(refusal) => return refusal.outcome(sent.len(), of),
            }
            place.reply_to = None;
        }
        match sent.last() {
            Some(last) => {
                self.remember(last, &sent);
                Outcome::sent(last.as_str().into())
            }
            None => Outcome::failed("message text is empty"),
        }
    }

    /// Replaces the text of a message. A text that is too long for one message continues in new messages after it, which
    /// later edits of the same message change too.
    async fn edit(&mut self, place: &MatrixPlace, message: &MessageId, content: &str) -> Outcome {
        if !is_event_id(message.as_str()) {
            return Outcome::failed("message to edit not found");
        }
        let contents = self.contents(content).await;
        let of = contents.len();
        if contents.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let existing = self.recall(message.as_str());
        let mut messages: Vec<String> = Vec::with_capacity(of);
        let mut end = Ok(());
        for (at, new_content) in contents.into_iter().enumerate() {
            let written = match existing.get(at) {
                Some(event) => {
                    let edited = self.put(&place.room, edit_of(event, new_content)).await;
                    edited.map(|_| event.clone())
                }
                None => self.post(place, new_content).await,
            };
            match written {
                Ok(event) => messages.push(event),
                Err(refusal) => {
                    end = Err(refusal);
                    break;
                }
            }
        }
        let written = messages.len();
        // New messages exist even if the rest failed, so the next edit must know them.
        messages.extend(existing.iter().skip(written).cloned());
        if end.is_ok() {
            for surplus in messages.drain(of.min(messages.len())..) {
                // It may be gone already. Nothing can be done about it.
                let _ = self.redact(&place.room, &surplus).await;
            }
        }
        self.remember(message.as_str(), &messages);
        match end {
            Ok(()) => Outcome::sent(message.clone()),
            // As long as no new message was sent, the whole edit can be repeated.
            Err(refusal) if written <= existing.len() => refusal.outcome(0, of),
            Err(refusal) => refusal.outcome(written, of),
        }
    }

    async fn type_in(&mut self, chat: &ChatId, types: bool) -> Outcome {
        let Some(room) = room_of(chat) else { return no_chat() };
        let own = self.bot.setting(USER_ID).unwrap_or_default();
        let body = match types {
            true => json!({ "typing": true, "timeout": TYPING_MS }),
            false => json!({ "typing": false }),
        };
        let call = MatrixCall::in_room(Method::PUT, "PUT typing", room, &["typing", own]).with_json(body);
        match self.ask::<IgnoredAny>(call, RepeatRule::Never).await {
            Ok(_) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    async fn chat_info(&mut self, chat: &ChatId) -> Outcome {
        let Some(room) = room_of(chat) else { return no_chat() };
        match self.room(room).await {
            Ok(found) => Outcome::info(found.info(room)),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// A thread of Matrix is the messages that name another one as its beginning, and has no name. Under an existing
    /// message there is nothing to create; otherwise the name is the first message.
    async fn create_thread(&mut self, chat: &ChatId, name: &str, under: Option<&MessageId>) -> Outcome {
        let Some(place) = place(chat, &Metadata::default(), None) else { return no_chat() };
        if let Some(under) = under.filter(|message| is_event_id(message.as_str())) {
            self.matrix.own_events.note_thread(&self.bot.id, under.as_str());
            return Outcome::thread(under.as_str().into());
        }
        match self.post(&place, text_content(name.trim(), "m.text")).await {
            Ok(event) => Outcome::thread(event.into()),
            Err(refusal) => refusal.outcome(0, 1),
        }
    }
}
