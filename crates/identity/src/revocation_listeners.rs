//! Listeners for revocations: components that act on one before its command answers.

use std::sync::Arc;

use parking_lot::RwLock;
use posthouse_wire::{GatewayId, InstanceId};

/// What was revoked. It has ended in the ledger, and every new request with it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevokedAccess<'a> {
    Gateway(&'a GatewayId),
    /// An agent was removed, with all its credentials.
    Agent(&'a InstanceId),
}

type RevocationListener = dyn Fn(RevokedAccess<'_>) + Send + Sync;

/// The components that act on revocations. On other nodes they learn of it over the bus.
#[derive(Clone, Default)]
pub(crate) struct RevocationListeners(Arc<RwLock<Vec<Arc<RevocationListener>>>>);

impl RevocationListeners {
    pub fn add(&self, listener: Arc<RevocationListener>) {
        self.0.write().push(listener);
    }

    pub fn tell(&self, revocation: RevokedAccess<'_>) {
        for listener in self.0.read().iter() {
            listener(revocation);
        }
    }
}
