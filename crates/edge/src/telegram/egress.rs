//! Sending actions of agents as Bot API calls, each within its deadline.

mod calls;
mod drafts;
mod media;
mod prompts;
mod reactions;
mod threads;

use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, ChatInfo, MessageId, Outcome, Secret, ThreadId};
use relay::{EgressResult, PermittedAction};
use serde::{Deserialize, Serialize};

use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, CallRefusal, RepeatRule};
use crate::split::{Unit, split, split_measured};

use super::markdown::{to_markdown_v2, visible_units};
use super::{GENERAL_TOPIC, LABEL, MESSAGE_LENGTH, Telegram};
use calls::TelegramCalls;
pub(super) use media::send_media;
use prompts::InlineKeyboard;
pub(super) use prompts::close as close_prompt;

#[derive(Serialize)]
struct SendMessage<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    business_connection_id: Option<&'a str>,
    chat_id: i64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_parameters: Option<ReplyParameters>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_markup: Option<&'a InlineKeyboard>,
}

#[derive(Clone, Copy, Serialize)]
struct ReplyParameters {
    message_id: i64,
    /// Always true: a reply to a deleted message is still sent.
    allow_sending_without_reply: bool,
}

#[derive(Serialize)]
struct EditMessageText<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    business_connection_id: Option<&'a str>,
    chat_id: i64,
    message_id: i64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_mode: Option<&'static str>,
}

#[derive(Serialize)]
struct DeleteMessage {
    chat_id: i64,
    message_id: i64,
}

#[derive(Serialize)]
struct SendChatAction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    business_connection_id: Option<&'a str>,
    chat_id: i64,
    action: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i64>,
}

#[derive(Serialize)]
struct GetChat {
    chat_id: i64,
}

#[derive(Deserialize)]
struct SentMessage {
    message_id: i64,
}

#[derive(Deserialize)]
struct Edited {
    message_thread_id: Option<i64>,
    #[serde(default)]
    is_topic_message: bool,
}

/// Result of a method whose content is not needed.
type IgnoredResult = serde::de::IgnoredAny;

#[derive(Deserialize)]
struct ChatFound {
    #[serde(rename = "type")]
    kind: String,
    title: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
}

/// Carries out one action.
pub(super) async fn perform(
    telegram: &Telegram,
    bot: &OpenedBot,
    permitted: PermittedAction,
    business: Option<&Secret>,
) -> EgressResult {
    let mut calls = TelegramCalls::new(telegram, bot, &permitted, business);
    let outcome = match permitted.action {
        Action::Send { chat_id, content, reply_to, metadata } => {
            calls.send(&chat_id, &content, reply_to.as_ref(), &metadata).await
        }
        Action::Edit { chat_id, message_id, content, metadata } => {
            calls.edit(&chat_id, &message_id, &content, &metadata).await
        }
        // Telegram's typing sign ends by itself, so that there is nothing to clear.
        Action::Typing { content: Some(content), .. } if content.is_empty() => Outcome::done(),
        Action::Typing { chat_id, metadata, .. } => calls.type_on(&chat_id, &metadata).await,
        Action::GetChatInfo { chat_id } => calls.chat_info(&chat_id).await,
        Action::Prompt { chat_id, prompt_id, content, options, reply_to, metadata, .. } => {
            calls.prompt(&chat_id, (&prompt_id, &options), &content, reply_to.as_ref(), &metadata).await
        }
        Action::React { chat_id, message_id, emoji, remove, .. } => {
            calls.react(&chat_id, &message_id, &emoji, remove).await
        }
        Action::ThreadCreate { chat_id, thread_name, .. } => {
            calls.create_thread(&chat_id, &thread_name).await
        }
        Action::ThreadRename { chat_id, thread_id, thread_name, .. } => {
            calls.rename_thread(&chat_id, &thread_id, &thread_name).await
        }
        Action::Draft { chat_id, draft_id, content, is_final, metadata } => {
            calls.draft(&chat_id, draft_id, &content, is_final, &metadata).await
        }
        // The edge itself acknowledges button presses, so Telegram has no capability that could be redeemed.
        other => Outcome::unsupported(other.op()),
    };
    EgressResult { outcome, posted: calls.calls.posted, called: calls.calls.called() }
}

/// The destination of messages.
#[derive(Clone, Copy)]
struct Destination {
    chat: i64,
    topic: Option<i64>,
}

/// The id of a chat, or the text of the refusal.
fn chat(id: &ChatId) -> Result<i64, &'static str> {
    // Telegram also accepts public names such as `@channel`, but no event ever contains one as its chat id.
    id.as_str().parse().map_err(|_| "chat not found")
}

fn topic(id: Option<&ThreadId>) -> Result<Option<i64>, &'static str> {
    id.map(|id| id.as_str().parse().map_err(|_| "thread not found")).transpose()
}

fn place(id: &ChatId, metadata: &Metadata) -> Result<Destination, &'static str> {
    // Telegram refuses messages that name the General topic. A message without a topic goes there.
    let thread = metadata.thread_id.as_ref().filter(|thread| **thread != GENERAL_TOPIC);
    Ok(Destination { chat: chat(id)?, topic: topic(thread)? })
}

/// The result for the messages of one action.
struct SendResult {
    /// The messages that were written, in order, even if a later one failed.
    messages: Vec<i64>,
    end: Result<(), CallFailure>,
}

impl TelegramCalls<'_> {
    /// Texts for one message each, measured in visible characters.
    async fn chunks(&self, content: &str) -> Vec<String> {
        let visible = |chunk: &str| visible_units(&to_markdown_v2(chunk));
        let fit = move |text: &str| split_measured(text, MESSAGE_LENGTH, &visible);
        self.telegram.split_limits.run(&self.bot.id, content, fit).await
    }

    /// Sends all chunks in order. The outcome names the **last** message, because the conversation continues below
    /// it. An edit of it replaces all of them.
    async fn send(
        &mut self,
        chat_id: &ChatId,
        content: &str,
        reply_to: Option<&MessageId>,
        metadata: &Metadata,
    ) -> Outcome {
        let place = match place(chat_id, metadata) {
            Ok(place) => place,
            Err(error) => return Outcome::failed(error),
        };
        let chunks = self.chunks(content).await;
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let reply = reply_to.and_then(|id| id.as_str().parse().ok());
        let sent = self.say(place, &chunks, &[], reply).await;
        match (sent.end, sent.messages.last()) {
            (Ok(()), Some(last)) => {
                self.telegram.remember(self.bot, place.chat, *last, &sent.messages);
                Outcome::sent(last.to_string().into())
            }
            (Ok(()), None) => Outcome::failed("message text is empty"),
            (Err(failure), _) => failed(&failure, sent.messages.len(), chunks.len()),
        }
    }

    /// Replaces the text of a message. A text that is too long for one message continues in new messages after it,
    /// which later edits of the same message change too.
    async fn edit(
        &mut self,
        chat_id: &ChatId,
        message_id: &MessageId,
        content: &str,
        metadata: &Metadata,
    ) -> Outcome {
        let place = match place(chat_id, metadata) {
            Ok(place) => place,
            Err(error) => return Outcome::failed(error),
        };
        let Ok(message) = message_id.as_str().parse::<i64>() else {
            return Outcome::failed("message to edit not found");
        };
        let chunks = self.chunks(content).await;
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let existing = self.telegram.recall(self.bot, place.chat, message);
        let sent = self.say(place, &chunks, &existing, None).await;
        // New messages exist even if the rest failed, so the next edit must know them.
        let mut parts = sent.messages.clone();
        parts.extend(existing.iter().skip(sent.messages.len()));
        if sent.end.is_ok() {
            for surplus in parts.drain(sent.messages.len()..) {
                let params = DeleteMessage { chat_id: place.chat, message_id: surplus };
                // It may be too old to be deleted, or already deleted. Nothing can be done about either.
                let _ = self.ask::<IgnoredResult>("deleteMessage", &params, RepeatRule::Harmless).await;
            }
        }
        self.telegram.remember(self.bot, place.chat, message, &parts);
        match sent.end {
            Ok(()) => Outcome::sent(message_id.clone()),
            // As long as no new message was sent, the whole edit can be repeated.
            Err(failure) if sent.messages.len() <= existing.len() => Outcome::failed(failure.error(LABEL)),
            Err(failure) => failed(&failure, sent.messages.len(), chunks.len()),
        }
    }

    /// Writes each chunk into the next of the `existing` messages, or into a new message after the last of them.
    async fn say(
        &mut self,
        mut place: Destination,
        chunks: &[String],
        existing: &[i64],
        reply: Option<i64>,
    ) -> SendResult {
        let mut reply =
            reply.map(|message_id| ReplyParameters { message_id, allow_sending_without_reply: true });
        let mut sent = SendResult { messages: Vec::with_capacity(chunks.len()), end: Ok(()) };
        let mut existing = existing.iter().copied();
        for chunk in chunks {
            sent.end =
                self.put_chunk(&mut place, chunk, existing.next(), reply.take(), &mut sent.messages).await;
            if sent.end.is_err() {
                break;
            }
        }
        sent
    }

    /// Writes one chunk as markup, or as plain text if Telegram cannot parse the markup.
    async fn put_chunk(
        &mut self,
        place: &mut Destination,
        chunk: &str,
        mut slot: Option<i64>,
        mut reply: Option<ReplyParameters>,
        messages: &mut Vec<i64>,
    ) -> Result<(), CallFailure> {
        match self.put(place, &to_markdown_v2(chunk), Some("MarkdownV2"), slot, reply).await {
            Err(CallFailure::Refused(refused)) if refused.says("can't parse entities") => {}
            put => {
                messages.push(put?);
                return Ok(());
            }
        }
        // The plain text shows its link targets, so it may be too long for one message.
        let keyboard = self.keyboard.take();
        let pieces = split(chunk, MESSAGE_LENGTH, Unit::Utf16);
        for (left, piece) in (0..pieces.len()).rev().zip(&pieces) {
            // The buttons of a prompt are below its last message.
            self.keyboard = keyboard.clone().filter(|_| left == 0);
            messages.push(self.put(place, piece, None, slot.take(), reply.take()).await?);
        }
        Ok(())
    }

    /// Writes one text into the message `slot`, or into a new message.
    async fn put(
        &mut self,
        place: &mut Destination,
        text: &str,
        parse_mode: Option<&'static str>,
        slot: Option<i64>,
        reply_parameters: Option<ReplyParameters>,
    ) -> Result<i64, CallFailure> {
        match self.put_once(place, text, parse_mode, slot, reply_parameters).await {
            // The group became a supergroup. Telegram's refusal names its new id.
            Err(CallFailure::Refused(CallRefusal { moved_to: Some(to), .. }))
                if to.parse().is_ok_and(|to: i64| to != place.chat) =>
            {
                place.chat = to.parse().unwrap_or(place.chat);
                self.put_once(place, text, parse_mode, slot, reply_parameters).await
            }
            put => put,
        }
    }

    async fn put_once(
        &mut self,
        place: &mut Destination,
        text: &str,
        parse_mode: Option<&'static str>,
        slot: Option<i64>,
        reply_parameters: Option<ReplyParameters>,
    ) -> Result<i64, CallFailure> {
        let Some(message_id) = slot else {
            let keyboard = self.keyboard.clone();
            let params = SendMessage {
                business_connection_id: self.business_connection(),
                chat_id: place.chat,
                text,
                parse_mode,
                message_thread_id: place.topic,
                reply_parameters,
                reply_markup: keyboard.as_ref(),
            };
            let sent: SentMessage = self.ask("sendMessage", &params, RepeatRule::IfNothingWasDone).await?;
            return Ok(sent.message_id);
        };
        let business_connection_id = self.business_connection();
        let params =
            EditMessageText { business_connection_id, chat_id: place.chat, message_id, text, parse_mode };
        match self.ask::<Edited>("editMessageText", &params, RepeatRule::Harmless).await {
            Ok(edited) => {
                // Further messages must go to the topic of the edited message, even if the action names no topic.
                let topic = edited.message_thread_id.filter(|_| edited.is_topic_message);
                place.topic = place.topic.or(topic);
                Ok(message_id)
            }
            Err(CallFailure::Refused(refused)) if refused.says("message is not modified") => Ok(message_id),
            Err(failure) => Err(failure),
        }
    }

    async fn type_on(&mut self, chat_id: &ChatId, metadata: &Metadata) -> Outcome {
        // Unlike a message, the typing sign appears in the General topic only if that topic is named.
        let (chat_id, message_thread_id) = match (chat(chat_id), topic(metadata.thread_id.as_ref())) {
            (Ok(chat), Ok(topic)) => (chat, topic),
            (Err(error), _) | (_, Err(error)) => return Outcome::failed(error),
        };
        let business_connection_id = self.business_connection();
        let params = SendChatAction { business_connection_id, chat_id, action: "typing", message_thread_id };
        match self.ask::<IgnoredResult>("sendChatAction", &params, RepeatRule::Never).await {
            Ok(_) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }

    async fn chat_info(&mut self, chat_id: &ChatId) -> Outcome {
        let chat = match chat(chat_id) {
            Ok(chat) => chat,
            Err(error) => return Outcome::failed(error),
        };
        let key = (self.bot.id.clone(), chat);
        if let Some(known) = self.telegram.chats.get(&key) {
            return Outcome::info(known);
        }
        match self.ask::<ChatFound>("getChat", &GetChat { chat_id: chat }, RepeatRule::Harmless).await {
            Ok(found) => {
                let info = found.info(chat_id);
                self.telegram.chats.insert(key, info.clone());
                Outcome::info(info)
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}

impl ChatFound {
    fn info(self, id: &ChatId) -> ChatInfo {
        let kind = match self.kind.as_str() {
            "private" => "dm",
            "channel" => "channel",
            _ => "group",
        };
        let person = [self.first_name, self.last_name].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let name = self.title.unwrap_or(person);
        let name = if name.trim().is_empty() { id.to_string() } else { name.trim().to_owned() };
        ChatInfo { name, kind: kind.to_owned() }
    }
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
