//! Lookups of rooms: what the homeserver says about rooms that are not known. No message is stored before its room is
//! known, because the room decides whether it is for the bot.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::Method;
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::api::MatrixCall;
use super::rooms::{FailingRoom, FoundRooms, MatrixRoom};
use super::{LABEL, Matrix};
use crate::Fault;
use crate::bots::OpenedBot;
use crate::platform::Reading;
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

/// Time limit for the lookup of one room.
const ROOM_WITHIN: Duration = Duration::from_secs(5);
/// Time limit for all lookups of one delivery. Homeservers wait longer for their response. What was found by then is known
/// when the delivery is repeated.
const ALL_WITHIN: Duration = Duration::from_secs(30);
/// Lookups under way for one delivery.
const AT_ONCE: usize = 8;
/// Time for which a room may fail while the homeserver answers other questions. Until then it holds up the bot.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time for which the messages of a room that was given up are dropped without another lookup.
const GIVEN_UP_FOR: Duration = Duration::from_secs(600);
/// Most people of one room whose names are kept at its lookup.
const MOST_NAMES: usize = 500;

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
    /// Looks up the rooms that a reading lacks. It fails if the homeserver does not describe one of them.
    pub(super) async fn complete_rooms(&self, bot: &OpenedBot, reading: Reading) -> Result<Reading, Fault> {
        let chats = reading.arrivals.iter().chain(&reading.from_bots);
        let chats = chats.filter_map(|arrival| arrival.event.source.chat_id.as_ref());
        let mut rooms: Vec<String> = chats.map(|chat| chat.as_str().to_owned()).collect();
        rooms.sort();
        rooms.dedup();
        let begun = Mutex::new(Vec::new());
        let lookups = stream::iter(rooms).map(|room| {
            let begun = &begun;
            async move {
                begun.lock().push(room.clone());
                let described = self.describe_room(bot, &room).await;
                described.map(|described| (room, described))
            }
        });
        // A failure ends no other lookup, so that the next attempt needs fewer.
        let lookups = lookups.buffer_unordered(AT_ONCE).collect::<Vec<_>>();
        let failed = match self.timepiece.within(ALL_WITHIN, lookups).await {
            Ok(described) => match described.into_iter().collect::<Result<FoundRooms, _>>() {
                Ok(found) => return Ok(self.fill_rooms(bot, reading, &found)),
                Err(failure) => failure.cause(LABEL),
            },
            Err(_) => {
                // A room that nobody asked about has not failed.
                let begun = begun.into_inner();
                for room in begun.iter().filter(|room| self.rooms.room(&bot.id, room).is_none()) {
                    self.note_failing(bot, room);
                }
                "the homeserver did not describe all rooms in time".to_owned()
            }
        };
        Err(Fault::ChatLookup(failed))
    }

    /// The room of a message. `None` if its messages are dropped: the bot is not in it, or the homeserver has answered
    /// other questions for minutes, but none about this room. One such room must not hold up all others forever.
    async fn describe_room(
        &self,
        bot: &OpenedBot,
        room: &str,
    ) -> Result<Option<Arc<MatrixRoom>>, CallFailure> {
        let until = self.rooms.failing(&bot.id, room).and_then(|failing| failing.given_up_until);
        if until.is_some_and(|until| self.timepiece.instant() < until) {
            return Ok(None);
        }
        let failure = match self.known_room(bot, room, ROOM_WITHIN).await {
            Ok(known) => return Ok(Some(known)),
            Err(failure) => failure,
        };
        let cause = failure.cause(LABEL);
        if matches!(&failure, CallFailure::Refused(CallRefusal { kind: RefusalKind::Forbidden, .. })) {
            tracing::warn!(bot.id = %bot.id, room, "dropped messages of a room that the bot may not see: {cause}");
            return Ok(None);
        }
        let failing = self.note_failing(bot, room);
        let is_overdue = self.timepiece.instant().since(failing.since) >= PATIENCE;
        if !is_overdue || !self.answers(bot).await {
            return Err(failure);
        }
        tracing::error!(bot.id = %bot.id, room, "dropped messages of a room that the homeserver does not describe: {cause}");
        let until = self.timepiece.instant() + GIVEN_UP_FOR;
        let given_up = FailingRoom { given_up_until: Some(until), ..failing };
        self.rooms.keep_failing(&bot.id, room, given_up);
        Ok(None)
    }

    /// Notes that the lookup of a room failed.
    fn note_failing(&self, bot: &OpenedBot, room: &str) -> FailingRoom {
        let first = || FailingRoom { since: self.timepiece.instant(), given_up_until: None };
        let failing = self.rooms.failing(&bot.id, room).unwrap_or_else(first);
        self.rooms.keep_failing(&bot.id, room, failing);
        failing
    }

    /// Whether the homeserver answers a question that is about no room.
    async fn answers(&self, bot: &OpenedBot) -> bool {
        let call = MatrixCall::new(Method::GET, "GET whoami", &["client", "v3", "account", "whoami"]);
        self.call::<IgnoredAny>(bot, call, ROOM_WITHIN).await.is_ok()
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
            let joined = match members {
                Err(CallFailure::TooLarge) => None,
                members => Some(members?.joined),
            };
            for (user, profile) in joined.iter().flatten().take(MOST_NAMES) {
                let shown = profile.display_name.as_deref().filter(|name| !name.trim().is_empty());
                self.rooms.keep_person(&bot.id, user, shown.unwrap_or(user));
            }
            Ok(MatrixRoom {
                name: text(name?.and_then(|name| name.name)),
                topic: text(topic?.and_then(|topic| topic.topic)),
                members: joined.map_or(usize::MAX, |joined| joined.len()),
                is_direct: self.rooms.is_direct(&bot.id, id),
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
