//! Delivery of a press to the socket that asked, whether it is live or not.

use super::{Lease, Outstanding};
use crate::prompt_owners::DeliveredPress;
use crate::socket::Socket;

impl Socket {
    /// Records that a press was sent on this socket. Its acknowledgement is awaited as for any other entry.
    pub(in crate::socket) fn sent_press(&mut self, press: DeliveredPress) {
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
