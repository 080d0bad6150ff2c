//! The sockets of all agents on this node: lookup, connection status, closing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dashmap::DashMap;
use foldhash::fast::RandomState;
use identity::{Accounts, RevokedAccess};
use ledger::{Generation, HoldBack, InteractionMode};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{GatewayId, InstanceId};

use crate::agent_connections::{AgentConnections, Role, Seat};
use crate::generation::Proof;

/// Close code for invalid credentials. Never use it for anything else: it disables a stock agent (contract
/// section 3.2).
pub(crate) const UNAUTHORIZED: (u16, &str) = (4401, "unauthorized");

/// Connection status of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Presence {
    pub connected: bool,
    pub idle: bool,
    /// Time of the live socket's first hello.
    pub since: Option<Moment>,
    /// Number of open sockets, live or not. Several lasting sockets of one credential deserve an operator's attention.
    pub sockets: usize,
    /// The sockets with an accepted hello, oldest first.
    pub connections: Vec<Connection>,
}

/// One socket of an agent, as shown to an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    pub gateway: GatewayId,
    /// `live`, `reserve` (another credential is live) or `standby` (superseded by a newer socket).
    pub role: &'static str,
    pub since: Moment,
    /// The version that its hellos proved.
    pub proof: Proof,
    /// The version that was pinned for its credential at its hello.
    pub pinned: Generation,
}

/// The agents that have or had sockets, with the state of each.
pub struct Connections {
    agents: DashMap<InstanceId, Arc<AgentConnections>, RandomState>,
    sockets: AtomicU64,
    timepiece: Timepiece,
}

impl Connections {
    pub(crate) fn new(timepiece: Timepiece) -> Self {
        Self { agents: DashMap::default(), sockets: AtomicU64::new(1), timepiece }
    }

    /// Closes the sockets of what is revoked on this node, before the command that revokes answers.
    pub(crate) fn follow_revocations(self: &Arc<Self>, accounts: &Accounts) {
        let connections = Arc::downgrade(self);
        accounts.follow_revocations(Arc::new(move |revocation| {
            let Some(connections) = connections.upgrade() else { return };
            match revocation {
                RevokedAccess::Gateway(gateway) => connections.close_gateway(gateway),
                RevokedAccess::Agent(instance) => connections.close_instance(instance),
            }
        }));
    }

    /// The state of an agent. It is made if there is none.
    pub(crate) fn of(&self, instance: &InstanceId) -> Arc<AgentConnections> {
        if let Some(connections) = self.find(instance) {
            return connections;
        }
        let made = self
            .agents
            .entry(instance.clone())
            .or_insert_with(|| Arc::new(AgentConnections::new(instance.clone())));
        Arc::clone(&made)
    }

    /// The state of an agent, if there is one. No lock on the map is held after the call.
    pub(crate) fn find(&self, instance: &InstanceId) -> Option<Arc<AgentConnections>> {
        self.agents.get(instance).map(|connections| Arc::clone(&connections))
    }

    /// The agents that have or had sockets.
    pub(crate) fn all(&self) -> Vec<Arc<AgentConnections>> {
        self.agents.iter().map(|connections| Arc::clone(&connections)).collect()
    }

    pub(crate) fn next_socket_id(&self) -> u64 {
        self.sockets.fetch_add(1, Ordering::Relaxed)
    }

    /// Makes the live socket start again from the first unread entry. Returns false when no socket will deliver it.
    pub(crate) fn rewind(&self, instance: &InstanceId) -> bool {
        let connections = self.of(instance);
        let mut state = connections.state.lock();
        state.behind = true;
        state.rewound = true;
        let live = state.live().filter(|_| !state.idle);
        live.inspect(|live| live.notify_task()).is_some()
    }

    /// Makes a live socket drop the entries it has read ahead and read the ledger again, after entries left the inbox
    /// without an acknowledgement.
    pub(crate) fn read_inbox_again(&self, of: &InstanceId) {
        let connections = self.of(of);
        let mut state = connections.state.lock();
        state.fall_behind();
        state.rewound = true;
        if let Some(live) = state.live() {
            live.notify_task();
        }
    }

    /// Closes every socket of a revoked credential.
    pub(crate) fn close_gateway(&self, gateway: &GatewayId) {
        for connections in &self.agents {
            for seat in connections.state.lock().seats.iter_mut().filter(|seat| seat.gateway == *gateway) {
                seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
            }
        }
    }

    /// Closes every socket of a removed agent.
    pub(crate) fn close_instance(&self, instance: &InstanceId) {
        if let Some((_, connections)) = self.agents.remove(instance) {
            for seat in &mut connections.state.lock().seats {
                seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
            }
        }
    }

    /// Sets for the open sockets of an agent whether entries of a chat with a running turn are held back.
    pub(crate) fn set_hold_back(&self, of: &InstanceId, hold_back: HoldBack) {
        let Some(connections) = self.find(of) else { return };
        for seat in &mut connections.state.lock().seats {
            seat.hold_back = hold_back;
            seat.notify_task();
        }
    }

    /// Sets for the open sockets of an agent how they get interactions.
    pub(crate) fn set_interactions(&self, of: &InstanceId, mode: InteractionMode) {
        let Some(connections) = self.find(of) else { return };
        for seat in &mut connections.state.lock().seats {
            seat.interactions = mode;
        }
    }

    /// Whether the live socket has just connected and gets nothing yet.
    pub fn is_settling(&self, of: &InstanceId) -> bool {
        let Some(connections) = self.find(of) else { return false };
        let now = self.timepiece.instant();
        let state = connections.state.lock();
        state.live().is_some_and(|seat| now < seat.settled)
    }

    pub fn presence(&self, of: &InstanceId) -> Presence {
        let Some(connections) = self.find(of) else { return Presence::default() };
        let state = connections.state.lock();
        let live = state.live().filter(|seat| seat.ordered_to_close().is_none());
        Presence {
            connected: live.is_some(),
            idle: state.idle,
            since: live.map(|seat| seat.since),
            sockets: state.seats.len(),
            connections: state.seats.iter().filter_map(connection).collect(),
        }
    }
}

fn connection(seat: &Seat) -> Option<Connection> {
    let role = match seat.role {
        Role::Arriving => return None,
        Role::Live => "live",
        Role::Reserve => "reserve",
        Role::Standby => "standby",
    };
    Some(Connection {
        gateway: seat.gateway.clone(),
        role,
        since: seat.since,
        proof: seat.proof,
        pinned: seat.pinned,
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ledger::{Entry, EntryTurn, Seq};
    use posthouse_time::Instant;
    use posthouse_wire::EntryId;

    use crate::tests::{connections, heron};

    use super::*;

    fn entry() -> Entry {
        Entry {
            id: EntryId::mint(0),
            seq: Seq(1),
            instance: heron(),
            chat: "c1".into(),
            event: Bytes::from_static(b"{}"),
            forward: None,
            references: Vec::new(),
            album: None,
            stale: None,
            turn: EntryTurn::default(),
        }
    }

    #[test]
    fn only_a_live_socket_takes_a_committed_entry() {
        let connections = connections();
        let agent = connections.of(&heron());
        assert!(!agent.state.lock().appended(entry()));
        assert!(!connections.rewind(&heron()));
        let socket = connections.with_live_socket(&heron(), |_| {});
        assert!(agent.state.lock().appended(entry()));
        assert!(connections.rewind(&heron()));
        agent.state.lock().remove(socket, Instant::default());
        assert!(!agent.state.lock().appended(entry()));
    }

    #[test]
    fn a_revoked_credential_closes_its_sockets_and_no_others() {
        let connections = connections();
        let ended = connections.with_live_socket(&heron(), |_| {});
        let other = connections.with_live_socket(&"inst_egret".into(), |seat| seat.gateway = "gw-2".into());
        connections.close_gateway(&"gw-1".into());
        assert_eq!(connections.orders_of(&heron(), ended).1, Some(UNAUTHORIZED.0));
        assert_eq!(connections.orders_of(&"inst_egret".into(), other).1, None);
        assert!(!connections.presence(&heron()).connected);
        assert!(!connections.of(&heron()).state.lock().is_live(ended), "it gets no more entries");
        assert!(connections.presence(&"inst_egret".into()).connected);
    }
}
