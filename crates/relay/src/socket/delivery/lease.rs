//! Lease of an entry: the time within which an agent must acknowledge it.

use std::time::Duration;

use ledger::FailedDelivery;
use posthouse_time::Instant;

use crate::socket::{Ending, Socket};

/// Time limit for acknowledging the oldest outstanding entry. It counts from when that entry became the oldest, so that
/// an agent that works through its window one by one is not late with the last.
#[derive(Default)]
pub(super) struct Lease {
    pub since: Instant,
    /// Late in the lease the server pings the peer, and records whether it answers.
    pub asked: bool,
    pub answered: bool,
    /// The agent sent a request meanwhile. Its reader may be waiting for the result, which is queued behind this
    /// entry. That is no sign of poison (contract section 13.1).
    pub works: bool,
}

impl Lease {
    pub fn starting(since: Instant) -> Self {
        Self { since, ..Self::default() }
    }

    /// Time at which the peer is pinged, or at which the lease ends.
    pub fn next_timer(&self, allowed: Duration) -> Instant {
        self.since + if self.asked { allowed } else { asking_time(allowed) }
    }
}

/// Time of the ping within the lease. It is late, so that a peer that froze meanwhile is not mistaken for one whose
/// reader died.
fn asking_time(lease: Duration) -> Duration {
    lease - lease / 6
}

impl Socket {
    /// Closes a socket that does not acknowledge an entry within the lease. The entry stays stored. A peer that answers
    /// pings but does nothing else has a dead reader, which is a sign of poison. A frozen peer is no such sign, and
    /// neither is a peer that sends requests.
    pub(in crate::socket) async fn check_lease(&mut self, now: Instant) -> Result<(), Ending> {
        let lease = self.components.config.ack_lease.0;
        let Some(seated) = &mut self.seated else { return Ok(()) };
        let delivery = &mut seated.delivery;
        if now >= delivery.ready {
            delivery.ready = Instant::default();
        }
        delivery.read_again.take_if(|again| now >= *again);
        delivery.look_again.take_if(|again| now >= *again);
        if delivery.proving.is_some_and(|until| now >= until) {
            return Err(Ending::Close { code: 1011, reason: "a ping was not answered" });
        }
        if let Some((entry, _)) = delivery.suspect.take_if(|(_, until)| now >= *until) {
            self.record_failed_delivery(&entry, FailedDelivery::ConnectionLost).await;
            return Ok(());
        }
        let Some(oldest) = delivery.outstanding.front() else { return Ok(()) };
        if now >= delivery.lease.since + lease {
            let entry = oldest.id.clone();
            delivery.outstanding.clear();
            if delivery.lease.answered && !delivery.lease.works {
                self.record_failed_delivery(&entry, FailedDelivery::Poison).await;
            }
            return Err(Ending::Close { code: 1011, reason: "an entry was not acknowledged" });
        }
        if !delivery.lease.asked && now >= delivery.lease.since + asking_time(lease) {
            delivery.lease.asked = true;
            return self.ping().await;
        }
        Ok(())
    }
}
