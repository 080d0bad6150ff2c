//! Delivery of a press to the socket that asked, whether it is live or not.

use super::{Lease, Outstanding, inbound};
use crate::agent_connections::State;
use crate::prompt_owners::HandedPress;
use crate::socket::Socket;
use crate::socket::delivery::Origin;
use ledger::Entry;

/// Whether this entry is a press that another socket of the agent gets.
pub(super) fn goes_elsewhere(
    state: &mut State,
    live: u64,
    prompt: &str,
    entry: &Entry,
    origin: Origin,
) -> bool {
    state.hand_to_asker(live, prompt, entry, inbound(entry, None, origin))
}

impl Socket {
    /// Records that a press was sent on this socket. Its acknowledgement is awaited as for any other entry.
    pub(in crate::socket) fn sent_press(&mut self, press: HandedPress) {
        let (now, handed) = (self.now(), self.components.timepiece.now());
        let Some(seated) = &mut self.seated else { return };
        let delivery = &mut seated.delivery;
        if delivery.outstanding.is_empty() {
            delivery.lease = Lease::starting(now);
        }
        delivery.outstanding.push_back(Outstanding {
            id: press.entry,
            place: press.place,
            handed,
            parts: Vec::new(),
        });
    }
}
