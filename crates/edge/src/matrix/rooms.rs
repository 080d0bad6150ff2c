//! Rooms and people of Matrix: names, member counts and encryption, kept for an hour and written into events.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use posthouse_time::Instant;
use posthouse_wire::{BotId, ChatInfo};

use super::Matrix;
use super::membership::{REFUSE_ENCRYPTED, room_call};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading};

const KEPT: Duration = Duration::from_secs(3600);
/// Most rooms, and most people, over all bots.
const MOST: u64 = 50_000;
/// Reason for which messages of rooms that the homeserver does not describe are ignored.
const UNKNOWN_ROOM: &str = "unknown_room";

/// A room as its state describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixRoom {
    pub name: Option<String>,
    pub topic: Option<String>,
    /// `usize::MAX` if the list of them is too long to read.
    pub members: usize,
    /// Somebody invited the bot to it as to a direct conversation.
    pub is_direct: bool,
    pub is_encrypted: bool,
}

impl MatrixRoom {
    /// A stranger can mark an invitation as direct and bring others along, who would read the answers. So the mark
    /// alone makes no direct conversation.
    pub fn is_dm(&self) -> bool {
        self.members <= 2
    }
}

/// Rooms and people by bot and id. Clones share one state.
#[derive(Clone)]
pub(super) struct RoomDirectory {
    rooms: Cache<(BotId, String), Arc<MatrixRoom>>,
    people: Cache<(BotId, String), String>,
    /// Rooms to which the bot was invited as to a direct conversation.
    direct: Cache<(BotId, String), ()>,
    /// Rooms whose last lookup failed.
    failing: Cache<(BotId, String), FailingRoom>,
}

/// A room whose last lookup failed.
#[derive(Clone, Copy)]
pub(super) struct FailingRoom {
    /// Time of the first failure in a row.
    pub since: Instant,
    /// Until then its messages are dropped without another lookup.
    pub given_up_until: Option<Instant>,
}

/// Rooms that were looked up. `None` if the messages of a room are dropped.
pub(super) type FoundRooms = HashMap<String, Option<Arc<MatrixRoom>>>;

impl Default for RoomDirectory {
    fn default() -> Self {
        Self {
            rooms: Cache::builder().max_capacity(MOST).time_to_live(KEPT).build(),
            people: Cache::builder().max_capacity(MOST).time_to_live(KEPT).build(),
            direct: Cache::builder().max_capacity(MOST).build(),
            failing: Cache::builder().max_capacity(MOST).time_to_idle(KEPT).build(),
        }
    }
}

fn key(bot: &BotId, id: &str) -> (BotId, String) {
    (bot.clone(), id.to_owned())
}

impl RoomDirectory {
    pub fn keep_room(&self, bot: &BotId, id: &str, room: MatrixRoom) {
        self.failing.invalidate(&key(bot, id));
        self.rooms.insert(key(bot, id), Arc::new(room));
    }

    pub fn keep_person(&self, bot: &BotId, id: &str, name: &str) {
        self.people.insert(key(bot, id), name.to_owned());
    }

    pub fn room(&self, bot: &BotId, id: &str) -> Option<Arc<MatrixRoom>> {
        self.rooms.get(&key(bot, id))
    }

    /// Forgets a room whose state has changed.
    pub fn forget(&self, bot: &BotId, id: &str) {
        self.rooms.invalidate(&key(bot, id));
        self.failing.invalidate(&key(bot, id));
    }

    pub fn failing(&self, bot: &BotId, id: &str) -> Option<FailingRoom> {
        self.failing.get(&key(bot, id))
    }

    pub fn keep_failing(&self, bot: &BotId, id: &str, failing: FailingRoom) {
        self.failing.insert(key(bot, id), failing);
    }

    pub fn is_direct(&self, bot: &BotId, id: &str) -> bool {
        self.direct.contains_key(&key(bot, id))
    }

    pub fn mark_direct(&self, bot: &BotId, id: &str) {
        self.direct.insert(key(bot, id), ());
    }

    /// Notes that a room is encrypted. A room never stops being so.
    pub fn mark_encrypted(&self, bot: &BotId, id: &str) {
        let known = self.room(bot, id).map(|room| MatrixRoom::clone(&room)).unwrap_or_default();
        self.keep_room(bot, id, MatrixRoom { is_encrypted: true, ..known });
    }

    /// Writes the name of the sender into an arrival, if it is known.
    fn name_sender(&self, bot: &BotId, arrival: &mut Arrival) {
        let source = &mut arrival.event.source;
        let user = source.user_id.as_ref().map(|user| user.as_str()).unwrap_or_default();
        if let Some(name) = self.people.get(&key(bot, user)) {
            source.user_name = Some(name);
        }
    }
}

impl MatrixRoom {
    /// Writes the room into an arrival.
    fn write_to(&self, arrival: &mut Arrival) {
        let source = &mut arrival.event.source;
        source.chat_topic.clone_from(&self.topic);
        if self.is_dm() {
            source.chat_type = "dm".to_owned();
            arrival.addressed = true;
        }
        let of_person = source.user_name.clone().filter(|_| self.is_dm());
        let id = || source.chat_id.as_ref().map(ToString::to_string);
        source.chat_name = self.name.clone().or(of_person).or_else(id);
    }

    /// The description for an agent. A room without a name has its id.
    pub(super) fn info(&self, id: &str) -> ChatInfo {
        let kind = if self.is_dm() { "dm" } else { "group" };
        ChatInfo { name: self.name.clone().unwrap_or_else(|| id.to_owned()), kind: kind.to_owned() }
    }
}

impl Matrix {
    /// Writes rooms and names into the events of a reading: those that were found now, and those that are known. Events
    /// of encrypted rooms are taken out, and each such room is refused. The reading is incomplete if a room is not known.
    pub(super) fn fill_rooms(&self, bot: &OpenedBot, mut reading: Reading, found: &FoundRooms) -> Reading {
        let mut encrypted: Vec<String> = Vec::new();
        reading.incomplete = false;
        for arrivals in [&mut reading.arrivals, &mut reading.from_bots] {
            arrivals.retain_mut(|arrival| {
                self.rooms.name_sender(&bot.id, arrival);
                let chat =
                    arrival.event.source.chat_id.as_ref().map(|chat| chat.as_str()).unwrap_or_default();
                let room = match found.get(chat) {
                    Some(Some(room)) => Arc::clone(room),
                    Some(None) => {
                        reading.ignored.push(UNKNOWN_ROOM);
                        return false;
                    }
                    None => match self.rooms.room(&bot.id, chat) {
                        Some(room) => room,
                        None => {
                            reading.incomplete = true;
                            return true;
                        }
                    },
                };
                if room.is_encrypted {
                    reading.ignored.push("encrypted");
                    encrypted.push(chat.to_owned());
                    return false;
                }
                room.write_to(arrival);
                true
            });
        }
        encrypted.sort();
        encrypted.dedup();
        reading.service_calls.extend(encrypted.iter().map(|room| room_call(REFUSE_ENCRYPTED, room)));
        reading
    }
}
