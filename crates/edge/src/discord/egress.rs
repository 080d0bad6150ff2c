//! Sending actions of agents as calls of Discord's API, each within its deadline.

mod calls;
mod media;
mod prompts;
mod threads;

use http::Method;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, ChatInfo, MessageId, Outcome};
use relay::{EgressResult, PermittedAction};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api::DiscordCall;
use super::dialect::to_discord;
use super::directory::{Channel, DIRECT, GROUP_DIRECT, is_thread};
use super::{Discord, LABEL, MESSAGE_LENGTH};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind, RepeatRule};
use crate::split::{Unit, split};
use calls::DiscordCalls;
pub(super) use media::send_media;
pub(super) use prompts::close as close_prompt;

#[derive(Deserialize)]
pub(super) struct CreatedMessage {
    pub id: String,
}

/// Carries out one action.
pub(super) async fn perform(discord: &Discord, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
    let mut calls = DiscordCalls::new(discord, bot, &permitted);
    let outcome = match permitted.action {
        Action::Send { chat_id, content, reply_to, metadata } => {
            calls.send(&chat_id, &content, reply_to.as_ref(), &metadata, None).await
        }
        Action::Edit { chat_id, message_id, content, metadata } => {
            calls.edit(&chat_id, &message_id, &content, &metadata).await
        }
        // Discord's typing sign ends by itself, so that there is nothing to clear.
        Action::Typing { content: Some(content), .. } if content.is_empty() => Outcome::done(),
        Action::Typing { chat_id, metadata, .. } => calls.type_on(&chat_id, &metadata).await,
        Action::GetChatInfo { chat_id } => calls.chat_info(&chat_id).await,
        Action::Prompt { chat_id, prompt_id, content, options, reply_to, metadata, .. } => {
            calls.prompt(&chat_id, (&prompt_id, &options), &content, reply_to.as_ref(), &metadata).await
        }
        Action::React { chat_id, message_id, emoji, remove, metadata } => {
            calls.react(&chat_id, &message_id, (&emoji, remove), &metadata).await
        }
        Action::ThreadCreate { chat_id, thread_name, message_id, .. } => {
            calls.create_thread(&chat_id, &thread_name, message_id.as_ref()).await
        }
        Action::ThreadRename { chat_id, thread_id, thread_name, .. } => {
            calls.rename_thread(&chat_id, &thread_id, &thread_name).await
        }
        other => Outcome::unsupported(other.op()),
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// An id of Discord. Anything else could change the path of a call.
pub(super) fn snowflake(id: &str) -> Option<&str> {
    let is_number = !id.is_empty() && id.len() <= 20 && id.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then_some(id)
}

impl Discord {
    /// Texts for one message each, in Discord's Markdown.
    pub(super) async fn chunks(&self, bot: &OpenedBot, content: &str) -> Vec<String> {
        let fit = |text: &str| split(&to_discord(text), MESSAGE_LENGTH, Unit::Chars);
        self.split_limits.run(&bot.id, content, fit).await
    }
}

/// A message that mentions nobody: text of a model must not notify people.
pub(super) fn message(content: &str) -> Value {
    json!({ "content": content, "allowed_mentions": { "parse": [], "replied_user": false } })
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

impl DiscordCalls<'_> {
    /// Sends all chunks in order. The outcome names the **last** message, because the conversation continues below
    /// it. An edit of it replaces all of them.
    async fn send(
        &mut self,
        chat: &ChatId,
        content: &str,
        reply_to: Option<&MessageId>,
        metadata: &Metadata,
        buttons: Option<Value>,
    ) -> Outcome {
        let channel = match self.channel(chat, metadata).await {
            Ok(channel) => channel,
            Err(refusal) => return refusal,
        };
        let chunks = self.discord.chunks(self.bot, content).await;
        let mut reply = reply_to.and_then(|id| snowflake(id.as_str()));
        let mut sent: Vec<String> = Vec::with_capacity(chunks.len());
        for (left, chunk) in (0..chunks.len()).rev().zip(&chunks) {
            let mut body = message(chunk);
            if let Some(reply) = reply.take() {
                body["message_reference"] = json!({ "message_id": reply, "fail_if_not_exists": false });
            }
            if let Some(buttons) = buttons.as_ref().filter(|_| left == 0) {
                // The buttons of a prompt are below its last message.
                body["components"] = buttons.clone();
            }
            match self.create(channel, body).await {
                Ok(created) => sent.push(created.id),
                Err(failure) => return failed(&failure, sent.len(), chunks.len()),
            }
        }
        match sent.last() {
            Some(last) => {
                self.remember(channel, last, &sent);
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
        let Some(edited) = snowflake(message_id.as_str()) else {
            return Outcome::failed("message to edit not found");
        };
        let channel = match self.channel(chat, metadata).await {
            Ok(channel) => channel,
            Err(refusal) => return refusal,
        };
        let chunks = self.discord.chunks(self.bot, content).await;
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let existing = self.recall(channel, edited);
        let mut parts: Vec<String> = Vec::with_capacity(chunks.len());
        let mut end = Ok(());
        for (at, chunk) in chunks.iter().enumerate() {
            let written = match existing.get(at) {
                Some(slot) => self.change(channel, slot, message(chunk)).await.map(|()| slot.clone()),
                None => self.create(channel, message(chunk)).await.map(|created| created.id),
            };
            match written {
                Ok(id) => parts.push(id),
                Err(failure) => {
                    end = Err(failure);
                    break;
                }
            }
        }
        let written = parts.len();
        // New messages exist even if the rest failed, so the next edit must know them.
        parts.extend(existing.iter().skip(written).cloned());
        if end.is_ok() {
            for surplus in parts.drain(chunks.len().min(parts.len())..) {
                // It may be deleted already. Nothing can be done about it.
                let _ = self.delete(channel, &surplus).await;
            }
        }
        self.remember(channel, edited, &parts);
        match end {
            Ok(()) => Outcome::sent(message_id.clone()),
            // As long as no new message was sent, the whole edit can be repeated.
            Err(failure) if written <= existing.len() => Outcome::failed(failure.error(LABEL)),
            Err(failure) => failed(&failure, written, chunks.len()),
        }
    }

    async fn type_on(&mut self, chat: &ChatId, metadata: &Metadata) -> Outcome {
        let channel = match self.channel(chat, metadata).await {
            Ok(channel) => channel,
            Err(refusal) => return refusal,
        };
        let call =
            DiscordCall::new(Method::POST, "POST /channels/ID/typing", format!("/channels/{channel}/typing"));
        self.done(call.of(channel), RepeatRule::Never).await
    }

    async fn react(
        &mut self,
        chat: &ChatId,
        message: &MessageId,
        (emoji, remove): (&str, bool),
        metadata: &Metadata,
    ) -> Outcome {
        let Some(message) = snowflake(message.as_str()) else { return Outcome::failed("message not found") };
        let channel = match self.channel(chat, metadata).await {
            Ok(channel) => channel,
            Err(refusal) => return refusal,
        };
        // Discord does not accept the variation selector for the coloured form.
        let emoji = encoded(emoji.trim_end_matches('\u{fe0f}'));
        let path = format!("/channels/{channel}/messages/{message}/reactions/{emoji}/@me");
        let call = match remove {
            false => DiscordCall::new(Method::PUT, "PUT /channels/ID/messages/ID/reactions", path),
            true => DiscordCall::new(Method::DELETE, "DELETE /channels/ID/messages/ID/reactions", path),
        };
        self.done(call.of(channel), RepeatRule::Harmless).await
    }

    async fn chat_info(&mut self, chat: &ChatId) -> Outcome {
        let Some(id) = snowflake(chat.as_str()) else { return Outcome::failed("chat not found") };
        let key = (self.bot.id.clone(), chat.clone());
        if let Some(known) = self.discord.chats.get(&key) {
            return Outcome::info(known);
        }
        let call = DiscordCall::get("GET /channels/ID", &format!("/channels/{id}")).of(id);
        match self.ask::<Channel>(call, RepeatRule::Harmless).await {
            Ok(found) => {
                let kind = match found.kind {
                    DIRECT | GROUP_DIRECT => "dm",
                    kind if is_thread(kind) => "thread",
                    _ => "group",
                };
                let name = found.name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_owned());
                let info = ChatInfo { name, kind: kind.to_owned() };
                self.discord.chats.insert(key, info.clone());
                Outcome::info(info)
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    /// Posts a message. It carries a nonce, by which Discord recognises a repeat.
    pub(super) async fn create(
        &mut self,
        channel: &str,
        mut body: Value,
    ) -> Result<CreatedMessage, CallFailure> {
        body["nonce"] = self.next_nonce().into();
        body["enforce_nonce"] = true.into();
        let path = format!("/channels/{channel}/messages");
        let call = DiscordCall::new(Method::POST, "POST /channels/ID/messages", path).of(channel).json(body);
        self.ask(call, RepeatRule::Harmless).await
    }

    async fn change(&mut self, channel: &str, message: &str, body: Value) -> Result<(), CallFailure> {
        let path = format!("/channels/{channel}/messages/{message}");
        let call =
            DiscordCall::new(Method::PATCH, "PATCH /channels/ID/messages/ID", path).of(channel).json(body);
        self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await.map(drop)
    }

    async fn delete(&mut self, channel: &str, message: &str) -> Result<(), CallFailure> {
        let path = format!("/channels/{channel}/messages/{message}");
        let call = DiscordCall::new(Method::DELETE, "DELETE /channels/ID/messages/ID", path).of(channel);
        match self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await {
            Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) | Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// A call without a result.
    async fn done(&mut self, call: DiscordCall<'_>, repeat: RepeatRule) -> Outcome {
        match self.ask::<IgnoredAny>(call, repeat).await {
            Ok(_) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    fn recall(&self, channel: &str, message: &str) -> std::sync::Arc<[String]> {
        let key = (self.bot.id.clone(), channel.to_owned(), message.to_owned());
        self.discord.split_messages.get(&key).unwrap_or_else(|| [message.to_owned()].into())
    }

    fn remember(&self, channel: &str, message: &str, parts: &[String]) {
        let key = (self.bot.id.clone(), channel.to_owned(), message.to_owned());
        match parts {
            [only] if only == message => self.discord.split_messages.invalidate(&key),
            parts => self.discord.split_messages.insert(key, parts.into()),
        }
    }
}

/// An emoji as a part of a path.
fn encoded(emoji: &str) -> String {
    emoji.bytes().fold(String::new(), |mut path, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                path.push(char::from(byte))
            }
            byte => path.push_str(&format!("%{byte:02X}")),
        }
        path
    })
}
