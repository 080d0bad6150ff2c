//! Sync: long polling for the events of an ordinary user, from a saved position.

mod gaps;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::api::MatrixCall;
use super::normalize::read_events;
use super::payload::{MatrixEvent, MemberContent, MemberEventBefore};
use super::{LABEL, Matrix, USER_ID};
use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::platform::{Platform, Reading, VerifiedRequest};
use crate::platform_calls::CallFailure;

/// Time for which the homeserver holds a poll while nothing happens.
const HOLD: Duration = Duration::from_secs(30);
const TIME_LIMIT: Duration = Duration::from_secs(60);
/// Most events of one room in a response. A response that is too large is requested again with the next number.
const MOST_EVENTS: [u32; 3] = [100, 10, 1];

#[derive(Deserialize)]
struct SyncAnswer {
    next_batch: String,
    #[serde(default)]
    rooms: SyncRooms,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SyncRooms {
    join: BTreeMap<String, JoinedRoom>,
    invite: BTreeMap<String, InvitedRoom>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct JoinedRoom {
    timeline: Timeline,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Timeline {
    events: Vec<Box<RawValue>>,
    /// There are older events that are not in this response.
    limited: bool,
    prev_batch: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct InvitedRoom {
    invite_state: StrippedState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StrippedState {
    events: Vec<Box<RawValue>>,
}

/// Polls until the feed is stopped or a poll fails. The position moves only after everything is stored.
pub(super) async fn fetch(matrix: &Matrix, feed: &mut EventFeed) -> FeedEnd {
    let (bot, stop) = (Arc::clone(&feed.bot), feed.stop.clone());
    while !stop.is_cancelled() {
        let since = feed.cursor().map(str::to_owned);
        // A dropped poll loses nothing, so stopping need not wait for its response.
        let Some(polled) = stop.run_until_cancelled(poll(matrix, &bot, since.as_deref())).await else {
            return FeedEnd::Stopped;
        };
        let answer = match polled {
            Ok(answer) => answer,
            Err(CallFailure::TooLarge) => {
                tracing::error!(bot.id = %bot.id, "the news of a bot are too large for one response, with one event per room too: its user must leave rooms or decline invitations; nothing is lost until then");
                return FeedEnd::NeedsOperator;
            }
            Err(failure) => {
                // A refused token leads to a check of the credential, which logs it.
                if !failure.is_credential_dead() {
                    tracing::warn!(bot.id = %bot.id, "could not poll events of bot {}: {}", bot.id, failure.cause(LABEL));
                }
                return FeedEnd::Failed;
            }
        };
        let next = answer.next_batch.clone();
        match keep(matrix, feed, answer, since.as_deref()).await {
            StoreOutcome::All => {}
            StoreOutcome::Stopped => return FeedEnd::Stopped,
            StoreOutcome::Failed => return FeedEnd::Failed,
        }
        if let Err(fault) = feed.save_cursor(Some(next)).await {
            tracing::error!(%fault, bot.id = %bot.id, "could not store the position of an event feed");
            return FeedEnd::Failed;
        }
        feed.works();
    }
    FeedEnd::Stopped
}

async fn poll(matrix: &Matrix, bot: &OpenedBot, since: Option<&str>) -> Result<SyncAnswer, CallFailure> {
    // Messages from before the bot was created are not for it.
    if since.is_none() {
        return poll_for(matrix, bot, None, 0).await;
    }
    for events in MOST_EVENTS {
        match poll_for(matrix, bot, since, events).await {
            Err(CallFailure::TooLarge) => {}
            answer => return answer,
        }
    }
    Err(CallFailure::TooLarge)
}

/// Polls for at most this many events of each room. What is left out is read as a gap.
async fn poll_for(
    matrix: &Matrix,
    bot: &OpenedBot,
    since: Option<&str>,
    events: u32,
) -> Result<SyncAnswer, CallFailure> {
    let none = json!({ "types": [] });
    let filter = json!({
        "presence": none, "account_data": none,
        "room": {
            "account_data": none, "ephemeral": none, "state": { "types": [] },
            "timeline": { "limit": events },
        },
    });
    let hold = if since.is_some() { HOLD } else { Duration::ZERO };
    let mut call = MatrixCall::new(Method::GET, "GET sync", &["client", "v3", "sync"])
        .with_query("filter", filter.to_string())
        .with_query("timeout", hold.as_millis().to_string());
    if let Some(since) = since {
        call = call.with_query("since", since);
    }
    matrix.call(bot, call, TIME_LIMIT).await
}

enum StoreOutcome {
    All,
    Stopped,
    Failed,
}

/// Stores the events of a response, room by room.
async fn keep(matrix: &Matrix, feed: &EventFeed, answer: SyncAnswer, since: Option<&str>) -> StoreOutcome {
    let platform: Arc<dyn Platform> = Arc::new(matrix.clone());
    let bot = &feed.bot;
    for (room, invited) in &answer.rooms.invite {
        let events: Vec<&RawValue> = invited.invite_state.events.iter().map(|event| &**event).collect();
        let reading = read_invitation(matrix, bot, room, &events);
        if let Err(fault) = feed.intake.take(&platform, bot, reading, None).await {
            tracing::error!(%fault, bot.id = %bot.id, "could not take an invitation");
            return StoreOutcome::Failed;
        }
    }
    for (room, joined) in answer.rooms.join {
        if feed.stop.is_cancelled() {
            return StoreOutcome::Stopped;
        }
        // The first response only says where to begin.
        let Some(since) = since else { continue };
        let room = SyncedRoom { matrix, feed, platform: &platform, id: &room, since };
        match room.keep(joined.timeline).await {
            StoreOutcome::All => {}
            unfinished => return unfinished,
        }
    }
    StoreOutcome::All
}

/// A room with events since the last position.
struct SyncedRoom<'a> {
    matrix: &'a Matrix,
    feed: &'a EventFeed,
    platform: &'a Arc<dyn Platform>,
    id: &'a str,
    since: &'a str,
}

impl SyncedRoom<'_> {
    /// Stores the events since the last position, oldest first.
    async fn keep(&self, timeline: Timeline) -> StoreOutcome {
        let unread = |failure: CallFailure| {
            let cause = failure.cause(LABEL);
            tracing::warn!(bot.id = %self.feed.bot.id, "could not read the older events of a room: {cause}");
            StoreOutcome::Failed
        };
        let stop = &self.feed.stop;
        let gap = match stop.run_until_cancelled(self.find_gap(timeline)).await {
            None => return StoreOutcome::Stopped,
            Some(Err(failure)) => return unread(failure),
            Some(Ok(gap)) => gap,
        };
        for page in gap.pages.iter().rev() {
            let events = match stop.run_until_cancelled(self.read_page(page)).await {
                None => return StoreOutcome::Stopped,
                Some(Err(failure)) => return unread(failure),
                Some(Ok(page)) => page.oldest_first(),
            };
            match self.store(&events).await {
                StoreOutcome::All => {}
                unfinished => return unfinished,
            }
        }
        self.store(&gap.newest).await
    }

    async fn store(&self, events: &[Box<RawValue>]) -> StoreOutcome {
        let bot = &self.feed.bot;
        let events = since_own_join(bot, events);
        let reading = read_events(self.matrix, bot, Some(self.id), &events, &fetched(self.matrix));
        match self.feed.intake.take(self.platform, bot, reading, None).await {
            Ok(_) => StoreOutcome::All,
            Err(fault) => {
                tracing::error!(%fault, bot.id = %bot.id, "could not store the events of a room");
                StoreOutcome::Failed
            }
        }
    }
}

fn fetched(matrix: &Matrix) -> VerifiedRequest {
    VerifiedRequest::fetched(Vec::new(), matrix.timepiece.now())
}

/// Reads an invitation. Of its state only the event that invites the bot counts.
fn read_invitation(matrix: &Matrix, bot: &OpenedBot, room: &str, state: &[&RawValue]) -> Reading {
    let member: Vec<&RawValue> =
        state.iter().copied().filter(|event| own_membership(bot, event).is_some()).collect();
    read_events(matrix, bot, Some(room), &member, &fetched(matrix))
}

/// The membership of the bot in a member event of the bot, and nothing for another event.
fn own_membership(bot: &OpenedBot, event: &RawValue) -> Option<String> {
    let event = serde_json::from_str::<MatrixEvent<'_>>(event.get()).ok()?;
    let is_own = &*event.kind == "m.room.member" && event.state_key.as_deref() == bot.setting(USER_ID);
    let content = event.content.filter(|_| is_own)?;
    let content = serde_json::from_str::<MemberContent<'_>>(content.get()).ok()?;
    content.membership.map(|membership| membership.to_string())
}

/// Whether the bot joined the room by this event. A change of its name is a member event too, but no join.
fn is_own_join(bot: &OpenedBot, event: &RawValue) -> bool {
    let before = serde_json::from_str::<MemberEventBefore<'_>>(event.get()).ok();
    let before = before.and_then(|event| event.unsigned?.prev_content?.membership);
    before.as_deref() != Some("join") && own_membership(bot, event).as_deref() == Some("join")
}

/// The events after the one by which the bot joined. What others wrote before it is not for the bot.
fn since_own_join<'e>(bot: &OpenedBot, events: &'e [Box<RawValue>]) -> Vec<&'e RawValue> {
    let joined = events.iter().rposition(|event| is_own_join(bot, event));
    let from = joined.map_or(0, |joined| joined + 1);
    events[from..].iter().map(|event| &**event).collect()
}
