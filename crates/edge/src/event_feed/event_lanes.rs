//! Events of one connection in lanes: events of one chat are stored in order, and different chats do not wait for each
//! other.
//!
//! The position of a feed may only move past events that are stored. So the lanes also know up to which event all are.

use std::collections::{HashMap, VecDeque};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use crate::platform::Reading;

/// Most events that wait or are being stored, and most bytes of their frames. Beyond either, the connection reads no
/// further frame.
const MOST_EVENTS: usize = 2_000;
const MOST_BYTES: usize = 32 << 20;

/// The lane of a reading: the chat that it is about. Empty if it is about none.
pub(crate) fn lane_of(reading: &Reading) -> String {
    let arrival = reading.arrivals.iter().chain(&reading.from_bots).next();
    let of_message =
        arrival.and_then(|arrival| arrival.event.source.chat_id.as_ref()).map(ToString::to_string);
    let of_thread = || reading.renamed.first().map(|renamed| renamed.thread.to_string());
    of_message.or_else(of_thread).unwrap_or_default()
}

/// The work of storing an event. True if it is stored.
pub(crate) type StoringEvent<'a> = BoxFuture<'a, bool>;

struct WaitingEvent<'a> {
    number: u64,
    bytes: usize,
    storing: StoringEvent<'a>,
}

struct EndedEvent {
    number: u64,
    bytes: usize,
    lane: String,
    stored: bool,
}

/// The events of one connection that are not stored yet.
#[derive(Default)]
pub(crate) struct EventLanes<'a> {
    running: FuturesUnordered<BoxFuture<'a, EndedEvent>>,
    /// Each lane with a running event, and the events that wait for it.
    waiting: HashMap<String, VecDeque<WaitingEvent<'a>>>,
    progress: StoredProgress,
    events: usize,
    bytes: usize,
}

impl<'a> EventLanes<'a> {
    /// Whether no further event may be added now.
    pub fn is_full(&self) -> bool {
        self.events >= MOST_EVENTS || self.bytes >= MOST_BYTES
    }

    /// Notes an event that needs no storing.
    pub fn skip(&mut self, number: u64) {
        self.progress.begin(number);
        self.progress.end(number);
    }

    /// Adds an event with the platform's number of it. Numbers must grow. `bytes` is what its frame takes up.
    pub fn push(&mut self, number: u64, lane: String, bytes: usize, storing: StoringEvent<'a>) {
        self.progress.begin(number);
        self.events += 1;
        self.bytes += bytes;
        let event = WaitingEvent { number, bytes, storing };
        match self.waiting.get_mut(&lane) {
            Some(waiting) => waiting.push_back(event),
            None => {
                self.waiting.insert(lane.clone(), VecDeque::new());
                self.start(lane, event);
            }
        }
    }

    /// Waits until one more event is stored, and starts the next of its lane. False if it could not be stored; its lane
    /// then stands still. Never ends while there is no event. It is cancel-safe.
    pub async fn next(&mut self) -> bool {
        let Some(ended) = self.running.next().await else { return std::future::pending().await };
        self.events -= 1;
        self.bytes -= ended.bytes;
        if !ended.stored {
            return false;
        }
        self.progress.end(ended.number);
        match self.waiting.get_mut(&ended.lane).and_then(VecDeque::pop_front) {
            Some(next) => self.start(ended.lane, next),
            None => drop(self.waiting.remove(&ended.lane)),
        }
        true
    }

    /// The last event up to which all are stored.
    pub fn stored_up_to(&self) -> Option<u64> {
        self.progress.stored_up_to
    }

    /// Waits for the events that are being stored. Those that wait are dropped: the platform sends them again.
    pub async fn finish_running(&mut self) {
        self.waiting.values_mut().for_each(VecDeque::clear);
        self.finish().await;
    }

    /// Waits for all events, except those behind one that cannot be stored.
    pub async fn finish(&mut self) {
        while !self.running.is_empty() {
            self.next().await;
        }
    }

    fn start(&mut self, lane: String, WaitingEvent { number, bytes, storing }: WaitingEvent<'a>) {
        let storing = async move { EndedEvent { number, bytes, lane, stored: storing.await } };
        self.running.push(Box::pin(storing));
    }
}

/// Events in the order in which they came, from the first that is not stored.
#[derive(Default)]
struct StoredProgress {
    /// Each event with whether it is stored.
    open: VecDeque<(u64, bool)>,
    stored_up_to: Option<u64>,
}

impl StoredProgress {
    fn begin(&mut self, number: u64) {
        self.open.push_back((number, false));
    }

    fn end(&mut self, number: u64) {
        if let Ok(at) = self.open.binary_search_by_key(&number, |(number, _)| *number) {
            self.open[at].1 = true;
        }
        while let Some((number, true)) = self.open.front() {
            self.stored_up_to = Some(*number);
            self.open.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::sync::oneshot;

    use super::*;

    fn held() -> (oneshot::Sender<bool>, StoringEvent<'static>) {
        let (release, held) = oneshot::channel();
        (release, held.map(|stored| stored.unwrap_or(false)).boxed())
    }

    #[tokio::test]
    async fn a_lane_that_waits_holds_up_no_other_and_the_position_stays_before_it() {
        let mut lanes = EventLanes::default();
        let (release, slow) = held();
        lanes.push(1, "slow".to_owned(), 10, slow);
        lanes.push(2, "slow".to_owned(), 10, async { true }.boxed());
        lanes.push(3, "other".to_owned(), 10, async { true }.boxed());
        lanes.skip(4);
        assert!(lanes.next().await);
        assert_eq!(lanes.next().now_or_never(), None, "the second waits for the first");
        assert_eq!(lanes.stored_up_to(), None);
        release.send(true).unwrap();
        assert!(lanes.next().await);
        assert_eq!(lanes.stored_up_to(), Some(1));
        assert!(lanes.next().await);
        assert_eq!(lanes.stored_up_to(), Some(4));
        assert!(lanes.waiting.is_empty() && lanes.bytes == 0 && lanes.events == 0);
    }

    #[tokio::test]
    async fn the_position_never_passes_an_event_that_could_not_be_stored() {
        let mut lanes = EventLanes::default();
        lanes.push(1, "a".to_owned(), 10, async { false }.boxed());
        lanes.push(2, "a".to_owned(), 10, async { panic!("it must not overtake") }.boxed());
        lanes.push(3, "b".to_owned(), 10, async { true }.boxed());
        lanes.finish().await;
        assert_eq!(lanes.stored_up_to(), None);
    }

    #[tokio::test]
    async fn a_connection_that_ends_waits_only_for_events_that_have_begun() {
        let mut lanes = EventLanes::default();
        lanes.push(1, "a".to_owned(), 10, async { true }.boxed());
        lanes.push(2, "a".to_owned(), 10, std::future::pending().boxed());
        lanes.finish_running().await;
        assert_eq!(lanes.stored_up_to(), Some(1));
    }

    #[test]
    fn events_and_their_bytes_are_bounded() {
        let mut lanes = EventLanes::default();
        lanes.push(1, "a".to_owned(), MOST_BYTES, std::future::pending().boxed());
        assert!(lanes.is_full());
        let mut lanes = EventLanes::default();
        for number in 0..MOST_EVENTS as u64 {
            assert!(!lanes.is_full());
            lanes.push(number, "a".to_owned(), 1, std::future::pending().boxed());
        }
        assert!(lanes.is_full());
    }
}
