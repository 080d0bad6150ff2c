//! Roles of an agent's sockets: which one is live, and takeover, idling and closing of sockets.

use std::sync::Arc;

use bus::Word;
use identity::GatewayOwner;
use ledger::{Generation, HoldBack};
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId};
use tokio::sync::Notify;

use crate::agent_connections::{AgentConnections, Role, Seat, State};
use crate::generation::Proof;
use crate::{Egress, Fault, Relay};

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

/// Close code for invalid credentials. Never use it for anything else: it disables a stock agent (contract
/// section 3.2).
pub(crate) const UNAUTHORIZED: (u16, &str) = (4401, "unauthorized");

/// Maximum number of sockets per credential. Two happen in normal operation; a swarm would displace other agents.
const SOCKETS: usize = 16;
/// Superseded sockets of one credential that are kept (contract section 16.5).
const STANDBYS: usize = 4;
/// Close code for a socket that newer ones of its credential have replaced.
const SUPERSEDED: (u16, &str) = (4409, "superseded");

impl Relay {
    /// Registers a connection with a valid credential. From here on it can be ordered to close.
    pub(crate) fn arrive(
        &self,
        holder: &GatewayOwner,
        socket: u64,
        egress: Arc<dyn Egress>,
        orders_ready: Arc<Notify>,
    ) -> Arc<AgentConnections> {
        let connections = self.connections(&holder.instance);
        let seat =
            Seat::arriving(socket, holder.gateway.clone(), self.0.timepiece.now(), egress, orders_ready);
        let mut state = connections.state.lock();
        // The oldest is closed, not the new one: abandoned sockets must not keep an agent out. The live socket is
        // the last to be closed.
        let mut open: Vec<&mut Seat> = open_seats(&mut state, &holder.gateway).collect();
        if open.len() >= SOCKETS
            && let Some(oldest) = open.iter_mut().min_by_key(|seat| (seat.role == Role::Live, seat.socket))
        {
            match oldest.role {
                Role::Arriving => oldest.close(1013, "too many sockets"),
                _ => oldest.close(SUPERSEDED.0, SUPERSEDED.1),
            }
        }
        state.seats.push(seat);
        drop(state);
        connections
    }

    /// Makes a socket live after its first accepted hello: the newest wins (contract section 16.5). Returns its turn
    /// number.
    pub(crate) fn sit(&self, connections: &AgentConnections, holder: &GatewayOwner, socket: u64) -> u64 {
        let mut state = connections.state.lock();
        let mut superseded = false;
        for seat in state.seats.iter_mut().filter(|seat| seat.socket != socket && seat.role != Role::Arriving)
        {
            if seat.gateway == holder.gateway {
                superseded = true;
                seat.becomes(Role::Standby);
            } else if seat.role == Role::Live {
                seat.becomes(Role::Reserve);
            }
        }
        // If superseded sockets were closed at once, two processes with one credential would evict each other for
        // ever. If all were kept, they would use up the server's connections.
        let mut standbys: Vec<&mut Seat> =
            open_seats(&mut state, &holder.gateway).filter(|seat| seat.role == Role::Standby).collect();
        let surplus = standbys.len().saturating_sub(STANDBYS);
        standbys.sort_by_key(|seat| seat.socket);
        for oldest in standbys.into_iter().take(surplus) {
            oldest.close(SUPERSEDED.0, SUPERSEDED.1);
        }
        if superseded {
            tracing::warn!(
                gateway.id = %holder.gateway,
                "a second socket connected with the same credential: the newer one takes over, the older one stands by"
            );
        }
        let now = self.0.timepiece.now();
        state.turn += 1;
        let turn = state.turn;
        if let Some(seat) = state.seat(socket) {
            (seat.since, seat.served) = (now, turn);
            seat.becomes(Role::Live);
        }
        state.fall_behind();
        state.idle = false;
        drop(state);
        self.0.wake_calls.came(&connections.instance);
        self.0.bus.tell(Word::Arrived { instance: connections.instance.to_string() });
        turn
    }

    /// Removes a closed socket. The most recent of the others takes over. If none is left, the agent's wake URL is
    /// called when something is unread.
    pub(crate) fn stand(&self, connections: &AgentConnections, socket: u64) {
        let mut state = connections.state.lock();
        if state.remove(socket, self.0.timepiece.instant()) != Some(Role::Live) {
            return;
        }
        state.fall_behind();
        // If the agent went idle, none of its older sockets takes over.
        let succeeded = !state.idle && promote(&mut state, &[Role::Reserve, Role::Standby]);
        if !succeeded {
            self.0.wake_calls.note(&connections.instance);
        }
    }

    /// Marks a socket as idle, so that nothing more is delivered on it. Returns true when that makes the agent idle,
    /// which is not so if another credential's socket takes over.
    pub(crate) fn go_idle(&self, connections: &AgentConnections, socket: u64) -> bool {
        let mut state = connections.state.lock();
        let Some(seat) = state.seat(socket) else { return false };
        seat.idle = true;
        if seat.role != Role::Live {
            return false;
        }
        // A socket of another credential takes over. A socket that this one has superseded does not become live
        // again because its successor goes idle.
        if promote(&mut state, &[Role::Reserve]) {
            if let Some(seat) = state.seat(socket) {
                seat.becomes(Role::Reserve);
            }
            return false;
        }
        state.fall_behind();
        state.idle = true;
        true
    }

    /// Closes every socket of a revoked credential.
    pub(crate) fn close_gateway(&self, gateway: &GatewayId) {
        for connections in &self.0.connections {
            for seat in connections.state.lock().seats.iter_mut().filter(|seat| seat.gateway == *gateway) {
                seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
            }
        }
    }

    pub(crate) fn close_instance(&self, instance: &InstanceId) {
        if let Some((_, connections)) = self.0.connections.remove(instance) {
            for seat in &mut connections.state.lock().seats {
                seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
            }
        }
    }

    /// Closes the sockets of revoked credentials, after notifications were missed.
    pub(crate) async fn look_over_seats(&self) -> Result<(), Fault> {
        let seated: Vec<InstanceId> =
            self.0.connections.iter().map(|connections| connections.instance.clone()).collect();
        for instance in seated {
            let Some(connections) =
                self.0.connections.get(&instance).map(|connections| Arc::clone(&connections))
            else {
                continue;
            };
            if connections.state.lock().seats.is_empty() {
                continue;
            }
            let held = self.0.identity.accounts.gateways(&instance).await?;
            for seat in &mut connections.state.lock().seats {
                let good = |(gateway, _, revoked): &(GatewayId, _, Option<Moment>)| {
                    *gateway == seat.gateway && revoked.is_none()
                };
                if !held.iter().any(good) {
                    seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
                }
            }
        }
        Ok(())
    }

    /// Sets whether entries of a chat with a running turn are held back. It also takes effect for open sockets.
    pub async fn set_hold_back(&self, of: &InstanceId, hold_back: HoldBack) -> Result<(), Fault> {
        self.0.roster.set_hold_back(of, hold_back).await?;
        if let Some(connections) = self.0.connections.get(of).map(|connections| Arc::clone(&connections)) {
            for seat in &mut connections.state.lock().seats {
                seat.hold_back = hold_back;
                seat.look();
            }
        }
        Ok(())
    }

    /// Whether the live socket has just connected and gets nothing yet.
    pub fn is_settling(&self, of: &InstanceId) -> bool {
        let Some(connections) = self.0.connections.get(of).map(|connections| Arc::clone(&connections)) else {
            return false;
        };
        let now = self.0.timepiece.instant();
        let state = connections.state.lock();
        state.live().is_some_and(|seat| now < seat.settled)
    }

    pub fn presence(&self, of: &InstanceId) -> Presence {
        let Some(connections) = self.0.connections.get(of).map(|connections| Arc::clone(&connections)) else {
            return Presence::default();
        };
        let state = connections.state.lock();
        Presence {
            connected: state.live().is_some(),
            idle: state.idle,
            since: state.live().map(|seat| seat.since),
            sockets: state.seats.len(),
            connections: state.seats.iter().filter_map(connection).collect(),
        }
    }
}

/// The sockets of a credential that were not ordered to close.
fn open_seats<'a>(state: &'a mut State, of: &'a GatewayId) -> impl Iterator<Item = &'a mut Seat> {
    state.seats.iter_mut().filter(move |seat| seat.gateway == *of && seat.ordered_to_close().is_none())
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

/// Makes the most recent socket live, of the first of these roles that has one.
fn promote(state: &mut State, roles: &[Role]) -> bool {
    for wanted in roles {
        let fit = state.seats.iter_mut().filter(|seat| seat.role == *wanted && !seat.idle);
        if let Some(seat) = fit.max_by_key(|seat| (seat.served, seat.socket)) {
            seat.becomes(Role::Live);
            state.turn += 1;
            state.fall_behind();
            return true;
        }
    }
    false
}
