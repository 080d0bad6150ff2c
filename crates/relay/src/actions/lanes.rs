//! Lanes: actions for one chat run in order, actions for different chats run in parallel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use posthouse_wire::{Action, ChatId, SessionKey};
use tokio_util::task::TaskTracker;

use crate::agent_connections::AgentConnections;

/// Maximum number of waiting requests per chat.
const WAITING: usize = 256;

/// One lane per chat: requests for one chat run in order, different chats run in parallel. The chat id alone is the
/// key, because a request need not name its bot; chats with the same id on different bots share a lane.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<LaneKey, VecDeque<QueuedAction>>>);

pub(super) type QueuedAction = BoxFuture<'static, ()>;

/// The key of a lane: the target of an action.
#[derive(PartialEq, Eq, Hash, Clone)]
pub(super) enum LaneKey {
    Chat(ChatId),
    Session(SessionKey),
    NoTarget,
}

impl LaneKey {
    pub fn of(action: &Action) -> Self {
        match (action, action.chat_id()) {
            (_, Some(chat)) => LaneKey::Chat(chat.clone()),
            (Action::FollowUp { session_key, .. }, None) => LaneKey::Session(session_key.clone()),
            (_, None) => LaneKey::NoTarget,
        }
    }
}

/// The lane's queue is full.
pub(super) struct LaneFull;

impl Lanes {
    pub(super) fn enter(
        &self,
        tasks: &TaskTracker,
        connections: &Arc<AgentConnections>,
        lane: LaneKey,
        job: QueuedAction,
    ) -> Result<(), LaneFull> {
        let mut lanes = self.0.lock();
        if let Some(waiting) = lanes.get_mut(&lane) {
            if waiting.len() >= WAITING {
                return Err(LaneFull);
            }
            waiting.push_back(job);
            return Ok(());
        }
        lanes.insert(lane.clone(), VecDeque::new());
        drop(lanes);
        let connections = Arc::clone(connections);
        tasks.spawn(async move {
            let mut next = Some(job);
            while let Some(job) = next {
                job.await;
                next = connections.lanes.next(&lane);
            }
        });
        Ok(())
    }

    fn next(&self, lane: &LaneKey) -> Option<QueuedAction> {
        let mut lanes = self.0.lock();
        let job = lanes.get_mut(lane).and_then(VecDeque::pop_front);
        if job.is_none() {
            lanes.remove(lane);
        }
        job
    }
}
