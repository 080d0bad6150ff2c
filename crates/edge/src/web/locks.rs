//! Locks per room. A lock exists only while a task holds it or waits for it.

use std::sync::Arc;

use dashmap::DashMap;
use posthouse_wire::ChatId;
use tokio::sync::{Mutex, OwnedMutexGuard};

#[derive(Default)]
pub(super) struct RoomLocks(DashMap<ChatId, Arc<Mutex<()>>>);

/// Holds a room's lock until dropped.
pub(super) struct RoomGuard<'a> {
    locks: &'a RoomLocks,
    room: ChatId,
    /// `None` only while waiting for the lock and during drop.
    held: Option<OwnedMutexGuard<()>>,
}

impl RoomLocks {
    pub(super) async fn lock(&self, room: &ChatId) -> RoomGuard<'_> {
        let lock = Arc::clone(&*self.0.entry(room.clone()).or_default());
        // Created before the wait, so that a cancelled wait also removes the lock from the map.
        let mut guard = RoomGuard { locks: self, room: room.clone(), held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }
}

impl Drop for RoomGuard<'_> {
    fn drop(&mut self) {
        self.held = None;
        // Every waiting task holds its own `Arc`, so a count of 1 means that nobody waits.
        self.locks.0.remove_if(&self.room, |_, lock| Arc::strong_count(lock) == 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn every_room_has_a_lock_of_its_own() {
        let locks = RoomLocks::default();
        // Many more than any fixed number of shared locks: none of them waits for another.
        let rooms: Vec<ChatId> = (0..1_000).map(|number| format!("web-{number}").into()).collect();
        // Unconstrained, because a thousand locks at once would use up the runtime's budget for one task.
        let at_once = |room: &ChatId| tokio::task::unconstrained(locks.lock(room)).now_or_never();
        let held: Vec<_> = rooms.iter().map(|room| at_once(room).expect("nobody else is in it")).collect();
        assert!(at_once(&rooms[7]).is_none(), "the same room waits");
        drop(held);
        assert!(at_once(&rooms[7]).is_some());
        assert!(locks.0.is_empty(), "locks that nobody holds are forgotten");
    }
}
