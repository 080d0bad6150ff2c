//! Normalization of Feishu's events: turns messages and card actions into events for the agent, and captures what must
//! not reach the agent.

mod card_actions;
mod content;

use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, MessageType, Source};
use serde_json::json;

use self::content::{ReadContent, read_content};
use super::directory::FeishuPlace;
use super::payload::{FeishuEnvelope, FeishuHeader, FeishuMessage, FeishuPerson, ReceivedMessage};
use super::{APP_ID, BOT_OPEN_ID, Feishu, PLATFORM};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, PlatformResponse, Reading, VerifiedRequest, WebhookRefusal};

const MALFORMED: WebhookRefusal = WebhookRefusal::malformed("malformed_body");
/// Reason for which messages of other bots are ignored unless an agent wants them.
const BOT_AUTHOR: &str = "bot_author";

pub(super) fn normalize(
    feishu: &Feishu,
    bot: &OpenedBot,
    verified: &VerifiedRequest,
) -> Result<Reading, WebhookRefusal> {
    // The body is checked as UTF-8 once, so that serde need not check every string.
    let text = std::str::from_utf8(&verified.body).map_err(|_| MALFORMED)?;
    let envelope: FeishuEnvelope<'_> = serde_json::from_str(text).map_err(|_| MALFORMED)?;
    if envelope.kind.as_deref() == Some("url_verification") {
        let challenge = envelope.challenge.ok_or(MALFORMED)?;
        let reply = PlatformResponse::json(json!({ "challenge": &*challenge }).to_string());
        return Ok(Reading { reply, ..Reading::default() });
    }
    // Events of the older schema have no header. An app gets them only if its operator subscribes to them.
    let (Some(header), Some(event)) = (&envelope.header, envelope.event) else {
        return Ok(Reading::ignored("unknown"));
    };
    let own_app = bot.setting(APP_ID).unwrap_or(bot.id.as_str());
    if header.app_id.as_deref().is_some_and(|app| app != own_app) {
        return Ok(Reading::ignored("foreign_app"));
    }
    let context = FeishuContext { feishu, bot, verified, header };
    Ok(match header.event_type.as_deref().unwrap_or_default() {
        "im.message.receive_v1" => {
            context.message(&serde_json::from_str(event.get()).map_err(|_| MALFORMED)?)
        }
        "card.action.trigger" => {
            context.card_action(&serde_json::from_str(event.get()).map_err(|_| MALFORMED)?)
        }
        "im.message.recalled_v1" => Reading::ignored("delete"),
        "im.message.updated_v1" => Reading::ignored("edit"),
        "im.message.reaction.created_v1" | "im.message.reaction.deleted_v1" => Reading::ignored("reaction"),
        "im.message.message_read_v1" => Reading::ignored("status"),
        kind if kind.starts_with("im.chat.") => Reading::ignored("service"),
        _ => Reading::ignored("unknown"),
    })
}

/// What is known about an event besides its own object.
struct FeishuContext<'a> {
    feishu: &'a Feishu,
    bot: &'a OpenedBot,
    verified: &'a VerifiedRequest,
    header: &'a FeishuHeader<'a>,
}

impl FeishuContext<'_> {
    /// The id of the bot as a member of chats. Empty if it is not known.
    fn own(&self) -> &str {
        self.bot.setting(BOT_OPEN_ID).unwrap_or_default()
    }

    fn message(&self, received: &ReceivedMessage<'_>) -> Reading {
        let (sender, message) = (&received.sender, &received.message);
        let nobody = FeishuPerson::default();
        let person = sender.sender_id.as_ref().unwrap_or(&nobody);
        let own = self.own();
        if !own.is_empty() && person.open_id.as_deref() == Some(own) {
            return Reading::ignored("self");
        }
        let is_person = sender.sender_type.as_deref() == Some("user");
        let Some(content) = read_content(message, own) else { return Reading::ignored("empty") };
        let arrival = self.arrival(message, person, content);
        let incomplete = arrival.event.source.user_name.is_none() || self.lacks_chat(message);
        if !is_person {
            return Reading { from_bots: vec![arrival], incomplete, ..Reading::ignored(BOT_AUTHOR) };
        }
        Reading { arrivals: vec![arrival], incomplete, ..Reading::default() }
    }

    /// Whether the name of a group must be looked up. A direct chat has none.
    fn lacks_chat(&self, message: &FeishuMessage<'_>) -> bool {
        !is_direct(message) && self.feishu.directory.chat(&self.bot.id, &message.chat_id).is_none()
    }

    fn arrival(
        &self,
        message: &FeishuMessage<'_>,
        person: &FeishuPerson<'_>,
        content: ReadContent,
    ) -> Arrival {
        let directory = &self.feishu.directory;
        let (chat, id) = (&*message.chat_id, &*message.message_id);
        let thread = message.thread_id.as_deref().or(message.root_id.as_deref());
        let parent = message.parent_id.as_deref();
        let replies_to_us = parent.is_some_and(|parent| directory.is_own(&self.bot.id, parent))
            || thread.is_some_and(|thread| directory.is_own(&self.bot.id, thread));
        let place =
            FeishuPlace { chat: chat.to_owned(), thread: message.thread_id.as_deref().map(str::to_owned) };
        directory.keep_place(&self.bot.id, id, place);
        if is_direct(message) {
            directory.keep_direct(&self.bot.id, chat);
        }
        let mut event = Event {
            text: content.text,
            message_id: Some(id.into()),
            reply_to_message_id: parent.map(Into::into),
            reply_to: replies_to_us.then(|| Quoted { is_own: Some(true), ..Quoted::default() }),
            message_type: content.message_type,
            source: Source {
                message_id: Some(id.into()),
                thread_id: thread.map(Into::into),
                ..self.source(chat, is_direct(message), person)
            },
            ..Event::default()
        };
        if content.files.is_empty() && event.command().is_some_and(|name| !name.is_empty()) {
            event.message_type = MessageType::Command;
        }
        let mut references = Vec::with_capacity(content.files.len());
        for file in content.files {
            references.push(file.reference);
            event.media.push(file.media);
        }
        let addressed = is_direct(message) || content.mentions_bot || replies_to_us;
        // Feishu may push one message under two event ids. The id of the message is in both.
        Arrival { addressed, references, ..Arrival::new(event, self.dedup(id), self.verified.received) }
    }

    fn source(&self, chat: &str, is_direct: bool, person: &FeishuPerson<'_>) -> Source {
        let directory = &self.feishu.directory;
        let ids = [person.open_id.as_deref(), person.union_id.as_deref(), person.user_id.as_deref()];
        let name = ids.into_iter().flatten().find_map(|id| directory.person(&self.bot.id, id));
        let known = directory.chat(&self.bot.id, chat);
        // The id of a group, until its name is known. A direct chat is called after the person.
        let chat_name = match known {
            Some(known) => known.name,
            None if is_direct => name.clone().unwrap_or_else(|| chat.to_owned()),
            None => chat.to_owned(),
        };
        Source {
            platform: PLATFORM.into(),
            chat_id: Some(chat.into()),
            chat_type: if is_direct { "dm" } else { "group" }.to_owned(),
            chat_name: Some(chat_name),
            user_id: person.user_id.as_deref().or(person.open_id.as_deref()).map(Into::into),
            user_id_alt: person.union_id.as_deref().map(Into::into),
            user_name: name,
            scope_id: self.header.tenant_key.as_deref().map(Into::into),
            ..Source::default()
        }
    }

    fn dedup(&self, key: &str) -> String {
        format!("{PLATFORM}:{}:{key}", self.bot.id)
    }
}

fn is_direct(message: &FeishuMessage<'_>) -> bool {
    message.chat_type.as_deref() == Some("p2p")
}
