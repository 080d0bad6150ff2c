//! Lanes: actions for one chat run in order, actions for different chats run in parallel.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use parking_lot::Mutex;
use posthouse_wire::{Action, ChatId, MessageId, SessionKey};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use crate::agent_connections::AgentConnections;

/// Maximum number of waiting requests per chat.
const WAITING: usize = 256;

/// One lane per chat: requests for one chat run in order, different chats run in parallel. The chat id alone is the
/// key, because a request need not name its bot; chats with the same id on different bots share a lane.
///
/// Edits of one message that directly follow each other run together. Whoever carries them out can then make one call of
/// several edits.
#[derive(Default)]
pub(crate) struct Lanes(Mutex<HashMap<LaneKey, Lane>>);

#[derive(Default)]
struct Lane {
    waiting: VecDeque<QueuedAction>,
    /// The message whose edits are running.
    edited: Option<MessageId>,
    arrived: Arc<Notify>,
}

pub(super) struct QueuedAction {
    /// The message that it edits, if it is an edit.
    pub edits: Option<MessageId>,
    pub work: BoxFuture<'static, ()>,
}

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

/// The message that an action edits, if it is an edit.
pub(super) fn edited_by(action: &Action) -> Option<MessageId> {
    match action {
        Action::Edit { message_id, .. } => Some(message_id.clone()),
        _ => None,
    }
}

/// The lane's queue is full.
pub(super) struct LaneFull;

impl Lanes {
    pub(super) fn enter(
        &self,
        tasks: &TaskTracker,
        connections: &Arc<AgentConnections>,
        key: LaneKey,
        job: QueuedAction,
    ) -> Result<(), LaneFull> {
        let mut lanes = self.0.lock();
        if let Some(lane) = lanes.get_mut(&key) {
            if lane.waiting.len() >= WAITING {
                return Err(LaneFull);
            }
            lane.waiting.push_back(job);
            lane.arrived.notify_one();
            return Ok(());
        }
        let lane = Lane { waiting: VecDeque::from([job]), ..Lane::default() };
        let arrived = Arc::clone(&lane.arrived);
        lanes.insert(key.clone(), lane);
        drop(lanes);
        let connections = Arc::clone(connections);
        tasks.spawn(async move {
            let mut running = FuturesUnordered::new();
            loop {
                while let Some(job) = connections.lanes.next(&key, running.is_empty()) {
                    running.push(job.work);
                }
                if running.is_empty() {
                    return;
                }
                tokio::select! {
                    _ = running.next() => {}
                    () = arrived.notified() => {}
                }
            }
        });
        Ok(())
    }

    /// The next job that may start. Beside running ones only an edit of the same message may. An idle lane without a
    /// job is removed.
    fn next(&self, key: &LaneKey, is_idle: bool) -> Option<QueuedAction> {
        let mut lanes = self.0.lock();
        let lane = lanes.get_mut(key)?;
        if is_idle {
            let job = lane.waiting.pop_front();
            match &job {
                Some(job) => lane.edited = job.edits.clone(),
                None => drop(lanes.remove(key)),
            }
            return job;
        }
        let joins = lane.waiting.front().is_some_and(|job| job.edits.is_some() && job.edits == lane.edited);
        if joins { lane.waiting.pop_front() } else { None }
    }
}
