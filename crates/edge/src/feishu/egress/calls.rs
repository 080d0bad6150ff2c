//! Open API calls of one action on Feishu, with its deadline.

use std::sync::Arc;

use http::Method;
use posthouse_wire::action::Metadata;
use posthouse_wire::{ActionId, ChatId, MessageId, Outcome, TenantId};
use relay::PermittedAction;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

use super::{NO_CHAT, NO_MESSAGE};
use crate::bots::OpenedBot;
use crate::feishu::api::{FeishuCall, is_path_part};
use crate::feishu::directory::FeishuPlace;
use crate::feishu::{Feishu, LABEL};
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};

/// Longest idempotency key that Feishu takes.
const LONGEST_UUID: usize = 50;

pub(in crate::feishu) struct FeishuCalls<'a> {
    pub feishu: &'a Feishu,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    tenant: TenantId,
    action: ActionId,
    /// The number of calls with an idempotency key.
    keyed: u32,
}

/// Where an action writes.
#[derive(Clone)]
pub(in crate::feishu) struct FeishuTarget {
    pub chat: String,
    /// The message that it answers.
    pub answered: Option<String>,
    pub in_thread: bool,
}

#[derive(Deserialize)]
struct NewFeishuMessage {
    message_id: String,
    thread_id: Option<String>,
}

impl<'a> FeishuCalls<'a> {
    pub fn new(feishu: &'a Feishu, bot: &'a OpenedBot, permitted: &PermittedAction) -> Self {
        let calls = CallsWithDeadline::new(&feishu.timepiece, permitted.deadline);
        let (tenant, action) = (permitted.tenant.clone(), permitted.id.clone());
        Self { feishu, bot, calls, tenant, action, keyed: 0 }
    }

    /// Makes a call, with retries.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        call: FeishuCall<'_>,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        let (feishu, bot, call) = (self.feishu, self.bot, call.for_tenant(&self.tenant));
        self.calls.call(call.name, repeat, |left| feishu.call(bot, &call, left)).await
    }

    /// An idempotency key: the same for a repeat of the same call, and different for every other.
    pub fn next_uuid(&mut self) -> String {
        self.keyed += 1;
        let number = format!("-{}", self.keyed);
        let action = self.action.as_str();
        let start = action.ceil_char_boundary(action.len().saturating_sub(LONGEST_UUID - number.len()));
        format!("{}{number}", &action[start..])
    }

    /// Where an action writes: in the thread that it names, or else as an answer to the message that it names.
    pub async fn target(
        &mut self,
        chat: &ChatId,
        metadata: &Metadata,
        reply_to: Option<&MessageId>,
    ) -> Result<FeishuTarget, Outcome> {
        let id = chat.as_str();
        if !is_path_part(id) {
            return Err(Outcome::failed(NO_CHAT));
        }
        let target = FeishuTarget { chat: id.to_owned(), answered: None, in_thread: false };
        let answered = match reply_to.map(|message| message.as_str()) {
            // An answer to something that is not there is an ordinary message.
            Some(message) if self.check_in_chat(chat, message).await.is_ok() => Some(message.to_owned()),
            _ => None,
        };
        let Some(thread) = metadata.thread_id.as_ref().map(|thread| thread.as_str()) else {
            return Ok(FeishuTarget { answered, ..target });
        };
        // An answer to a message of the thread stays in it. One to another message would begin a thread there.
        let is_there = |message: &String| {
            let place = self.feishu.directory.place(&self.bot.id, message);
            place.is_some_and(|place| place.thread.as_deref() == Some(thread))
        };
        let answered = match answered.filter(is_there) {
            Some(answered) => answered,
            None => self.message_of_thread(chat, thread).await?,
        };
        // Below a message that only has answers there is no thread yet, and an answer does not begin one.
        let in_thread = !thread.starts_with("om_");
        Ok(FeishuTarget { answered: Some(answered), in_thread, ..target })
    }

    /// A message of a thread, in which one can write only by answering a message. The thread must be in the chat.
    async fn message_of_thread(&mut self, chat: &ChatId, thread: &str) -> Result<String, Outcome> {
        let nothing = || Outcome::failed("thread not found");
        if !is_path_part(thread) {
            return Err(nothing());
        }
        // A thread can be named by the message above it too.
        if thread.starts_with("om_") {
            return self.check_in_chat(chat, thread).await.map(|()| thread.to_owned()).map_err(|_| nothing());
        }
        let (feishu, bot) = (self.feishu, self.bot);
        let known = || feishu.directory.message_of(&bot.id, thread);
        if known().is_none() {
            let asked = self.calls.call("GET messages of a thread", RepeatRule::Harmless, |left| {
                feishu.look_up_thread(bot, thread, left)
            });
            match asked.await {
                Ok(place) if place.thread.as_deref() == Some(thread) => {}
                Ok(_) => return Err(nothing()),
                Err(failure) => return Err(Outcome::failed(failure.error(LABEL))),
            }
        }
        let message = known().ok_or_else(nothing)?;
        let place = feishu.directory.place(&bot.id, &message);
        match place.is_some_and(|place| place.chat == chat.as_str()) {
            true => Ok(message),
            false => Err(nothing()),
        }
    }

    /// Checks that a message is in a chat. Otherwise an agent could reach messages of chats that it may not.
    pub async fn check_in_chat(&mut self, chat: &ChatId, message: &str) -> Result<(), Outcome> {
        if !is_path_part(message) {
            return Err(Outcome::failed(NO_MESSAGE));
        }
        let (feishu, bot) = (self.feishu, self.bot);
        let place = match feishu.directory.place(&bot.id, message) {
            Some(place) => place,
            None => {
                let asked = self.calls.call("GET messages", RepeatRule::Harmless, |left| {
                    feishu.look_up_message(bot, message, left)
                });
                asked.await.map_err(|failure| match &failure {
                    // What the refusal says about a message elsewhere is not for the agent.
                    CallFailure::Refused(CallRefusal {
                        kind: RefusalKind::Gone | RefusalKind::Forbidden | RefusalKind::Permanent,
                        ..
                    }) => Outcome::failed(NO_MESSAGE),
                    failure => Outcome::failed(failure.error(LABEL)),
                })?
            }
        };
        match place.chat == chat.as_str() {
            true => Ok(()),
            false => Err(Outcome::failed(NO_MESSAGE)),
        }
    }

    /// Sends a message and returns its id. Feishu recognises a repeat by the idempotency key.
    pub async fn post(
        &mut self,
        target: &FeishuTarget,
        kind: &str,
        content: &str,
    ) -> Result<String, CallFailure> {
        let uuid = self.next_uuid();
        let (path, body) = match &target.answered {
            Some(message) => (
                format!("/im/v1/messages/{message}/reply"),
                json!({ "msg_type": kind, "content": content, "reply_in_thread": target.in_thread, "uuid": uuid }),
            ),
            None => (
                "/im/v1/messages?receive_id_type=chat_id".to_owned(),
                json!({ "receive_id": target.chat, "msg_type": kind, "content": content, "uuid": uuid }),
            ),
        };
        let call = FeishuCall::json("POST messages", Method::POST, path, body).in_chat(&target.chat);
        let posted: NewFeishuMessage = self.ask(call, RepeatRule::Harmless).await?;
        let thread = posted.thread_id.filter(|thread| !thread.is_empty());
        let place = FeishuPlace { chat: target.chat.clone(), thread };
        self.feishu.directory.keep_own(&self.bot.id, &posted.message_id, place);
        Ok(posted.message_id)
    }

    /// Replaces a text or a rich text.
    pub async fn put_text(&mut self, message: &str, kind: &str, content: &str) -> Result<(), CallFailure> {
        let body = json!({ "msg_type": kind, "content": content });
        let call = FeishuCall::json("PUT messages", Method::PUT, format!("/im/v1/messages/{message}"), body);
        self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await.map(drop)
    }

    /// Deletes a message for everybody.
    pub async fn recall_message(&mut self, message: &str) -> Result<(), CallFailure> {
        let path = format!("/im/v1/messages/{message}");
        let call = FeishuCall::json("DELETE messages", Method::DELETE, path, json!({}));
        match self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await {
            Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) | Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// All messages of the action that the agent knows by this one.
    pub fn recall(&self, message: &str) -> Arc<[String]> {
        let key = (self.bot.id.clone(), message.to_owned());
        self.feishu.split_messages.get(&key).unwrap_or_else(|| [message.to_owned()].into())
    }

    pub fn remember(&self, message: &str, messages: &[String]) {
        let key = (self.bot.id.clone(), message.to_owned());
        match messages {
            [only] if only == message => self.feishu.split_messages.invalidate(&key),
            messages => self.feishu.split_messages.insert(key, messages.into()),
        }
    }
}
