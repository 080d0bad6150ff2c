//! State of one relay connection, shared by its handle, its connection loop and its socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use posthouse_time::Timepiece;
use posthouse_wire::{Descriptor, EntryId, FromGateway};
use tokio::sync::{Notify, watch};

use super::delivery_queue::DeliveryQueue;
use super::requests::Requests;
use super::{ConnectionState, Descriptors, Fault};
use crate::Settings;

pub(super) struct RelayConnection {
    pub(super) settings: Settings,
    pub(super) timepiece: Timepiece,
    pub(super) state: watch::Sender<ConnectionState>,
    /// Fault of the last attempt, for callers of `connect`.
    pub(super) last_fault: Mutex<Fault>,
    pub(super) descriptors: RwLock<Arc<Descriptors>>,
    pub(super) requests: Requests,
    pub(super) frames: Arc<PendingFrames>,
    pub(super) deliveries: DeliveryQueue,
    /// Cuts the pause before the next attempt short.
    pub(super) hurry: Notify,
    /// The server has confirmed that it delivers nothing more.
    pub(super) idle_confirmed: watch::Sender<bool>,
}

impl RelayConnection {
    pub(super) fn learn(&self, descriptor: Descriptor) {
        let mut descriptors = self.descriptors.write();
        Arc::make_mut(&mut descriptors).learn(descriptor);
    }

    pub(super) fn state(&self) -> ConnectionState {
        *self.state.borrow()
    }
}

/// Frames that wait for the writer. Requests are kept separately, because they outlive a socket.
#[derive(Default)]
pub(super) struct PendingFrames {
    acknowledged: Mutex<Vec<EntryId>>,
    asides: Mutex<Vec<String>>,
    going_idle: AtomicBool,
    pub(super) ready: Notify,
}

/// Most asides that wait. An aside is an interrupt or the answer to a cron fire; past this many, new ones
/// are dropped.
const ASIDES: usize = 256;

impl PendingFrames {
    /// Kept across a lost connection: the next socket sends it. If the server has delivered the entry again
    /// meanwhile, a second acknowledgement is harmless.
    pub(super) fn acknowledge(&self, entry: EntryId) {
        self.acknowledged.lock().push(entry);
    }

    pub(super) fn aside(&self, frame: &FromGateway) {
        let mut asides = self.asides.lock();
        if asides.len() < ASIDES {
            asides.push(frame.line());
        }
        drop(asides);
        self.ready.notify_one();
    }

    pub(super) fn going_idle(&self) {
        self.going_idle.store(true, Ordering::Release);
        self.ready.notify_one();
    }

    /// Drops the asides of a lost connection: an interrupt is meant for the turn that ran when it was sent.
    pub(super) fn forget_asides(&self) {
        self.asides.lock().clear();
        self.going_idle.store(false, Ordering::Release);
    }

    pub(super) fn drain_into(&self, batch: &mut String) {
        for entry in self.acknowledged.lock().drain(..) {
            batch.push_str(&FromGateway::InboundAck { entry }.line());
        }
        for aside in self.asides.lock().drain(..) {
            batch.push_str(&aside);
        }
        if self.going_idle.swap(false, Ordering::AcqRel) {
            batch.push_str(&FromGateway::GoingIdle.line());
        }
    }
}
