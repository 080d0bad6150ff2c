//! Hands deliveries to the handler, one after the other, and acknowledges what it took.
//!
//! A task of its own, so that a handler which asks the house something does not wait for an answer that
//! its own slowness keeps from being read, and so that a fallen socket interrupts no handler.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use parking_lot::Mutex;
use posthouse_wire::EntryId;
use posthouse_wire::passthrough::Forward;
use tokio::sync::{Notify, mpsc, watch};

use super::line::Outbox;
use super::{Declined, Inbound, InboundHandler, Seen, Sight};

/// A house never has more than a window (64) under way. If it does, the socket is read no further until
/// there is room.
const QUEUE: usize = 256;

pub(super) struct Hands {
    shared: Arc<Shared>,
    /// Held here alone, so that the task learns when the line is gone.
    handler: watch::Sender<Option<Arc<dyn InboundHandler>>>,
    queue: mpsc::Sender<Delivery>,
    /// The far end of `queue`, until the first connect spawns the task.
    idle: Mutex<Option<mpsc::Receiver<Delivery>>>,
}

struct Shared {
    seen: Mutex<Seen>,
    outbox: Arc<Outbox>,
    full: AtomicUsize,
    emptied: Notify,
}

pub(super) enum Delivery {
    Event(Inbound),
    Forward { forward: Box<Forward>, entry: Option<EntryId> },
}

impl Delivery {
    fn entry(&self) -> Option<&EntryId> {
        match self {
            Delivery::Event(inbound) => inbound.entry.as_ref(),
            Delivery::Forward { entry, .. } => entry.as_ref(),
        }
    }
}

impl Hands {
    pub(super) fn new(outbox: Arc<Outbox>) -> Self {
        let (queue, idle) = mpsc::channel(QUEUE);
        let shared =
            Shared { seen: Mutex::default(), outbox, full: AtomicUsize::new(0), emptied: Notify::new() };
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

    /// Begins to hand over; once is enough. Ends when the line is gone.
    pub(super) fn open(&self) {
        if let Some(queue) = self.idle.lock().take() {
            tokio::spawn(work(self.shared.clone(), self.handler.subscribe(), queue));
        }
    }

    /// Takes a delivery off the socket. Repeats go no further.
    pub(super) async fn receive(&self, delivery: Delivery) {
        if let Some(entry) = delivery.entry() {
            let sight = self.shared.seen.lock().meet(entry);
            match sight {
                Sight::New => {}
                Sight::InHand => return,
                Sight::Taken => {
                    self.shared.outbox.acknowledge(entry.clone());
                    self.shared.outbox.ready.notify_one();
                    return;
                }
            }
        }
        self.shared.full.fetch_add(1, Ordering::AcqRel);
        // Fails only when the runtime is going down, and then nothing is acknowledged either.
        let _ = self.queue.send(delivery).await;
    }

    /// Returns once the handler took or declined all that came.
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
    shared: Arc<Shared>,
    mut handlers: watch::Receiver<Option<Arc<dyn InboundHandler>>>,
    mut queue: mpsc::Receiver<Delivery>,
) {
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, 64).await > 0 {
        for delivery in batch.drain(..) {
            // What comes before somebody serves us waits here, unacknowledged.
            let handler = match handlers.wait_for(Option::is_some).await {
                Ok(handler) => handler.clone(),
                Err(_) => return,
            };
            let Some(handler) = handler else { continue };
            let entry = delivery.entry().cloned();
            let verdict = hand(&shared, &*handler, delivery).await;
            shared.settle(entry, verdict);
        }
        // Once for the whole batch: acknowledgements that are ready together travel together.
        shared.outbox.ready.notify_one();
    }
}

async fn hand(shared: &Shared, handler: &dyn InboundHandler, delivery: Delivery) -> Result<(), Declined> {
    let mut taking = match delivery {
        Delivery::Event(inbound) => handler.inbound(inbound),
        Delivery::Forward { forward, .. } => handler.forwarded(*forward),
    };
    if let Poll::Ready(verdict) = futures_util::poll!(&mut taking) {
        return verdict;
    }
    // It takes its time: what is already acknowledged need not wait for it.
    shared.outbox.ready.notify_one();
    taking.await
}

impl Shared {
    fn settle(&self, entry: Option<EntryId>, verdict: Result<(), Declined>) {
        if let Some(entry) = entry {
            match verdict {
                Ok(()) => {
                    self.seen.lock().took(&entry);
                    self.outbox.acknowledge(entry);
                }
                Err(Declined) => {
                    tracing::warn!(entry.id = %entry, "the handler declined an entry; the house will bring it again");
                    self.seen.lock().forget(&entry);
                }
            }
        }
        if self.full.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.emptied.notify_waiters();
        }
    }
}
