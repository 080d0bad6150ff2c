//! Queues of events for the pages that watch a room.
//!
//! Each page has its own queue. Each queue, and all queues together, are bounded in bytes. A page that reads too slowly
//! loses its queue and reads the room's messages from the ledger instead, so nothing is lost.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dashmap::DashMap;
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, MessageId};
use tokio::sync::Notify;

/// Largest queue of one page.
const QUEUE_BYTES: usize = 256 * 1024;

/// Largest total of all queues.
const ALL_BYTES: usize = 32 * 1024 * 1024;

/// A change in a room: the name and JSON of one server-sent event.
#[derive(Debug)]
pub(super) struct RoomUpdate {
    pub(super) name: &'static str,
    pub(super) data: String,
    /// Time of the change; `None` for changes that are not stored.
    pub(super) at: Option<Moment>,
    /// Set for a message.
    pub(super) message: Option<MessageMark>,
}

/// The properties of a message that a stream needs.
#[derive(Debug)]
pub(super) struct MessageMark {
    pub(super) message: MessageId,
    pub(super) by_agent: bool,
    /// The person typed `/stop`, which begins no turn.
    pub(super) is_stop: bool,
    /// The entry of a person's message that the agent has not acknowledged yet.
    pub(super) awaits: Option<EntryId>,
}

impl RoomUpdate {
    fn bytes(&self) -> usize {
        self.data.len() + 64
    }
}

/// The rooms that at least one page watches.
#[derive(Default)]
pub(super) struct Hub {
    rooms: DashMap<ChatId, Vec<Arc<PageQueue>>>,
    queued: Arc<AtomicUsize>,
}

/// The queue of one page.
struct PageQueue {
    unread: Mutex<QueuedUpdate>,
    changed: Notify,
    queued: Arc<AtomicUsize>,
}

#[derive(Default)]
struct QueuedUpdate {
    update: VecDeque<Arc<RoomUpdate>>,
    bytes: usize,
    /// Something was dropped, so the page must read the ledger.
    behind: bool,
}

impl QueuedUpdate {
    fn clear(&mut self, queued: &AtomicUsize) {
        self.update.clear();
        queued.fetch_sub(std::mem::take(&mut self.bytes), Ordering::AcqRel);
    }
}

impl PageQueue {
    fn push(&self, update: &Arc<RoomUpdate>) {
        let mut unread = self.unread.lock();
        if unread.behind {
            return;
        }
        let bytes = update.bytes();
        let fits = unread.bytes + bytes <= QUEUE_BYTES
            && self.queued.fetch_add(bytes, Ordering::AcqRel) + bytes <= ALL_BYTES;
        if fits {
            unread.bytes += bytes;
            unread.update.push_back(Arc::clone(update));
        } else {
            // The total was increased only if the page's own queue had room.
            if unread.bytes + bytes <= QUEUE_BYTES {
                self.queued.fetch_sub(bytes, Ordering::AcqRel);
            }
            unread.clear(&self.queued);
            unread.behind = true;
        }
        drop(unread);
        self.changed.notify_one();
    }
}

/// The next item for a page.
pub(super) enum NextUpdate {
    Update(Arc<RoomUpdate>),
    /// The page fell too far behind and must read the ledger.
    Behind,
}

/// One page's subscription to a room. It ends on drop.
pub(super) struct Watch {
    hub: Arc<Hub>,
    room: ChatId,
    queue: Arc<PageQueue>,
}

impl Watch {
    /// Waits for the next item. Cancel safe.
    pub(super) async fn next(&mut self) -> NextUpdate {
        loop {
            {
                let mut unread = self.queue.unread.lock();
                if let Some(update) = unread.update.pop_front() {
                    unread.bytes -= update.bytes();
                    self.queue.queued.fetch_sub(update.bytes(), Ordering::AcqRel);
                    return NextUpdate::Update(update);
                }
                if std::mem::take(&mut unread.behind) {
                    return NextUpdate::Behind;
                }
            }
            self.queue.changed.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.hub.rooms.remove_if_mut(&self.room, |_, queues| {
            queues.retain(|queue| !Arc::ptr_eq(queue, &self.queue));
            queues.is_empty()
        });
        self.queue.unread.lock().clear(&self.queue.queued);
    }
}

impl Hub {
    pub(super) fn is_watched(&self, room: &ChatId) -> bool {
        self.rooms.contains_key(room)
    }

    pub(super) fn show(&self, room: &ChatId, update: RoomUpdate) {
        if let Some(queues) = self.rooms.get(room) {
            let update = Arc::new(update);
            queues.iter().for_each(|queue| queue.push(&update));
        }
    }

    pub(super) fn watch(self: &Arc<Self>, room: &ChatId) -> Watch {
        let queue = Arc::new(PageQueue {
            unread: Mutex::default(),
            changed: Notify::new(),
            queued: Arc::clone(&self.queued),
        });
        self.rooms.entry(room.clone()).or_default().push(Arc::clone(&queue));
        Watch { hub: Arc::clone(self), room: room.clone(), queue }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(bytes: usize) -> RoomUpdate {
        RoomUpdate { name: "line", data: "x".repeat(bytes), at: None, message: None }
    }

    #[tokio::test]
    async fn a_room_is_remembered_only_while_somebody_looks_into_it() {
        let hub = Arc::new(Hub::default());
        let room = ChatId::from("web-1");
        let (mut first, second) = (hub.watch(&room), hub.watch(&room));
        drop(second);
        hub.show(&room, update(1));
        assert!(matches!(first.next().await, NextUpdate::Update(_)));
        drop(first);
        assert!(!hub.is_watched(&room));
        hub.show(&room, update(1));
        assert!(hub.rooms.is_empty());
    }

    #[tokio::test]
    async fn unread_streams_hold_a_bounded_number_of_bytes_each_and_in_all() {
        let hub = Arc::new(Hub::default());
        let room = ChatId::from("web-1");
        let mut pages: Vec<Watch> = (0..10).map(|_| hub.watch(&room)).collect();
        for _ in 0..1_000 {
            hub.show(&room, update(40_000));
        }
        assert!(hub.queued.load(Ordering::Acquire) <= 10 * QUEUE_BYTES);
        for page in &mut pages {
            assert!(matches!(page.next().await, NextUpdate::Behind), "it is told to look up what it missed");
        }
        // Many pages, none over its own limit: all together stay below the total limit and continue from the ledger.
        let mut many: Vec<Watch> =
            (0..300).map(|number| hub.watch(&format!("web-{number}").into())).collect();
        for number in 0..300 {
            for _ in 0..4 {
                hub.show(&format!("web-{number}").into(), update(60_000));
            }
        }
        assert!(hub.queued.load(Ordering::Acquire) <= ALL_BYTES);
        for page in &mut many {
            assert!(matches!(page.next().await, NextUpdate::Update(_) | NextUpdate::Behind));
        }
        drop((pages, many));
        assert_eq!(hub.queued.load(Ordering::Acquire), 0, "everything is given back");
    }
}
