//! Revocations: what a component does with one before the command that revoked answers.

use std::sync::Arc;

use parking_lot::RwLock;
use posthouse_wire::{GatewayId, InstanceId};

/// Something that has just ended, in the ledger and for every new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revocation<'a> {
    Gateway(&'a GatewayId),
    /// An agent was removed, with all its credentials.
    Agent(&'a InstanceId),
}

type Listener = dyn Fn(Revocation<'_>) + Send + Sync;

/// The components that act on revocations. On other nodes they learn of it over the bus.
#[derive(Clone, Default)]
pub(crate) struct RevocationListeners(Arc<RwLock<Vec<Arc<Listener>>>>);

impl RevocationListeners {
    pub fn add(&self, listener: Arc<Listener>) {
        self.0.write().push(listener);
    }

    pub fn tell(&self, revocation: Revocation<'_>) {
        for listener in self.0.read().iter() {
            listener(revocation);
        }
    }
}
