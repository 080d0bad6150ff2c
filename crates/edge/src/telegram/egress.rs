//! Actions of agents as calls of the Bot API, each answered before its deadline.

mod trip;

use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, ChatId, ChatInfo, MessageId, Outcome, ThreadId};
use relay::{Carried, Order};
use serde::{Deserialize, Serialize};

use crate::bots::Bot;
use crate::split::{Unit, split, split_measured};

use super::api::{Failure, Refused};
use super::markdown::{to_markdown_v2, visible_units};
use super::{GENERAL_TOPIC, MESSAGE_LENGTH, Telegram};
use trip::{Again, Trip};

#[derive(Serialize)]
struct SendMessage<'a> {
    chat_id: i64,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parse_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message_thread_id: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply_parameters: Option<ReplyParameters>,
}

#[derive(Clone, Copy, Serialize)]
struct ReplyParameters {
    message_id: i64,
    /// An answer to a message that is gone is still an answer.
    allow_sending_without_reply: bool,
}

#[derive(Serialize)]
struct EditMessageText<'a> {
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
struct SendChatAction {
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
struct Sent {
    message_id: i64,
}

#[derive(Deserialize)]
struct Edited {
    message_thread_id: Option<i64>,
    #[serde(default)]
    is_topic_message: bool,
}

/// Whatever a method answers whose result is of no interest.
type Done = serde::de::IgnoredAny;

#[derive(Deserialize)]
struct ChatFound {
    #[serde(rename = "type")]
    kind: String,
    title: Option<String>,
    first_name: Option<String>,
    last_name: Option<String>,
}

/// Carries out one order.
pub(super) async fn carry(telegram: &Telegram, bot: &Bot, order: Order) -> Carried {
    let mut trip = Trip::new(telegram, bot, order.deadline);
    let outcome = match order.action {
        Action::Send { chat_id, content, reply_to, metadata } => {
            trip.send(&chat_id, &content, reply_to.as_ref(), &metadata).await
        }
        Action::Edit { chat_id, message_id, content, metadata } => {
            trip.edit(&chat_id, &message_id, &content, &metadata).await
        }
        Action::Typing { chat_id, metadata, .. } => trip.type_on(&chat_id, &metadata).await,
        Action::GetChatInfo { chat_id } => trip.chat_info(&chat_id).await,
        // Presses are answered at the edge, so nothing of Telegram's is ever there to be redeemed.
        Action::FollowUp { .. } => Outcome::failed("nothing to follow up on"),
        Action::Unsupported { op, .. } => Outcome::failed(format!("unsupported op: {op}")),
    };
    Carried { outcome, posted: trip.posted }
}

/// Where messages go.
#[derive(Clone, Copy)]
struct Place {
    chat: i64,
    topic: Option<i64>,
}

fn chat(id: &ChatId) -> Result<i64, Outcome> {
    // Public names such as `@channel` are ids to Telegram as well, but never ones that came in an event.
    id.as_str().parse().map_err(|_| Outcome::failed("chat not found"))
}

fn topic(id: Option<&ThreadId>) -> Result<Option<i64>, Outcome> {
    id.map(|id| id.as_str().parse().map_err(|_| Outcome::failed("thread not found"))).transpose()
}

fn place(id: &ChatId, metadata: &Metadata) -> Result<Place, Outcome> {
    // Telegram refuses messages that name the General topic; they go there by naming none.
    let thread = metadata.thread_id.as_ref().filter(|thread| **thread != GENERAL_TOPIC);
    Ok(Place { chat: chat(id)?, topic: topic(thread)? })
}

/// What fits into one message each, measured as it will be seen.
fn chunks(content: &str) -> Vec<String> {
    split_measured(content, MESSAGE_LENGTH, &|chunk| visible_units(&to_markdown_v2(chunk)))
}

/// What became of the messages that one action consists of.
struct Said {
    /// In order; what stands there, whatever happened afterwards.
    messages: Vec<i64>,
    end: Result<(), Failure>,
}

impl Trip<'_> {
    /// Sends everything, in order. The answer names the **last** message: the one under which the
    /// conversation goes on. An edit of it replaces all of them.
    async fn send(
        &mut self,
        chat_id: &ChatId,
        content: &str,
        reply_to: Option<&MessageId>,
        metadata: &Metadata,
    ) -> Outcome {
        let place = match place(chat_id, metadata) {
            Ok(place) => place,
            Err(outcome) => return outcome,
        };
        let chunks = chunks(content);
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let reply = reply_to.and_then(|id| id.as_str().parse().ok());
        let said = self.say(place, &chunks, &[], reply).await;
        match (said.end, said.messages.last()) {
            (Ok(()), Some(last)) => {
                self.telegram.remember(self.bot, place.chat, *last, &said.messages);
                Outcome::sent(last.to_string().into())
            }
            (Ok(()), None) => Outcome::failed("message text is empty"),
            (Err(failure), _) => failed(&failure, said.messages.len(), chunks.len()),
        }
    }

    /// Makes the message say `content`. What has become too long for one message goes on in messages
    /// behind it, which later edits of the same message change along with it.
    async fn edit(
        &mut self,
        chat_id: &ChatId,
        message_id: &MessageId,
        content: &str,
        metadata: &Metadata,
    ) -> Outcome {
        let place = match place(chat_id, metadata) {
            Ok(place) => place,
            Err(outcome) => return outcome,
        };
        let Ok(message) = message_id.as_str().parse::<i64>() else {
            return Outcome::failed("message to edit not found");
        };
        let chunks = chunks(content);
        if chunks.is_empty() {
            return Outcome::failed("message text is empty");
        }
        let standing = self.telegram.recall(self.bot, place.chat, message);
        let said = self.say(place, &chunks, &standing, None).await;
        // What was added stands there even if the rest failed: the next edit must find it.
        let mut family = said.messages.clone();
        family.extend(standing.iter().skip(said.messages.len()));
        if said.end.is_ok() {
            for surplus in family.drain(said.messages.len()..) {
                let params = DeleteMessage { chat_id: place.chat, message_id: surplus };
                // Too old to be deleted, or deleted by somebody else: either way nothing is left to do.
                let _ = self.ask::<Done>("deleteMessage", &params, Again::Harmless).await;
            }
        }
        self.telegram.remember(self.bot, place.chat, message, &family);
        match said.end {
            Ok(()) => Outcome::sent(message_id.clone()),
            // Every part of an edit may be done again, up to where new messages begin.
            Err(failure) if said.messages.len() <= standing.len() => Outcome::failed(failure.error()),
            Err(failure) => failed(&failure, said.messages.len(), chunks.len()),
        }
    }

    /// Puts each chunk into the next of the `standing` messages, or into a new one where there is none.
    async fn say(
        &mut self,
        mut place: Place,
        chunks: &[String],
        standing: &[i64],
        reply: Option<i64>,
    ) -> Said {
        let mut reply =
            reply.map(|message_id| ReplyParameters { message_id, allow_sending_without_reply: true });
        let mut said = Said { messages: Vec::with_capacity(chunks.len()), end: Ok(()) };
        let mut standing = standing.iter().copied();
        for chunk in chunks {
            said.end =
                self.put_chunk(&mut place, chunk, standing.next(), reply.take(), &mut said.messages).await;
            if said.end.is_err() {
                break;
            }
        }
        said
    }

    /// As markup, or plain if Telegram cannot read the markup: a poor look beats silence.
    async fn put_chunk(
        &mut self,
        place: &mut Place,
        chunk: &str,
        mut slot: Option<i64>,
        mut reply: Option<ReplyParameters>,
        messages: &mut Vec<i64>,
    ) -> Result<(), Failure> {
        match self.put(place, &to_markdown_v2(chunk), Some("MarkdownV2"), slot, reply).await {
            Err(Failure::Refused(refused)) if refused.says("can't parse entities") => {}
            put => {
                messages.push(put?);
                return Ok(());
            }
        }
        // Plain, it may be longer than it was as markup that hides its links.
        for piece in split(chunk, MESSAGE_LENGTH, Unit::Utf16) {
            messages.push(self.put(place, &piece, None, slot.take(), reply.take()).await?);
        }
        Ok(())
    }

    /// One text into one message: the one given, or a new one.
    async fn put(
        &mut self,
        place: &mut Place,
        text: &str,
        parse_mode: Option<&'static str>,
        slot: Option<i64>,
        reply_parameters: Option<ReplyParameters>,
    ) -> Result<i64, Failure> {
        match self.put_once(place, text, parse_mode, slot, reply_parameters).await {
            // The group became a supergroup and Telegram says where it went: the same people, a new id.
            Err(Failure::Refused(Refused { migrate_to: Some(to), .. })) if place.chat != to => {
                place.chat = to;
                self.put_once(place, text, parse_mode, slot, reply_parameters).await
            }
            put => put,
        }
    }

    async fn put_once(
        &mut self,
        place: &mut Place,
        text: &str,
        parse_mode: Option<&'static str>,
        slot: Option<i64>,
        reply_parameters: Option<ReplyParameters>,
    ) -> Result<i64, Failure> {
        let Some(message_id) = slot else {
            let params = SendMessage {
                chat_id: place.chat,
                text,
                parse_mode,
                message_thread_id: place.topic,
                reply_parameters,
            };
            let sent: Sent = self.ask("sendMessage", &params, Again::IfNothingWasDone).await?;
            return Ok(sent.message_id);
        };
        let params = EditMessageText { chat_id: place.chat, message_id, text, parse_mode };
        match self.ask::<Edited>("editMessageText", &params, Again::Harmless).await {
            Ok(edited) => {
                // What does not fit any more belongs where the message stands, named or not.
                let topic = edited.message_thread_id.filter(|_| edited.is_topic_message);
                place.topic = place.topic.or(topic);
                Ok(message_id)
            }
            Err(Failure::Refused(refused)) if refused.says("message is not modified") => Ok(message_id),
            Err(failure) => Err(failure),
        }
    }

    async fn type_on(&mut self, chat_id: &ChatId, metadata: &Metadata) -> Outcome {
        // Unlike a message, this sign shows up in the General topic only if that is named.
        let (chat_id, message_thread_id) = match (chat(chat_id), topic(metadata.thread_id.as_ref())) {
            (Ok(chat), Ok(topic)) => (chat, topic),
            (Err(outcome), _) | (_, Err(outcome)) => return outcome,
        };
        let params = SendChatAction { chat_id, action: "typing", message_thread_id };
        match self.ask::<Done>("sendChatAction", &params, Again::Never).await {
            Ok(_) => Outcome::done(),
            Err(failure) => Outcome::failed(failure.error()),
        }
    }

    async fn chat_info(&mut self, chat_id: &ChatId) -> Outcome {
        let chat = match chat(chat_id) {
            Ok(chat) => chat,
            Err(outcome) => return outcome,
        };
        let key = (self.bot.id.clone(), chat);
        if let Some(known) = self.telegram.chats.get(&key) {
            return Outcome::info(known);
        }
        match self.ask::<ChatFound>("getChat", &GetChat { chat_id: chat }, Again::Harmless).await {
            Ok(found) => {
                let info = found.info(chat_id);
                self.telegram.chats.insert(key, info.clone());
                Outcome::info(info)
            }
            Err(failure) => Outcome::failed(failure.error()),
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

/// Once a part stands there, the whole must not be sent again, whatever stopped the rest: stock
/// gateways repeat everything but what `timed out`.
fn failed(failure: &Failure, sent: usize, of: usize) -> Outcome {
    if sent == 0 {
        return Outcome::failed(failure.error());
    }
    let cause = failure.cause();
    Outcome::failed(format!("only {sent} of {of} messages were sent, then it failed or timed out: {cause}"))
}
