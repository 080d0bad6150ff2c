//! Lanes: one queue per session. Messages of a session run in order, sessions run in parallel.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use futures_util::FutureExt;
use parking_lot::Mutex;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{FireBody, Fired};
use posthouse_wire::session_key::{self, Options};
use posthouse_wire::{ChatId, SessionKey, Source};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::{Conversation, JobRunner, Message, OnMessage};
use crate::transport::{DeliveryDeclined, Inbound, InboundHandler, RelayTransport};

pub(super) struct SessionLanes {
    transport: Arc<dyn RelayTransport>,
    timepiece: Timepiece,
    on_message: OnMessage,
    lanes: Mutex<HashMap<SessionKey, SessionLane>>,
    /// One permit per message that the agent holds. If none is left, no more deliveries are accepted.
    room: Arc<Semaphore>,
    closed: AtomicBool,
    emptied: Notify,
}

/// A session with a running turn. The lane is removed as soon as nothing waits in it.
struct SessionLane {
    /// The session's key by the newer algorithm, if it differs.
    alias: Option<SessionKey>,
    waiting: VecDeque<(Message, OwnedSemaphorePermit)>,
    turn: CancellationToken,
}

impl SessionLanes {
    pub(super) fn new(
        transport: Arc<dyn RelayTransport>,
        timepiece: Timepiece,
        on_message: OnMessage,
        room: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            transport,
            timepiece,
            on_message,
            lanes: Mutex::default(),
            room: Arc::new(Semaphore::new(room)),
            closed: AtomicBool::new(false),
            emptied: Notify::new(),
        })
    }

    /// The handler for the transport. It holds a weak reference, because the lanes hold the transport.
    pub(super) fn handler(lanes: &Arc<Self>, cron: Option<Arc<dyn JobRunner>>) -> Arc<dyn InboundHandler> {
        Arc::new(LaneHandler { lanes: Arc::downgrade(lanes), cron })
    }

    /// Declines every delivery from now on.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    pub(super) fn turns(&self) -> usize {
        self.lanes.lock().len()
    }

    /// Returns when no turn is running and none waits.
    pub(super) async fn finished(&self) {
        loop {
            let emptied = self.emptied.notified();
            if self.turns() == 0 {
                return;
            }
            emptied.await;
        }
    }

    fn enter(self: Arc<Self>, message: Message, permit: OwnedSemaphorePermit) {
        let session = session(&message.event.source);
        let turn = {
            let mut lanes = self.lanes.lock();
            if let Some(lane) = lanes.get_mut(&session) {
                lane.waiting.push_back((message, permit));
                return;
            }
            let turn = CancellationToken::new();
            let alias = alias(&message.event.source, &session);
            lanes
                .insert(session.clone(), SessionLane { alias, waiting: VecDeque::new(), turn: turn.clone() });
            turn
        };
        tokio::spawn(self.walk(session, message, permit, turn));
    }

    /// Runs one turn after another until the lane is empty.
    async fn walk(
        self: Arc<Self>,
        session: SessionKey,
        mut message: Message,
        mut permit: OwnedSemaphorePermit,
        mut turn: CancellationToken,
    ) {
        loop {
            self.take_turn(&session, message, &turn).await;
            drop(permit);
            let mut lanes = self.lanes.lock();
            let Some(lane) = lanes.get_mut(&session) else { return };
            match lane.waiting.pop_front() {
                Some(next) => {
                    (message, permit) = next;
                    turn = CancellationToken::new();
                    lane.turn = turn.clone();
                }
                None => {
                    lanes.remove(&session);
                    if lanes.is_empty() {
                        self.emptied.notify_waiters();
                    }
                    return;
                }
            }
        }
    }

    async fn take_turn(&self, session: &SessionKey, message: Message, turn: &CancellationToken) {
        let conversation = Conversation::of(&message, session.clone(), &self.transport, &self.timepiece);
        // A panic in the handler ends only its own turn, not the later ones of the session.
        let work = AssertUnwindSafe(async { (self.on_message)(message, conversation).await }).catch_unwind();
        tokio::select! {
            biased;
            () = turn.cancelled() => tracing::info!("turn interrupted"),
            ended = work => match ended {
                Ok(Ok(())) => {}
                Ok(Err(trouble)) => tracing::warn!("turn failed: {trouble}"),
                Err(_) => tracing::error!("turn panicked"),
            }
        }
    }
}

struct LaneHandler {
    lanes: Weak<SessionLanes>,
    cron: Option<Arc<dyn JobRunner>>,
}

#[async_trait]
impl InboundHandler for LaneHandler {
    async fn inbound(&self, inbound: Inbound) -> Result<(), DeliveryDeclined> {
        let lanes = self.lanes.upgrade().ok_or(DeliveryDeclined)?;
        let permit = lanes.room.clone().acquire_owned().await.map_err(|_| DeliveryDeclined)?;
        if lanes.closed.load(Ordering::Acquire) {
            return Err(DeliveryDeclined);
        }
        lanes.enter(Message { event: inbound.event, entry: inbound.entry }, permit);
        Ok(())
    }

    fn interrupted(&self, session_key: &SessionKey, _chat_id: &ChatId) {
        let Some(lanes) = self.lanes.upgrade() else { return };
        let lanes = lanes.lanes.lock();
        let by_alias = || lanes.values().find(|lane| lane.alias.as_ref() == Some(session_key));
        if let Some(lane) = lanes.get(session_key).or_else(by_alias) {
            lane.turn.cancel();
        }
    }

    async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        match &self.cron {
            Some(cron) => cron.fired(fire).await,
            // An agent without cron has no jobs, so the job counts as gone.
            None => (200, Fired::Gone),
        }
    }
}

/// The session key. The server computes the same one for an interrupt. If the source has no valid key, the
/// fallback is only used to order messages inside this agent.
fn session(source: &Source) -> SessionKey {
    session_key::stock(source, &Options::default()).unwrap_or_else(|_| {
        let chat = source.chat_id.as_ref().map_or("", |chat| chat.as_str());
        SessionKey::from(format!("{}:{chat}", source.platform))
    })
}

/// The key by the newer algorithm, if it differs. Nothing on the wire says which algorithm the server
/// assumes for this agent (section 10.3).
fn alias(source: &Source, session: &SessionKey) -> Option<SessionKey> {
    session_key::newer(source, &Options::default()).ok().filter(|newer| newer != session)
}
