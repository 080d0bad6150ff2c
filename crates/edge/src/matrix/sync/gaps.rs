//! Gaps: the older events of a room that a response leaves out, read page by page.
//!
//! A homeserver reads back from the newest event, and events are stored from the oldest on. A short gap is held in memory.
//! Of a longer one only the places of its older pages are, and these pages are read a second time.

use http::Method;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{MOST_EVENTS, SyncedRoom, TIME_LIMIT, Timeline, is_own_join};
use crate::matrix::api::MatrixCall;
use crate::matrix::ids::is_room_id;
use crate::platform_calls::CallFailure;

/// Most bytes of events that are held in memory for one room.
const HELD_BYTES: usize = 8 << 20;
/// Most pages of a gap. Of a longer one the oldest events are skipped.
const MOST_PAGES: usize = 10_000;
/// Most bytes of the place of a page. Homeservers write tens of bytes.
const LONGEST_PLACE: usize = 1024;
/// What an event takes in memory beside its text.
const EVENT_OVERHEAD: usize = 48;

/// The events of a room since the last position.
pub(super) struct RoomGap {
    /// The pages that are not held, newest first.
    pub pages: Vec<GapPage>,
    /// The events after them, oldest first.
    pub newest: Vec<Box<RawValue>>,
}

/// The place of a page.
pub(super) struct GapPage {
    from: String,
    events: u32,
}

#[derive(Deserialize)]
pub(super) struct MessagesPage {
    #[serde(default)]
    chunk: Vec<Box<RawValue>>,
    end: Option<String>,
}

impl MessagesPage {
    pub fn oldest_first(mut self) -> Vec<Box<RawValue>> {
        self.chunk.reverse();
        self.chunk
    }
}

impl SyncedRoom<'_> {
    /// Reads back to the last position, or to the event by which the bot joined: a room that it has just joined has a gap
    /// without end.
    pub(super) async fn find_gap(&self, timeline: Timeline) -> Result<RoomGap, CallFailure> {
        let bot = &self.feed.bot;
        let Timeline { events: mut newest, limited, prev_batch } = timeline;
        let mut from = prev_batch.filter(|_| limited && is_room_id(self.id));
        let mut has_join = newest.iter().any(|event| is_own_join(bot, event));
        let mut held = 0;
        let mut pages = Vec::new();
        for count in 0.. {
            let Some(token) = from.filter(|_| !has_join) else { break };
            if count == MOST_PAGES {
                tracing::error!(bot.id = %bot.id, "a room had more events since the last poll than can be read; the oldest are skipped");
                break;
            }
            if token.len() > LONGEST_PLACE {
                return Err(CallFailure::TooLarge);
            }
            let (place, older) = self.read_largest_page(token).await?;
            from = older.end.clone().filter(|end| !older.chunk.is_empty() && *end != place.from);
            has_join = older.chunk.iter().any(|event| is_own_join(bot, event));
            held += older.chunk.iter().map(|event| event.get().len() + EVENT_OVERHEAD).sum::<usize>();
            if pages.is_empty() && held <= HELD_BYTES {
                let mut events = older.oldest_first();
                events.append(&mut newest);
                newest = events;
            } else {
                pages.push(place);
            }
        }
        Ok(RoomGap { pages, newest })
    }

    /// Reads a page again.
    pub(super) async fn read_page(&self, page: &GapPage) -> Result<MessagesPage, CallFailure> {
        let call = MatrixCall::in_room(Method::GET, "GET messages", self.id, &["messages"])
            .with_query("dir", "b")
            .with_query("from", page.from.as_str())
            .with_query("to", self.since)
            .with_query("limit", page.events.to_string());
        self.matrix.call(&self.feed.bot, call, TIME_LIMIT).await
    }

    /// Reads the largest page that fits into a response.
    async fn read_largest_page(&self, from: String) -> Result<(GapPage, MessagesPage), CallFailure> {
        let mut place = GapPage { from, events: 0 };
        for events in MOST_EVENTS {
            place.events = events;
            match self.read_page(&place).await {
                Err(CallFailure::TooLarge) => {}
                read => return read.map(|page| (place, page)),
            }
        }
        Err(CallFailure::TooLarge)
    }
}
