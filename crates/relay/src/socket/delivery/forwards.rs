//! Interactions that are forwarded whole (relay contract section 15).
//!
//! A stock agent never acknowledges a forward. So it goes out without a buffer id, followed by a ping of its own, and
//! counts as delivered when the pong to that ping arrives.

use bytes::Bytes;
use ledger::{Entry, InteractionMode};
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{EntryId, ToGateway};

use crate::socket::{Ending, Socket};

/// Begins the payload of a ping that follows a forward. The entry's id follows.
const FORWARD_PING: &str = "fwd:";

/// The entry whose forward this pong confirms.
pub(super) fn forwarded(payload: &[u8]) -> Option<EntryId> {
    let entry = std::str::from_utf8(payload).ok()?.strip_prefix(FORWARD_PING)?;
    Some(EntryId::from(entry))
}

impl Socket {
    /// The line that forwards an interaction, if the entry has one and this agent wants it whole.
    pub(super) fn forward_line(&self, entry: &Entry) -> Option<String> {
        let forward = entry.forward.as_ref()?;
        let mut state = self.connections.state.lock();
        let wants = state.seat(self.id).is_some_and(|seat| seat.interactions == InteractionMode::Passthrough);
        let forward: Forward = serde_json::from_slice(forward).ok().filter(|_| wants)?;
        Some(ToGateway::PassthroughForward { forward: Box::new(forward), entry: None }.line())
    }

    /// Pings the agent after a forward.
    pub(super) async fn ask_for_pong(&mut self, entry: &EntryId) -> Result<(), Ending> {
        self.ping_with(Bytes::from(format!("{FORWARD_PING}{entry}"))).await
    }
}
