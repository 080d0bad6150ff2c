//! Web API calls of one action on Slack, with its deadline.

use std::sync::Arc;

use posthouse_wire::action::Metadata;
use posthouse_wire::{ChatId, MessageId, Outcome, TenantId};
use relay::PermittedAction;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::{NewSlackMessage, SlackPlace, channel_id, message_time};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};
use crate::slack::api::WebApiCall;
use crate::slack::{LABEL, Slack};

pub(in crate::slack) struct SlackCalls<'a> {
    pub slack: &'a Slack,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    tenant: TenantId,
}

#[derive(Deserialize)]
struct OpenedConversation {
    channel: ConversationId,
}

#[derive(Deserialize)]
struct ConversationId {
    id: String,
}

impl<'a> SlackCalls<'a> {
    pub fn new(slack: &'a Slack, bot: &'a OpenedBot, permitted: &PermittedAction) -> Self {
        let calls = CallsWithDeadline::new(&slack.timepiece, permitted.deadline);
        Self { slack, bot, calls, tenant: permitted.tenant.clone() }
    }

    /// Makes a call, with retries.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        call: WebApiCall,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        let (slack, bot, call) = (self.slack, self.bot, call.for_tenant(&self.tenant));
        self.calls.call(call.method, repeat, |left| slack.call(bot, call.clone(), left)).await
    }

    /// Where an action writes: the thread that it names, or else below the message that it answers. A thread is always
    /// in the channel itself, so that the permission for the channel covers it.
    pub async fn place(
        &mut self,
        chat: &ChatId,
        metadata: &Metadata,
        reply_to: Option<&MessageId>,
    ) -> Result<SlackPlace, Outcome> {
        let channel = channel_id(chat.as_str()).ok_or_else(|| Outcome::failed("chat not found"))?;
        let thread = metadata.thread_id.as_ref().map(|thread| thread.as_str());
        let thread = thread.or(reply_to.map(|message| message.as_str())).and_then(message_time);
        Ok(SlackPlace { channel: self.channel(channel).await?, thread: thread.map(str::to_owned) })
    }

    /// The channel of a chat. A person is the direct message with them.
    async fn channel(&mut self, chat: &str) -> Result<String, Outcome> {
        if !chat.starts_with(['U', 'W']) {
            return Ok(chat.to_owned());
        }
        let key = (self.bot.id.clone(), chat.to_owned());
        if let Some(known) = self.slack.direct_messages.get(&key) {
            return Ok(known);
        }
        let call = WebApiCall::json("conversations.open", json!({ "users": chat }));
        match self.ask::<OpenedConversation>(call, RepeatRule::Harmless).await {
            Ok(opened) => {
                self.slack.direct_messages.insert(key, opened.channel.id.clone());
                Ok(opened.channel.id)
            }
            Err(failure) => Err(Outcome::failed(failure.error(LABEL))),
        }
    }

    /// Posts a message. Slack does not recognise a repeat, so that a call without an answer is not repeated.
    pub async fn post(&mut self, place: &SlackPlace, body: Value) -> Result<NewSlackMessage, CallFailure> {
        let call = WebApiCall::json("chat.postMessage", body).posting_in(&place.channel);
        let posted: NewSlackMessage = self.ask(call, RepeatRule::IfNothingWasDone).await?;
        // A message outside of a thread begins one.
        let thread = place.thread.as_deref().unwrap_or(&posted.ts);
        self.slack.joined_threads.note(&self.bot.id, &place.channel, thread);
        Ok(posted)
    }

    pub async fn update(&mut self, channel: &str, ts: &str, text: &str) -> Result<(), CallFailure> {
        let body = json!({ "channel": channel, "ts": ts, "text": text, "parse": "none" });
        let call = WebApiCall::json("chat.update", body);
        self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await.map(drop)
    }

    pub async fn delete(&mut self, channel: &str, ts: &str) -> Result<(), CallFailure> {
        let call = WebApiCall::json("chat.delete", json!({ "channel": channel, "ts": ts }));
        match self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await {
            Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) | Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// All messages of the action that the agent knows by this one.
    pub fn recall(&self, channel: &str, ts: &str) -> Arc<[String]> {
        let key = (self.bot.id.clone(), channel.to_owned(), ts.to_owned());
        self.slack.split_messages.get(&key).unwrap_or_else(|| [ts.to_owned()].into())
    }

    pub fn remember(&self, channel: &str, ts: &str, messages: &[String]) {
        let key = (self.bot.id.clone(), channel.to_owned(), ts.to_owned());
        match messages {
            [only] if only == ts => self.slack.split_messages.invalidate(&key),
            messages => self.slack.split_messages.insert(key, messages.into()),
        }
    }
}
