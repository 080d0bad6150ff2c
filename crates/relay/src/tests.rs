//! Fixtures of unit tests: components of the relay built alone, without a ledger and without sockets.

use std::sync::Arc;

use async_trait::async_trait;
use ledger::BotRef;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{Descriptor, InstanceId, Outcome};
use tokio::sync::Notify;

use crate::agent_connections::{Orders, QueuedFrame, Role, Seat};
use crate::connections::Connections;
use crate::egress::{Egress, EgressResult, PermittedAction};

/// An egress that no test uses.
struct NoEgress;

#[async_trait]
impl Egress for NoEgress {
    async fn descriptor(&self, _: &BotRef) -> Option<Descriptor> {
        None
    }

    fn is_built_in(&self, _: &BotRef) -> bool {
        false
    }

    async fn carry(&self, _: PermittedAction) -> EgressResult {
        Outcome::failed("not carried out").into()
    }
}

pub(crate) fn connections() -> Arc<Connections> {
    Arc::new(Connections::new(Timepiece::wound(Moment::default())))
}

pub(crate) fn heron() -> InstanceId {
    "inst_heron".into()
}

impl Connections {
    /// Adds a live socket of an agent.
    pub(crate) fn with_live_socket(&self, of: &InstanceId, adjust: impl FnOnce(&mut Seat)) -> u64 {
        let socket = self.next_socket_id();
        let mut seat = Seat::arriving(
            socket,
            "gw-1".into(),
            Moment::default(),
            Arc::new(NoEgress),
            Arc::new(Notify::new()),
        );
        seat.becomes(Role::Live);
        adjust(&mut seat);
        self.of(of).state.lock().seats.push(seat);
        socket
    }

    /// The lines that wait for a socket, and the code with which it was ordered to close.
    pub(crate) fn orders_of(&self, of: &InstanceId, socket: u64) -> (Vec<String>, Option<u16>) {
        let orders = self.of(of).state.lock().orders(socket);
        let Some(Orders { lines, close, .. }) = orders else { return (Vec::new(), None) };
        let text = |line: QueuedFrame| line.text().to_owned();
        (lines.into_iter().map(text).collect(), close.map(|(code, _)| code))
    }
}
