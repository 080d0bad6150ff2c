//! Roles of an agent's sockets: which one is live, and takeover, idling and closing of sockets.

use std::sync::Arc;

use bus::{Bus, Notification};
use identity::{Accounts, GatewayOwner};
use ledger::{HoldBack, InteractionMode, Roster};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::{GatewayId, InstanceId};
use tokio::sync::Notify;

use crate::agent_connections::{AgentConnections, Role, Seat, State};
use crate::connections::{Connections, UNAUTHORIZED};
use crate::wake_calls::WakeCalls;
use crate::{Egress, Fault};

/// Maximum number of sockets per credential. Two happen in normal operation; a swarm would displace other agents.
const SOCKETS: usize = 16;
/// Superseded sockets of one credential that are kept (contract section 16.5).
const STANDBYS: usize = 4;
/// Close code for a socket that newer ones of its credential have replaced.
const SUPERSEDED: (u16, &str) = (4409, "superseded");

/// Gives every socket of an agent its role.
pub struct SocketRoles {
    connections: Arc<Connections>,
    wake_calls: Arc<WakeCalls>,
    accounts: Accounts,
    roster: Arc<dyn Roster>,
    bus: Bus,
    timepiece: Timepiece,
}

impl SocketRoles {
    pub(crate) fn new(
        connections: Arc<Connections>,
        wake_calls: Arc<WakeCalls>,
        accounts: Accounts,
        roster: Arc<dyn Roster>,
        bus: Bus,
        timepiece: Timepiece,
    ) -> Self {
        Self { connections, wake_calls, accounts, roster, bus, timepiece }
    }

    /// Registers a connection with a valid credential, and returns its id and the state of its agent. From here on it
    /// can be ordered to close.
    pub(crate) fn arrive(
        &self,
        holder: &GatewayOwner,
        egress: Arc<dyn Egress>,
        orders_ready: Arc<Notify>,
    ) -> (u64, Arc<AgentConnections>) {
        let socket = self.connections.next_socket_id();
        let connections = self.connections.of(&holder.instance);
        let seat = Seat::arriving(socket, holder.gateway.clone(), self.timepiece.now(), egress, orders_ready);
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
        (socket, connections)
    }

    /// Makes a socket live after its first accepted hello: the newest wins (contract section 16.5). Returns its turn
    /// number.
    pub(crate) fn make_live(
        &self,
        connections: &AgentConnections,
        holder: &GatewayOwner,
        socket: u64,
    ) -> u64 {
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
        let now = self.timepiece.now();
        state.turn += 1;
        let turn = state.turn;
        if let Some(seat) = state.seat(socket) {
            (seat.since, seat.served) = (now, turn);
            // Whatever it announced before its hello does not count.
            seat.idle = false;
            seat.becomes(Role::Live);
        }
        state.fall_behind();
        state.idle = false;
        drop(state);
        self.wake_calls.sleepers.came(&connections.instance);
        self.bus.publish(Notification::Arrived { instance: connections.instance.to_string() });
        turn
    }

    /// Removes a closed socket. The most recent of the others takes over. If none is left, the agent's wake URL is
    /// called when something is unread.
    pub(crate) fn stand(&self, connections: &AgentConnections, socket: u64) {
        let mut state = connections.state.lock();
        if state.remove(socket, self.timepiece.instant()) != Some(Role::Live) {
            return;
        }
        state.fall_behind();
        // If the agent went idle, none of its older sockets takes over.
        let succeeded = !state.idle && promote(&mut state, &[Role::Reserve, Role::Standby]);
        if !succeeded {
            self.wake_calls.sleepers.note(&connections.instance);
        }
    }

    /// Marks a socket as idle, so that nothing more is delivered on it. The agent is recorded as idle, unless another
    /// credential's socket takes over.
    pub(crate) async fn go_idle(&self, connections: &AgentConnections, socket: u64) -> Result<(), Fault> {
        if self.leaves_agent_idle(connections, socket) {
            let instance = &connections.instance;
            let mut noted = self.roster.set_idle(instance, true).await;
            // The agent may have come back on another socket during the write.
            if !connections.state.lock().idle {
                noted = self.roster.set_idle(instance, false).await;
            }
            noted?;
        }
        Ok(())
    }

    /// Records that an agent which had gone idle is back.
    pub(crate) async fn came_back(&self, instance: &InstanceId) -> Result<(), Fault> {
        Ok(self.roster.set_idle(instance, false).await?)
    }

    fn leaves_agent_idle(&self, connections: &AgentConnections, socket: u64) -> bool {
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

    /// Closes the sockets of revoked credentials, after notifications were missed.
    pub(crate) async fn check_credentials(&self) -> Result<(), Fault> {
        for connections in self.connections.all() {
            // Only sockets from before the read: the credential of a newer one may be missing in it.
            let open: Vec<u64> = connections.state.lock().seats.iter().map(|seat| seat.socket).collect();
            if open.is_empty() {
                continue;
            }
            let held = self.accounts.gateways(&connections.instance).await?;
            let mut state = connections.state.lock();
            for seat in state.seats.iter_mut().filter(|seat| open.contains(&seat.socket)) {
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
        self.roster.set_hold_back(of, hold_back).await?;
        self.connections.set_hold_back(of, hold_back);
        Ok(())
    }

    /// Sets whether an agent gets interactions as events or whole. It also takes effect for open sockets.
    pub async fn set_interactions(&self, of: &InstanceId, mode: InteractionMode) -> Result<(), Fault> {
        self.roster.set_interaction_mode(of, mode).await?;
        self.connections.set_interactions(of, mode);
        Ok(())
    }
}

/// The sockets of a credential that were not ordered to close.
fn open_seats<'a>(state: &'a mut State, of: &'a GatewayId) -> impl Iterator<Item = &'a mut Seat> {
    state.seats.iter_mut().filter(move |seat| seat.gateway == *of && seat.ordered_to_close().is_none())
}

/// Makes the most recent socket live, of the first of these roles that has one.
fn promote(state: &mut State, roles: &[Role]) -> bool {
    for wanted in roles {
        let fit = state
            .seats
            .iter_mut()
            .filter(|seat| seat.role == *wanted && !seat.idle && seat.ordered_to_close().is_none());
        if let Some(seat) = fit.max_by_key(|seat| (seat.served, seat.socket)) {
            seat.becomes(Role::Live);
            state.turn += 1;
            state.fall_behind();
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tests::{RecordedActions, Records};

    #[tokio::test]
    async fn the_newest_socket_of_a_credential_is_live_and_the_one_before_takes_over_when_it_ends() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await;
        let connections = records.connections();
        let seats = SocketRoles::new(
            Arc::clone(&connections),
            records.wake_calls(&connections),
            records.identity.accounts.clone(),
            records.ledger.roster(),
            records.bus.clone(),
            records.clock.clone(),
        );
        let connect = || {
            let (socket, of_agent) =
                seats.arrive(&heron, Arc::<RecordedActions>::default(), Arc::new(Notify::new()));
            seats.make_live(&of_agent, &heron, socket);
            records.clock.wind(Duration::from_secs(1));
            (socket, of_agent)
        };
        let (first, of_agent) = connect();
        let (second, _) = connect();
        assert!(of_agent.state.lock().is_live(second) && !of_agent.state.lock().is_live(first));
        seats.stand(&of_agent, second);
        assert!(of_agent.state.lock().is_live(first));
        seats.go_idle(&of_agent, first).await.unwrap();
        let is_idle = async || records.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().idle;
        assert!(is_idle().await, "its last socket went idle");
        seats.came_back(&heron.instance).await.unwrap();
        assert!(!is_idle().await);
    }
}
