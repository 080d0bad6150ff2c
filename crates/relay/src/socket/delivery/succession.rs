//! Sockets of one agent that follow each other: becoming live, being superseded, and the pong that shows which is alive.

use std::time::Duration;

use ledger::{FailedDelivery, Seq};

use super::forwards;
use crate::agent_connections::Role;
use crate::socket::{Ending, STOP_PING, Socket};

/// Time for a superseded socket to show that it is alive, which makes its entry suspect.
const PROBE: Duration = Duration::from_secs(5);

impl Socket {
    pub(in crate::socket) async fn change_role(&mut self, role: Role) -> Result<(), Ending> {
        let now = self.now();
        let Some(seated) = self.seated.as_mut().filter(|seated| seated.role != role) else { return Ok(()) };
        seated.role = role;
        let delivery = &mut seated.delivery;
        if role == Role::Live {
            // Start again from the first unread entry, once the peer has proved that it is alive (contract
            // section 16.5).
            delivery.cursor = Seq(0);
            delivery.proving = Some(now + PROBE);
            return self.ping().await;
        }
        delivery.proving = None;
        // A second socket appeared while this one is open. If this one is alive, its reader died of the entry
        // that it got (contract section 16.4). If not, the connection was merely lost.
        let suspect = delivery.outstanding.front().map(|oldest| oldest.id.clone());
        let superseded = delivery.outstanding.drain(..);
        delivery.superseded_albums = superseded.filter(|outstanding| !outstanding.parts.is_empty()).collect();
        if let (Some(entry), Role::Standby) = (suspect, role) {
            delivery.suspect = Some((entry, now + PROBE));
            return self.ping().await;
        }
        Ok(())
    }

    pub(in crate::socket) async fn ponged(&mut self, payload: &[u8]) -> Result<(), Ending> {
        if payload == STOP_PING {
            let now = self.now();
            if let Some(seat) = self.connections.state.lock().seat(self.id) {
                seat.stops_arrived = Some(now);
            }
        }
        if let Some(entry) = forwards::forwarded(payload) {
            self.acknowledged(entry);
        }
        let Some(seated) = &mut self.seated else { return Ok(()) };
        seated.delivery.proving = None;
        seated.delivery.lease.answered |= seated.delivery.lease.asked;
        if let Some((entry, _)) = seated.delivery.suspect.take() {
            self.record_failed_delivery(&entry, FailedDelivery::Poison).await;
        }
        Ok(())
    }
}
