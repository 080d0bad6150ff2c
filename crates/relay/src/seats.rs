//! Who sits where.

use std::sync::Arc;

use bus::Word;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId};
use tokio::sync::Notify;
use vault::Holder;

use crate::desk::{Desk, Role, Seat, State};
use crate::{Fault, Relay};

/// Whether an agent is on the line.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Presence {
    pub connected: bool,
    pub idle: bool,
    /// When the live socket said its first hello.
    pub since: Option<Moment>,
    /// Open sockets, live or not. More than one of a credential that stays is worth a look.
    pub sockets: usize,
}

/// Never for anything but a credential that is not good: it disables a stock agent (contract section 3.2).
pub(crate) const UNAUTHORIZED: (u16, &str) = (4401, "unauthorized");

/// Sockets of one credential. Two happen in normal life; a swarm would take every other agent's place.
const SOCKETS: usize = 16;

impl Relay {
    /// A connection whose credential is good. It is known from here on, so that it can be told to close.
    pub(crate) fn arrive(&self, holder: &Holder, socket: u64, bell: Arc<Notify>) -> Arc<Desk> {
        let desk = self.desk(&holder.instance);
        let mut seat = Seat::arriving(socket, holder.gateway.clone(), self.0.timepiece.now(), bell);
        let mut state = desk.state.lock();
        if state.seats.iter().filter(|seat| seat.gateway == holder.gateway).count() >= SOCKETS {
            seat.close(1013, "too many sockets");
        }
        state.seats.push(seat);
        drop(state);
        desk
    }

    /// A socket whose first hello was accepted takes the seat: the newest wins (contract section 16.5).
    /// Returns the turn that it is served in.
    pub(crate) fn sit(&self, desk: &Desk, holder: &Holder, socket: u64) -> u64 {
        let mut state = desk.state.lock();
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
        if superseded {
            tracing::warn!(
                gateway.id = %holder.gateway,
                "a second socket of the same credential: the newer one takes over, the older one stands by"
            );
        }
        let now = self.0.timepiece.now();
        if let Some(seat) = state.seat(socket) {
            seat.since = now;
            seat.becomes(Role::Live);
        }
        state.turn += 1;
        state.fall_behind();
        state.idle = false;
        let turn = state.turn;
        drop(state);
        self.0.rouse.came(&desk.instance);
        self.0.bus.tell(Word::Arrived { instance: desk.instance.to_string() });
        turn
    }

    /// A socket is gone. The most recent of those left takes over; with nobody left and something
    /// unread, the agent is roused.
    pub(crate) fn stand(&self, desk: &Desk, socket: u64) {
        let mut state = desk.state.lock();
        if state.remove(socket, self.0.timepiece.now()) != Some(Role::Live) {
            return;
        }
        state.fall_behind();
        // Whoever said it goes idle takes the sockets it had left behind along.
        let succeeded = !state.idle && promote(&mut state, &[Role::Reserve, Role::Standby]);
        if !succeeded && state.unread.is_none_or(|unread| unread.entries > 0) {
            self.0.rouse.note(&desk.instance);
        }
    }

    /// A socket says that it goes idle: nothing more is delivered on it. True when that makes the agent
    /// idle, which one of several sockets does not.
    pub(crate) fn go_idle(&self, desk: &Desk, socket: u64) -> bool {
        let mut state = desk.state.lock();
        let Some(seat) = state.seat(socket) else { return false };
        seat.idle = true;
        if seat.role != Role::Live {
            return false;
        }
        // Another credential's session stays on duty; a socket that this one has superseded does not
        // come back to life by its successor's going.
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

    /// Ends every socket of a credential that is no longer good.
    pub(crate) fn close_gateway(&self, gateway: &GatewayId) {
        for desk in &self.0.desks {
            for seat in desk.state.lock().seats.iter_mut().filter(|seat| seat.gateway == *gateway) {
                seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
            }
        }
    }

    pub(crate) fn close_instance(&self, instance: &InstanceId) {
        if let Some((_, desk)) = self.0.desks.remove(instance) {
            for seat in &mut desk.state.lock().seats {
                seat.close(UNAUTHORIZED.0, UNAUTHORIZED.1);
            }
        }
    }

    /// After words were missed: ends the sockets of credentials that ended meanwhile.
    pub(crate) async fn look_over_seats(&self) -> Result<(), Fault> {
        let seated: Vec<InstanceId> = self.0.desks.iter().map(|desk| desk.instance.clone()).collect();
        for instance in seated {
            let Some(desk) = self.0.desks.get(&instance).map(|desk| Arc::clone(&desk)) else { continue };
            if desk.state.lock().seats.is_empty() {
                continue;
            }
            let held = self.0.keyring.of(&instance).await?;
            for seat in &mut desk.state.lock().seats {
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

    /// When the live socket is first handed something, or was; nothing without one.
    pub fn settles_until(&self, of: &InstanceId) -> Option<Moment> {
        let desk = self.0.desks.get(of).map(|desk| Arc::clone(&desk))?;
        let state = desk.state.lock();
        state.live().map(|seat| seat.settled)
    }

    pub fn presence(&self, of: &InstanceId) -> Presence {
        let Some(desk) = self.0.desks.get(of).map(|desk| Arc::clone(&desk)) else {
            return Presence::default();
        };
        let state = desk.state.lock();
        Presence {
            connected: state.live().is_some(),
            idle: state.idle,
            since: state.live().map(|seat| seat.since),
            sockets: state.seats.len(),
        }
    }
}

/// The most recent socket of the first of these roles that there is becomes live.
fn promote(state: &mut State, roles: &[Role]) -> bool {
    for wanted in roles {
        let fit = state.seats.iter_mut().filter(|seat| seat.role == *wanted && !seat.idle);
        if let Some(seat) = fit.max_by_key(|seat| (seat.since, seat.socket)) {
            seat.becomes(Role::Live);
            state.turn += 1;
            state.fall_behind();
            return true;
        }
    }
    false
}
