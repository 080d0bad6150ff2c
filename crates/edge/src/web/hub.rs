//! Who is looking into a room right now, and what they are shown.

use std::hash::{BuildHasher, RandomState};

use dashmap::DashMap;
use ledger::Line;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, MessageId};
use tokio::sync::{Mutex, MutexGuard, broadcast};

/// How much a slow page may fall behind. Past that it is shown the room's history again.
const BACKLOG: usize = 256;

/// Rooms share pens; two rooms with the same one only take turns.
const PENS: usize = 64;

/// Something new in a room. All but typing is in the ledger already.
#[derive(Clone, Debug)]
pub(super) enum News {
    Line(Line),
    Edit { message: MessageId, text: String, at: Moment },
    Typing { on: bool, text: Option<String> },
}

/// The rooms that somebody looks into.
pub(super) struct Hub {
    rooms: DashMap<ChatId, broadcast::Sender<News>>,
    pens: [Mutex<()>; PENS],
    hasher: RandomState,
}

impl Default for Hub {
    fn default() -> Self {
        Self {
            rooms: DashMap::new(),
            pens: std::array::from_fn(|_| Mutex::new(())),
            hasher: RandomState::new(),
        }
    }
}

impl Hub {
    /// Held while something is written and shown, so that the page meets a room's lines in the order of
    /// its ledger and a quick answer never stands above its question.
    pub(super) async fn pen(&self, room: &ChatId) -> MutexGuard<'_, ()> {
        let index = self.hasher.hash_one(room) % (PENS as u64);
        self.pens[usize::try_from(index).expect("less than the number of pens")].lock().await
    }

    pub(super) fn show(&self, room: &ChatId, news: News) {
        if let Some(watched) = self.rooms.get(room) {
            // Nobody left is fine: the ledger has it.
            let _ = watched.send(news);
        }
    }

    pub(super) fn watch(&self, room: &ChatId) -> broadcast::Receiver<News> {
        self.rooms.entry(room.clone()).or_insert_with(|| broadcast::channel(BACKLOG).0).subscribe()
    }

    /// Forgets the room if nobody looks into it any more. To be called after a watcher is dropped.
    pub(super) fn left(&self, room: &ChatId) {
        self.rooms.remove_if(room, |_, watched| watched.receiver_count() == 0);
    }

    #[cfg(test)]
    fn watched(&self) -> usize {
        self.rooms.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_room_is_remembered_only_while_somebody_looks_into_it() {
        let hub = Hub::default();
        let room = ChatId::from("web-1");
        let (mut first, second) = (hub.watch(&room), hub.watch(&room));
        drop(second);
        hub.left(&room);
        hub.show(&room, News::Typing { on: true, text: None });
        assert!(matches!(first.recv().await, Ok(News::Typing { on: true, .. })));
        drop(first);
        hub.left(&room);
        assert_eq!(hub.watched(), 0);
        hub.show(&room, News::Typing { on: true, text: None });
        assert_eq!(hub.watched(), 0);
    }
}
