//! Sending actions of agents as calls of Slack's Web API, each within its deadline.

mod calls;
mod media;
mod prompts;
mod reactions;

use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api::WebApiCall;
use super::mrkdwn::to_mrkdwn;
use super::{LABEL, MESSAGE_LENGTH, Slack};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, RepeatRule};
use crate::split::{Unit, split};
pub(super) use calls::SlackCalls;
pub(super) use media::send_media;
pub(super) use prompts::close as close_prompt;

/// The text beside the bot's name while the agent works.
const WORKING: &str = "is working on it...";

#[derive(Deserialize)]
pub(super) struct NewSlackMessage {
    pub ts: String,
}

/// Where an action writes.
#[derive(Clone)]
pub(super) struct SlackPlace {
    pub channel: String,
    pub thread: Option<String>,
}

/// Carries out one action.
pub(super) async fn perform(slack: &Slack, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
    let mut calls = SlackCalls::new(slack, bot, &permitted);
    let outcome = match permitted.action {
        Action::Send { chat_id, content, reply_to, metadata } => {
            match calls.place(&chat_id, &metadata, reply_to.as_ref()).await {
                Ok(place) => {
                    let chunks = slack.chunks(bot, &content, MESSAGE_LENGTH).await;
                    calls.send(&place, chunks, None).await
                }
                Err(refusal) => refusal,
            }
        }
        Action::Edit { chat_id, message_id, content, metadata } => {
            calls.edit(&chat_id, &message_id, &content, &metadata).await
        }
        Action::Typing { chat_id, content, metadata } => {
            calls.type_on(&chat_id, content.as_deref() == Some(""), &metadata).await
        }
        Action::GetChatInfo { chat_id } => calls.chat_info(&chat_id).await,
        Action::Prompt { chat_id, prompt_id, content, options, reply_to, metadata, .. } => {
            match calls.place(&chat_id, &metadata, reply_to.as_ref()).await {
                Ok(place) => calls.prompt(&place, (&prompt_id, &options), &content).await,
                Err(refusal) => refusal,
            }
        }
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

/// The time of a message, which is its id. Anything else is no message of Slack.
pub(super) fn message_time(id: &str) -> Option<&str> {
    let (seconds, fraction) = id.split_once('.')?;
    let is_number = |part: &str| (1..=12).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    (is_number(seconds) && is_number(fraction)).then_some(id)
}

/// The id of a channel or a person. A name such as `#general` would be looked up by Slack, and could be any channel.
pub(super) fn channel_id(id: &str) -> Option<&str> {
    let is_id = (2..=20).contains(&id.len())
        && id.starts_with(['C', 'D', 'G', 'U', 'W'])
        && id.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    is_id.then_some(id)
}

impl Slack {
    /// Texts for one message each, in mrkdwn. They are split after the conversion, which lengthens a text.
    pub(super) async fn chunks(&self, bot: &OpenedBot, content: &str, limit: usize) -> Vec<String> {
        let fit = move |text: &str| split(&to_mrkdwn(text), limit, Unit::Chars);
        self.split_limits.run(&bot.id, content, fit).await
    }
}

/// A message without previews of its links. Its text is not searched for names, so that it notifies nobody.
fn message(place: &SlackPlace, text: &str) -> Value {
    let mut body = json!({ "channel": place.channel, "text": text, "mrkdwn": true, "parse": "none",
        "unfurl_links": false, "unfurl_media": false });
    if let Some(thread) = &place.thread {
        body["thread_ts"] = json!(thread);
    }
    body
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

impl SlackCalls<'_> {
    /// Sends all chunks in order. `last` is added to the last one. The outcome names the **last** message, because the
    /// conversation continues below it. An edit of it replaces all of them.
    async fn send(&mut self, place: &SlackPlace, chunks: Vec<String>, last: Option<Value>) -> Outcome {
        let mut sent: Vec<String> = Vec::with_capacity(chunks.len());
        for (left, chunk) in (0..chunks.len()).rev().zip(&chunks) {
            let mut body = message(place, chunk);
            if let Some(blocks) = last.as_ref().filter(|_| left == 0) {
                body["blocks"] = blocks.clone();
            }
            match self.post(place, body).await {
                Ok(posted) => sent.push(posted.ts),
                Err(failure) => return failed(&failure, sent.len(), chunks.len()),
            }
        }
        match sent.last() {
            Some(last) => {
                self.remember(&place.channel, last, &sent);
                Outcome::sent(last.as_str().into())
            }
            None => Outcome::failed("message text is empty"),
        }
    }

    /// Replaces the text of a message. A text that is too long for one message continues in new messages after it,
    /// which later edits of the same message change too.
    async fn edit(
        &mut self,
        chat: &ChatId,
        message_id: &MessageId,
        content: &str,
        metadata: &Metadata,
    ) -> Outcome {
        let Some(edited) = message_time(message_id.as_str()) else {
            return Outcome::failed("message to edit not found");
        };
        let place = match self.place(chat, metadata, None).await {
            Ok(place) => place,
            Err(refusal) => return refusal,
        };
        let chunks = self.slack.chunks(self.bot, content, MESSAGE_LENGTH).await;
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let existing = self.recall(&place.channel, edited);
        let mut messages: Vec<String> = Vec::with_capacity(chunks.len());
        let mut end = Ok(());
        for (at, chunk) in chunks.iter().enumerate() {
            let written = match existing.get(at) {
                Some(ts) => self.update(&place.channel, ts, chunk).await.map(|()| ts.clone()),
                None => self.post(&place, message(&place, chunk)).await.map(|posted| posted.ts),
            };
            match written {
                Ok(ts) => messages.push(ts),
                Err(failure) => {
                    end = Err(failure);
                    break;
                }
            }
        }
        let written = messages.len();
        // New messages exist even if the rest failed, so the next edit must know them.
        messages.extend(existing.iter().skip(written).cloned());
        if end.is_ok() {
            for surplus in messages.drain(chunks.len().min(messages.len())..) {
                // It may be deleted already. Nothing can be done about it.
                let _ = self.delete(&place.channel, &surplus).await;
            }
        }
        self.remember(&place.channel, edited, &messages);
        match end {
            Ok(()) => Outcome::sent(message_id.clone()),
            // As long as no new message was sent, the whole edit can be repeated.
            Err(failure) if written <= existing.len() => Outcome::failed(failure.error(LABEL)),
            Err(failure) => failed(&failure, written, chunks.len()),
        }
    }

    /// Shows or clears the status of a thread. Outside of a thread Slack has none, and nothing is done.
    async fn type_on(&mut self, chat: &ChatId, clear: bool, metadata: &Metadata) -> Outcome {
        let place = match self.place(chat, metadata, None).await {
            Ok(place) => place,
            Err(refusal) => return refusal,
        };
        let (Some(thread), None) = (&place.thread, self.slack.statusless.get(&self.bot.id)) else {
            return Outcome::done();
        };
        let status = if clear { "" } else { WORKING };
        let call = WebApiCall::json(
            "assistant.threads.setStatus",
            json!({ "channel_id": place.channel, "thread_ts": thread, "status": status }),
        );
        match self.ask::<IgnoredAny>(call, RepeatRule::Never).await {
            Ok(_) => Outcome::done(),
            Err(failure) => {
                // The app has no statuses. Agents repeat them every few seconds. Refusals that depend on the chat are
                // not noted, because one agent must not take the statuses from others of the bot.
                if let CallFailure::Refused(refusal) = &failure
                    && ["missing_scope", "feature_not_enabled"].iter().any(|error| refusal.says(error))
                {
                    self.slack.statusless.insert(self.bot.id.clone(), ());
                }
                Outcome::failed(failure.error(LABEL))
            }
        }
    }

    async fn chat_info(&mut self, chat: &ChatId) -> Outcome {
        let channel = match self.place(chat, &Metadata::default(), None).await {
            Ok(place) => place.channel,
            Err(refusal) => return refusal,
        };
        let (slack, bot) = (self.slack, self.bot);
        if let Some(known) = slack.directory.chat(&bot.id, &channel) {
            return Outcome::info(known.into());
        }
        let asked = self
            .calls
            .call("conversations.info", RepeatRule::Harmless, |left| slack.look_up_chat(bot, &channel, left));
        match asked.await {
            Ok(found) => Outcome::info(found.into()),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// A thread of Slack is the messages below another one, and has no name. Under an existing message there is nothing
    /// to create; otherwise the name is the first message.
    async fn create_thread(&mut self, chat: &ChatId, name: &str, under: Option<&MessageId>) -> Outcome {
        let place = match self.place(chat, &Metadata::default(), None).await {
            Ok(place) => place,
            Err(refusal) => return refusal,
        };
        if let Some(under) = under.and_then(|message| message_time(message.as_str())) {
            self.slack.joined_threads.note(&self.bot.id, &place.channel, under);
            return Outcome::thread(under.into());
        }
        let text = format!("*{}*", super::mrkdwn::escaped(name.trim()));
        match self.post(&place, message(&place, &text)).await {
            Ok(posted) => {
                self.slack.joined_threads.note(&self.bot.id, &place.channel, &posted.ts);
                Outcome::thread(posted.ts.into())
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}
