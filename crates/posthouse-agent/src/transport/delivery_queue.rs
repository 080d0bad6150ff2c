//! Passing deliveries to the handler, one after the other, and acknowledging those it accepted.
//!
//! This runs in a task of its own, for two reasons. A handler that sends a request would otherwise block
//! the reader and never get its answer. And a lost socket must not interrupt a handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use posthouse_wire::EntryId;
use posthouse_wire::passthrough::Forward;
use tokio::sync::{Notify, mpsc, watch};

use super::connection::PendingFrames;
use super::{DeliveryDeclined, EntryState, Inbound, InboundHandler, SeenEntries};

/// The server never has more than a window (64) of unacknowledged deliveries. If it does, the socket is not
/// read further until there is room.
const QUEUE: usize = 256;

pub(super) struct DeliveryQueue {
    shared: Arc<DeliveryState>,
    /// The only sender, so that the task ends when the transport is dropped.
    handler: watch::Sender<Option<Arc<dyn InboundHandler>>>,
    queue: mpsc::Sender<QueuedDelivery>,
    /// The receiver of `queue`, until the first connect spawns the task.
    idle: Mutex<Option<mpsc::Receiver<QueuedDelivery>>>,
}

struct DeliveryState {
    seen: Mutex<SeenEntries>,
    frames: Arc<PendingFrames>,
    full: AtomicUsize,
    emptied: Notify,
}

pub(super) enum QueuedDelivery {
    Event(Inbound),
    Forward { forward: Box<Forward>, entry: Option<EntryId> },
}

impl QueuedDelivery {
    fn entry(&self) -> Option<&EntryId> {
        match self {
            QueuedDelivery::Event(inbound) => inbound.entry.as_ref(),
            QueuedDelivery::Forward { entry, .. } => entry.as_ref(),
        }
    }
}

impl DeliveryQueue {
    pub(super) fn new(frames: Arc<PendingFrames>) -> Self {
        let (queue, idle) = mpsc::channel(QUEUE);
        let shared = DeliveryState {
            seen: Mutex::default(),
            frames,
            full: AtomicUsize::new(0),
            emptied: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
            handler: watch::Sender::new(None),
            queue,
            idle: Mutex::new(Some(idle)),
        }
    }

    pub(super) fn serve(&self, handler: Arc<dyn InboundHandler>) {
        self.handler.send_replace(Some(handler));
    }

    pub(super) fn handler(&self) -> Option<Arc<dyn InboundHandler>> {
        self.handler.borrow().clone()
    }

    /// Starts the task on the first call. The task ends when the transport is dropped.
    pub(super) fn open(&self) {
        if let Some(queue) = self.idle.lock().take() {
            tokio::spawn(work(self.shared.clone(), self.handler.subscribe(), queue));
        }
    }

    /// Accepts a delivery from the socket. Repeats do not reach the handler.
    pub(super) async fn receive(&self, delivery: QueuedDelivery) {
        if let Some(entry) = delivery.entry() {
            let state = self.shared.seen.lock().check(entry);
            match state {
                EntryState::New => {}
                EntryState::InProgress => return,
                EntryState::Accepted => {
                    self.shared.frames.acknowledge(entry.clone());
                    self.shared.frames.ready.notify_one();
                    return;
                }
            }
        }
        self.shared.full.fetch_add(1, Ordering::AcqRel);
        // Fails only when the runtime is shutting down, and then nothing is acknowledged either.
        let _ = self.queue.send(delivery).await;
    }

    /// Returns after the handler has accepted or declined everything that arrived.
    pub(super) async fn empty(&self) {
        loop {
            let emptied = self.shared.emptied.notified();
            if self.shared.full.load(Ordering::Acquire) == 0 {
                return;
            }
            emptied.await;
        }
    }
}

async fn work(
    shared: Arc<DeliveryState>,
    mut handlers: watch::Receiver<Option<Arc<dyn InboundHandler>>>,
    mut queue: mpsc::Receiver<QueuedDelivery>,
) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, 64).await > 0 {
        for delivery in batch.drain(..) {
            // Deliveries wait here, unacknowledged, until a handler is set.
            let handler = match handlers.wait_for(Option::is_some).await {
                Ok(handler) => handler.clone(),
                Err(_) => return,
            };
            let Some(handler) = handler else { continue };
            let entry = delivery.entry().cloned();
            let result = deliver(&shared, &*handler, delivery).await;
            shared.settle(entry, result);
        }
        // Once for the whole batch, so that acknowledgements that are ready together are sent together.
        shared.frames.ready.notify_one();
    }
}

async fn deliver(
    shared: &DeliveryState,
    handler: &dyn InboundHandler,
    delivery: QueuedDelivery,
) -> Result<(), DeliveryDeclined> {
    let mut accepting = match delivery {
        QueuedDelivery::Event(inbound) => handler.inbound(inbound),
        QueuedDelivery::Forward { forward, .. } => handler.forwarded(*forward),
    };
    if let Poll::Ready(result) = futures_util::poll!(&mut accepting) {
        return result;
    }
    // The handler is slow: acknowledgements that are ready need not wait for it.
    shared.frames.ready.notify_one();
    accepting.await
}

impl DeliveryState {
    fn settle(&self, entry: Option<EntryId>, result: Result<(), DeliveryDeclined>) {
        if let Some(entry) = entry {
            match result {
                Ok(()) => {
                    self.seen.lock().accept(&entry);
                    self.frames.acknowledge(entry);
                }
                Err(DeliveryDeclined) => {
                    tracing::warn!(entry.id = %entry, "entry declined; the server will deliver it again");
                    self.seen.lock().forget(&entry);
                }
            }
        }
        if self.full.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.emptied.notify_waiters();
        }
    }
}
