//! Sync: long polling for the events of an ordinary user, from a saved position.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::api::MatrixCall;
use super::ids::is_room_id;
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
/// Most events of one room in a response.
const MOST_EVENTS: u32 = 100;
/// Pages of older events that are read after a gap.
const MOST_PAGES: usize = 10;

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

#[derive(Deserialize)]
struct MessagesPage {
    #[serde(default)]
    chunk: Vec<Box<RawValue>>,
    end: Option<String>,
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
            Kept::All => {}
            Kept::Stopped => return FeedEnd::Stopped,
            Kept::Failed => return FeedEnd::Failed,
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
    let none = json!({ "types": [] });
    // Messages from before the bot was created are not for it.
    let events = if since.is_some() { MOST_EVENTS } else { 0 };
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

enum Kept {
    All,
    Stopped,
    Failed,
}

/// Stores the events of a response, room by room.
async fn keep(matrix: &Matrix, feed: &EventFeed, answer: SyncAnswer, since: Option<&str>) -> Kept {
    let platform: Arc<dyn Platform> = Arc::new(matrix.clone());
    let bot = &feed.bot;
    for (room, invited) in &answer.rooms.invite {
        let events: Vec<&RawValue> = invited.invite_state.events.iter().map(|event| &**event).collect();
        let reading = read_invitation(matrix, bot, room, &events);
        if let Err(fault) = feed.intake.take(&platform, bot, reading, None).await {
            tracing::error!(%fault, bot.id = %bot.id, "could not take an invitation");
            return Kept::Failed;
        }
    }
    for (room, joined) in answer.rooms.join {
        if feed.stop.is_cancelled() {
            return Kept::Stopped;
        }
        // The first response only says where to begin.
        let Some(since) = since else { continue };
        let events = match complete_timeline(matrix, bot, &room, joined.timeline, since).await {
            Ok(events) => events,
            Err(failure) => {
                tracing::warn!(bot.id = %bot.id, "could not read the older events of a room: {}", failure.cause(LABEL));
                return Kept::Failed;
            }
        };
        let events = since_own_join(bot, &events);
        let verified = fetched(matrix);
        let reading = read_events(matrix, bot, Some(&room), &events, &verified);
        if let Err(fault) = feed.intake.take(&platform, bot, reading, None).await {
            tracing::error!(%fault, bot.id = %bot.id, "could not store the events of a room");
            return Kept::Failed;
        }
    }
    Kept::All
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

/// The events of a room since the last position, oldest first. After a gap the older ones are read page by page.
async fn complete_timeline(
    matrix: &Matrix,
    bot: &OpenedBot,
    room: &str,
    timeline: Timeline,
    since: &str,
) -> Result<Vec<Box<RawValue>>, CallFailure> {
    let Timeline { mut events, limited, prev_batch } = timeline;
    let mut from = prev_batch.filter(|_| limited && is_room_id(room));
    for page in 0.. {
        // A room that the bot has just joined has a gap without end.
        let Some(token) = from.filter(|_| !events.iter().any(|event| is_own_join(bot, event))) else {
            break;
        };
        if page == MOST_PAGES {
            tracing::warn!(bot.id = %bot.id, "a room had more events since the last poll than are read at once; the oldest are skipped");
            break;
        }
        let call = MatrixCall::in_room(Method::GET, "GET messages", room, &["messages"])
            .with_query("dir", "b")
            .with_query("from", token)
            .with_query("to", since)
            .with_query("limit", MOST_EVENTS.to_string());
        let mut older: MessagesPage = matrix.call(bot, call, TIME_LIMIT).await?;
        from = older.end.filter(|_| !older.chunk.is_empty());
        older.chunk.reverse();
        older.chunk.append(&mut events);
        events = older.chunk;
    }
    Ok(events)
}
