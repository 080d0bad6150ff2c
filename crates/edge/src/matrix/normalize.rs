//! Normalization of Matrix events: messages of people as events for the agent, and changes of rooms.

mod attachment;
mod words;

use http::StatusCode;
use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, MessageType, Source};
use serde_json::value::RawValue;

use super::ids::{is_event_id, is_room_id, is_user_id, server_of};
use super::membership::{DECLINE, JOIN, REFUSE_ENCRYPTED, accepts_invitation, room_call};
use super::payload::{EventRelation, MatrixEvent, MemberContent, MessageContent, Transaction};
use super::rooms::FoundRooms;
use super::{Matrix, PING_DOOR, PLATFORM, ROOMS_DOOR, TRANSACTIONS_DOOR, USER_ID, USERS_DOOR};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, PlatformResponse, Reading, VerifiedRequest, WebhookRefusal};

/// Reason for which messages of other bots are ignored unless an agent wants them.
const BOT_AUTHOR: &str = "bot_author";
const UNREADABLE: &str = "unreadable";

/// Reads a call of the homeserver, by the door at which it came.
pub(super) fn normalize(
    matrix: &Matrix,
    bot: &OpenedBot,
    verified: &VerifiedRequest,
) -> Result<Reading, WebhookRefusal> {
    let below = |door: &str| verified.door.strip_prefix(door.trim_end_matches('*')).unwrap_or_default();
    let door = verified.door.as_str();
    let mut reading = if door == PING_DOOR {
        Reading::ignored("ping")
    } else if door.starts_with(USERS_DOOR.trim_end_matches('*')) {
        let is_ours = bot.setting(USER_ID) == Some(below(USERS_DOOR));
        return Ok(found(is_ours));
    } else if door.starts_with(ROOMS_DOOR.trim_end_matches('*')) {
        return Ok(found(false));
    } else if door.is_empty() || door.starts_with(TRANSACTIONS_DOOR.trim_end_matches('*')) {
        let malformed = || WebhookRefusal::malformed("malformed_body");
        let text = std::str::from_utf8(&verified.body).map_err(|_| malformed())?;
        // Only an object: serde would also fill the struct from an array.
        let is_object = text.trim_start().starts_with('{');
        let transaction: Transaction<'_> =
            serde_json::from_str(text).ok().filter(|_| is_object).ok_or_else(malformed)?;
        read_events(matrix, bot, None, &transaction.events, verified)
    } else {
        return Err(WebhookRefusal { reason: "unknown_path", status: StatusCode::NOT_FOUND });
    };
    reading.reply = PlatformResponse::json("{}");
    Ok(reading)
}

/// The answer to the question whether we have a user or a room.
fn found(is_ours: bool) -> Reading {
    let reply = match is_ours {
        true => PlatformResponse::json("{}"),
        false => PlatformResponse {
            status: StatusCode::NOT_FOUND,
            ..PlatformResponse::json(r#"{"errcode":"M_NOT_FOUND","error":"not here"}"#)
        },
    };
    Reading { reply, ..Reading::ignored("query") }
}

/// Reads events in their order. `room` is their room, if they do not name it themselves.
pub(super) fn read_events(
    matrix: &Matrix,
    bot: &OpenedBot,
    room: Option<&str>,
    events: &[&RawValue],
    verified: &VerifiedRequest,
) -> Reading {
    let mut reading = Reading::default();
    for raw in events {
        // One event that cannot be read must not hold up the others, which the server would repeat forever.
        let event = serde_json::from_str::<MatrixEvent<'_>>(raw.get()).ok();
        let event = event.filter(|event| is_user_id(&event.sender));
        let named = event.as_ref().and_then(|event| room.or(event.room_id.as_deref()));
        match (&event, named.filter(|room| is_room_id(room))) {
            (Some(event), Some(room)) => {
                RoomEventReader { matrix, bot, room, verified, event }.read(&mut reading);
            }
            _ => reading.ignored.push(UNREADABLE),
        }
    }
    matrix.fill_rooms(bot, reading, &FoundRooms::default())
}

/// One event with what is known about it.
struct RoomEventReader<'a> {
    matrix: &'a Matrix,
    bot: &'a OpenedBot,
    room: &'a str,
    verified: &'a VerifiedRequest,
    event: &'a MatrixEvent<'a>,
}

impl RoomEventReader<'_> {
    fn read(&self, into: &mut Reading) {
        let rooms = &self.matrix.rooms;
        let reason = match &*self.event.kind {
            "m.room.message" | "m.sticker" => return self.message(into),
            // Only the state of a room makes it encrypted. Anybody in it can send an event of this kind without state.
            "m.room.encryption" if self.event.state_key.as_deref() == Some("") => {
                rooms.mark_encrypted(&self.bot.id, self.room);
                into.service_calls.push(room_call(REFUSE_ENCRYPTED, self.room));
                "encrypted"
            }
            "m.room.member" => self.member(into),
            "m.room.name" | "m.room.topic" => {
                rooms.forget(&self.bot.id, self.room);
                "room_state"
            }
            "m.room.tombstone" => {
                tracing::warn!(bot.id = %self.bot.id, "a room of a bot was replaced by a newer one: invite the bot there, and route it to its agent");
                "room_replaced"
            }
            "m.room.encrypted" | "m.room.encryption" => "encrypted",
            "m.room.redaction" => "delete",
            "m.reaction" => "reaction",
            _ => "unknown",
        };
        into.ignored.push(reason);
    }

    fn own(&self) -> Option<&str> {
        self.bot.setting(USER_ID)
    }

    /// A change of a membership. An invitation of the bot is answered.
    fn member(&self, into: &mut Reading) -> &'static str {
        let content = self.event.content.map(RawValue::get);
        let Some(Ok(content)) = content.map(serde_json::from_str::<MemberContent<'_>>) else {
            return UNREADABLE;
        };
        let is_own = self.own().is_some() && self.event.state_key.as_deref() == self.own();
        match content.membership.as_deref() {
            Some("invite") if is_own => {
                if content.is_direct {
                    self.matrix.rooms.mark_direct(&self.bot.id, self.room);
                }
                let accepts = accepts_invitation(self.bot, &self.event.sender);
                into.service_calls.push(room_call(if accepts { JOIN } else { DECLINE }, self.room));
                "invitation"
            }
            _ => {
                // The number of members or a name has changed. A room stays encrypted.
                if self.matrix.rooms.room(&self.bot.id, self.room).is_some_and(|room| !room.is_encrypted) {
                    self.matrix.rooms.forget(&self.bot.id, self.room);
                }
                "membership"
            }
        }
    }

    fn message(&self, into: &mut Reading) {
        let id = self.event.event_id.as_deref().filter(|id| is_event_id(id));
        let content = self.event.content.map(|content| serde_json::from_str(content.get()));
        let (Some(id), Some(Ok(content))) = (id, content) else {
            into.ignored.push(UNREADABLE);
            return;
        };
        if Some(&*self.event.sender) == self.own() {
            self.matrix.own_events.note_message(&self.bot.id, id);
            into.ignored.push("self");
            return;
        }
        match self.arrival(id, &content) {
            Ok(arrival) if content.automated || content.msgtype.as_deref() == Some("m.notice") => {
                into.from_bots.push(arrival);
                into.ignored.push(BOT_AUTHOR);
            }
            Ok(arrival) => into.arrivals.push(arrival),
            Err(reason) => into.ignored.push(reason),
        }
    }

    fn arrival(&self, id: &str, content: &MessageContent<'_>) -> Result<Arrival, &'static str> {
        let relation = content.relation.as_ref();
        let kind = relation.and_then(|relation| relation.rel_type.as_deref());
        if kind == Some("m.replace") {
            return Err("edit");
        }
        let thread = relation.filter(|_| kind == Some("m.thread"));
        let thread = thread.and_then(|relation| relation.event_id.as_deref()).filter(|id| is_event_id(id));
        let replied = relation.and_then(replied_event);
        let attached = attachment::attached(&self.event.kind, content);
        let mentioned = content.mentions.as_ref().map(|mentions| &mentions.user_ids);
        let mentions_us = self
            .own()
            .is_some_and(|own| mentioned.is_some_and(|users| users.iter().any(|user| &**user == own)));
        let (mut text, mut message_type) = match &attached {
            Some(attached) => (attached.caption.clone(), attached.message_type),
            None => words::words(content, replied.is_some())?,
        };
        if mentions_us {
            text = words::without_mention(&text, self.bot);
        }
        let own_events = &self.matrix.own_events;
        let is_own_reply = replied.is_some_and(|replied| own_events.has_message(&self.bot.id, replied));
        let is_own_thread = thread.is_some_and(|thread| own_events.has_thread(&self.bot.id, thread));
        let sender = &*self.event.sender;
        let mut event = Event {
            message_id: Some(id.into()),
            reply_to_message_id: replied.map(Into::into),
            reply_to: is_own_reply.then(|| Quoted { is_own: Some(true), ..Quoted::default() }),
            source: Source {
                platform: PLATFORM.into(),
                chat_id: Some(self.room.into()),
                // Until the room is known.
                chat_type: "group".to_owned(),
                chat_name: Some(self.room.to_owned()),
                user_id: Some(sender.into()),
                user_name: Some(sender.to_owned()),
                thread_id: thread.map(Into::into),
                parent_chat_id: thread.map(|_| self.room.into()),
                scope_id: self.scope().map(Into::into),
                message_id: Some(id.into()),
                ..Source::default()
            },
            ..Event::default()
        };
        event.text = text;
        if attached.is_none() && event.command().is_some_and(|name| !name.is_empty()) {
            message_type = MessageType::Command;
        }
        event.message_type = message_type;
        let references = attached.map(|attached| {
            event.media.push(attached.media);
            attached.reference
        });
        // The id of the transaction is no key: the server may put an event into another transaction.
        let dedup = [PLATFORM, ":", self.bot.id.as_str(), ":", id].concat();
        Ok(Arrival {
            addressed: mentions_us || is_own_reply || is_own_thread,
            references: references.into_iter().collect(),
            ..Arrival::new(event, dedup, self.verified.received)
        })
    }

    /// The server that the room id names; for newer rooms, whose ids name none, the bot's homeserver.
    fn scope(&self) -> Option<&str> {
        server_of(self.room).or_else(|| self.own().and_then(server_of))
    }
}

/// The message that this one answers. A reply that is only for clients without threads is none.
fn replied_event<'e>(relation: &'e EventRelation<'_>) -> Option<&'e str> {
    let replied = relation.in_reply_to.as_ref().filter(|_| !relation.is_falling_back)?;
    replied.event_id.as_deref().filter(|id| is_event_id(id))
}
