//! Rooms and people of Matrix: names, member counts and encryption, looked up once and kept for an hour.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use http::Method;
use moka::sync::Cache;
use posthouse_wire::{BotId, ChatInfo};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::api::MatrixCall;
use super::membership::{REFUSE_ENCRYPTED, room_call};
use super::{LABEL, Matrix};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading};
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

const KEPT: Duration = Duration::from_secs(3600);
/// Time for which a failed lookup is not repeated.
const NOT_REPEATED: Duration = Duration::from_secs(60);
/// Most rooms, and most people, over all bots.
const MOST: u64 = 50_000;
/// Time limit for all lookups of one delivery.
const TIME_LIMIT: Duration = Duration::from_secs(2);
/// Most rooms that are looked up for one delivery.
const MOST_LOOKUPS: usize = 8;
/// Most people of one room whose names are kept at its lookup.
const MOST_NAMES: usize = 500;

/// A room as its state describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatrixRoom {
    pub name: Option<String>,
    pub topic: Option<String>,
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
    /// Rooms whose lookup failed a moment ago.
    failed: Cache<(BotId, String), ()>,
}

impl Default for RoomDirectory {
    fn default() -> Self {
        Self {
            rooms: Cache::builder().max_capacity(MOST).time_to_live(KEPT).build(),
            people: Cache::builder().max_capacity(MOST).time_to_live(KEPT).build(),
            direct: Cache::builder().max_capacity(MOST).build(),
            failed: Cache::builder().max_capacity(MOST).time_to_live(NOT_REPEATED).build(),
        }
    }
}

fn key(bot: &BotId, id: &str) -> (BotId, String) {
    (bot.clone(), id.to_owned())
}

impl RoomDirectory {
    pub fn keep_room(&self, bot: &BotId, id: &str, room: MatrixRoom) {
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
        self.failed.invalidate(&key(bot, id));
    }

    pub fn mark_direct(&self, bot: &BotId, id: &str) {
        self.direct.insert(key(bot, id), ());
    }

    /// Notes that a room is encrypted. A room never stops being so.
    pub fn mark_encrypted(&self, bot: &BotId, id: &str) {
        let known = self.room(bot, id).map(|room| MatrixRoom::clone(&room)).unwrap_or_default();
        self.keep_room(bot, id, MatrixRoom { is_encrypted: true, ..known });
    }

    /// Writes what is known about the room into an arrival. False if the room is not known.
    fn fill(&self, bot: &BotId, arrival: &mut Arrival) -> bool {
        let source = &mut arrival.event.source;
        let user = source.user_id.as_ref().map(|user| user.as_str()).unwrap_or_default();
        if let Some(name) = self.people.get(&key(bot, user)) {
            source.user_name = Some(name);
        }
        let chat = source.chat_id.as_ref().map(|chat| chat.as_str()).unwrap_or_default();
        let Some(room) = self.room(bot, chat) else { return self.failed.contains_key(&key(bot, chat)) };
        source.chat_topic.clone_from(&room.topic);
        if room.is_dm() {
            source.chat_type = "dm".to_owned();
            arrival.addressed = true;
        }
        let of_person = source.user_name.clone().filter(|_| room.is_dm());
        source.chat_name = room.name.clone().or(of_person).or_else(|| Some(chat.to_owned()));
        true
    }
}

#[derive(Deserialize)]
struct RoomName {
    name: Option<String>,
}

#[derive(Deserialize)]
struct RoomTopic {
    topic: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct JoinedMembers {
    pub joined: HashMap<String, MemberProfile>,
}

#[derive(Deserialize)]
pub(super) struct MemberProfile {
    display_name: Option<String>,
}

impl Matrix {
    /// Writes the known rooms and names into the events of a reading. Events of encrypted rooms are taken out, and each
    /// such room is refused. The reading is incomplete if a room is not known.
    pub(super) fn fill_rooms(&self, bot: &OpenedBot, mut reading: Reading) -> Reading {
        let mut encrypted: Vec<String> = Vec::new();
        for arrivals in [&mut reading.arrivals, &mut reading.from_bots] {
            arrivals.retain_mut(|arrival| {
                let is_known = self.rooms.fill(&bot.id, arrival);
                reading.incomplete |= !is_known;
                let chat =
                    arrival.event.source.chat_id.as_ref().map(|chat| chat.as_str()).unwrap_or_default();
                let is_encrypted = self.rooms.room(&bot.id, chat).is_some_and(|room| room.is_encrypted);
                if is_encrypted {
                    reading.ignored.push("encrypted");
                    encrypted.push(chat.to_owned());
                }
                !is_encrypted
            });
        }
        encrypted.sort();
        encrypted.dedup();
        reading.service_calls.extend(encrypted.iter().map(|room| room_call(REFUSE_ENCRYPTED, room)));
        reading
    }

    /// Looks up the rooms that a reading lacks.
    pub(super) async fn complete_rooms(&self, bot: &OpenedBot, mut reading: Reading) -> Reading {
        let chats = reading.arrivals.iter().chain(&reading.from_bots);
        let chats = chats.filter_map(|arrival| arrival.event.source.chat_id.as_ref());
        let mut missing: Vec<String> = chats.map(|chat| chat.as_str().to_owned()).collect();
        missing.sort();
        missing.dedup();
        missing.retain(|room| self.rooms.room(&bot.id, room).is_none());
        missing.truncate(MOST_LOOKUPS);
        let lookups = join_all(missing.iter().map(|room| self.look_up_room(bot, room, TIME_LIMIT)));
        if self.timepiece.within(TIME_LIMIT, lookups).await.is_err() {
            tracing::warn!(bot.id = %bot.id, "the homeserver did not describe a room in time");
        }
        reading.incomplete = false;
        let mut reading = self.fill_rooms(bot, reading);
        reading.incomplete = false;
        reading
    }

    /// The room, from the cache or the homeserver.
    pub(super) async fn known_room(
        &self,
        bot: &OpenedBot,
        id: &str,
        limit: Duration,
    ) -> Result<Arc<MatrixRoom>, CallFailure> {
        match self.rooms.room(&bot.id, id) {
            Some(known) => Ok(known),
            None => self.look_up_room(bot, id, limit).await,
        }
    }

    /// Asks the homeserver for a room, and keeps the answer.
    pub(super) async fn look_up_room(
        &self,
        bot: &OpenedBot,
        id: &str,
        limit: Duration,
    ) -> Result<Arc<MatrixRoom>, CallFailure> {
        let (name, topic, encryption, members) = tokio::join!(
            self.room_state::<RoomName>(bot, id, "m.room.name", limit),
            self.room_state::<RoomTopic>(bot, id, "m.room.topic", limit),
            self.room_state::<IgnoredAny>(bot, id, "m.room.encryption", limit),
            self.joined_members(bot, id, limit),
        );
        let found = (|| {
            let text = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
            let members = members?;
            for (user, profile) in members.joined.iter().take(MOST_NAMES) {
                let shown = profile.display_name.as_deref().filter(|name| !name.trim().is_empty());
                self.rooms.keep_person(&bot.id, user, shown.unwrap_or(user));
            }
            Ok(MatrixRoom {
                name: text(name?.and_then(|name| name.name)),
                topic: text(topic?.and_then(|topic| topic.topic)),
                members: members.joined.len(),
                is_direct: self.rooms.direct.contains_key(&key(&bot.id, id)),
                is_encrypted: encryption?.is_some(),
            })
        })();
        match found {
            Ok(room) => {
                // An event may have said meanwhile that the room is encrypted now.
                let was = self.rooms.room(&bot.id, id).is_some_and(|room| room.is_encrypted);
                let room = MatrixRoom { is_encrypted: room.is_encrypted || was, ..room };
                self.rooms.keep_room(&bot.id, id, room.clone());
                Ok(Arc::new(room))
            }
            Err(failure) => {
                self.rooms.failed.insert(key(&bot.id, id), ());
                tracing::warn!(bot.id = %bot.id, "could not look up a room: {}", CallFailure::cause(&failure, LABEL));
                Err(failure)
            }
        }
    }

    /// The content of a state event. `None` if the room has none.
    async fn room_state<R: DeserializeOwned>(
        &self,
        bot: &OpenedBot,
        room: &str,
        kind: &'static str,
        limit: Duration,
    ) -> Result<Option<R>, CallFailure> {
        let call = MatrixCall::in_room(Method::GET, "GET state", room, &["state", kind, ""]);
        match self.call(bot, call, limit).await {
            Ok(content) => Ok(Some(content)),
            Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    pub(super) async fn joined_members(
        &self,
        bot: &OpenedBot,
        room: &str,
        limit: Duration,
    ) -> Result<JoinedMembers, CallFailure> {
        let call = MatrixCall::in_room(Method::GET, "GET joined_members", room, &["joined_members"]);
        self.call(bot, call, limit).await
    }
}

impl MatrixRoom {
    /// The description for an agent. A room without a name has its id.
    pub(super) fn info(&self, id: &str) -> ChatInfo {
        let kind = if self.is_dm() { "dm" } else { "group" };
        ChatInfo { name: self.name.clone().unwrap_or_else(|| id.to_owned()), kind: kind.to_owned() }
    }
}
