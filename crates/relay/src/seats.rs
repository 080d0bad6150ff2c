//! Who sits where.

use std::sync::Arc;

use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId};
use tokio::sync::mpsc;
use vault::Holder;

use crate::Relay;
use crate::desk::{Desk, Role, Seat, State, Word};

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

impl Relay {
    /// A socket whose first hello was accepted takes the seat: the newest wins (contract section 16.5).
    pub(crate) fn sit(&self, holder: &Holder, socket: u64, orders: mpsc::Sender<Word>) -> Arc<Desk> {
        let desk = self.desk(&holder.instance);
        let mut state = desk.state.lock();
        for seat in &mut state.seats {
            let role = if seat.gateway == holder.gateway {
                Role::Standby
            } else if seat.role == Role::Live {
                Role::Reserve
            } else {
                seat.role
            };
            if role != seat.role {
                seat.role = role;
                let _ = seat.orders.try_send(Word::Role(role));
            }
        }
        if state.seats.iter().any(|seat| seat.gateway == holder.gateway) {
            tracing::warn!(
                gateway.id = %holder.gateway,
                "a second socket of the same credential: the newer one takes over, the older one stands by"
            );
        }
        let since = self.0.timepiece.now();
        state.seats.push(Seat { socket, gateway: holder.gateway.clone(), role: Role::Live, since, orders });
        state.behind = true;
        state.idle = false;
        drop(state);
        self.0.rouse.came(&holder.instance);
        desk
    }

    /// A socket is gone. The most recent of those left takes over; with nobody left and something
    /// unread, the agent is roused.
    pub(crate) fn stand(&self, desk: &Desk, socket: u64) {
        let mut state = desk.state.lock();
        let Some(at) = state.seats.iter().position(|seat| seat.socket == socket) else { return };
        let left = state.seats.remove(at);
        if left.role != Role::Live {
            return;
        }
        state.behind = true;
        if !promote(&mut state) && state.unread.is_none_or(|unread| unread.entries > 0) {
            self.0.rouse.note(&desk.instance);
        }
    }

    /// Ends every socket of a credential that is no longer good.
    pub(crate) fn close_gateway(&self, gateway: &GatewayId) {
        for desk in &self.0.desks {
            let state = desk.state.lock();
            for seat in state.seats.iter().filter(|seat| seat.gateway == *gateway) {
                let _ = seat.orders.try_send(Word::Close { code: 4401, reason: "unauthorized" });
            }
        }
    }

    pub(crate) fn close_instance(&self, instance: &InstanceId) {
        if let Some((_, desk)) = self.0.desks.remove(instance) {
            for seat in &desk.state.lock().seats {
                let _ = seat.orders.try_send(Word::Close { code: 4401, reason: "unauthorized" });
            }
        }
    }

    pub fn presence(&self, of: &InstanceId) -> Presence {
        let Some(desk) = self.0.desks.get(of).map(|desk| Arc::clone(&desk)) else { return Presence::default() };
        let state = desk.state.lock();
        Presence {
            connected: state.live().is_some(),
            idle: state.idle,
            since: state.live().map(|seat| seat.since),
            sockets: state.seats.len(),
        }
    }
}

/// Another credential's session first, else a superseded socket that is still open.
fn promote(state: &mut State) -> bool {
    for wanted in [Role::Reserve, Role::Standby] {
        if let Some(seat) = state.seats.iter_mut().rev().find(|seat| seat.role == wanted) {
            seat.role = Role::Live;
            let _ = seat.orders.try_send(Word::Role(Role::Live));
            return true;
        }
    }
    false
}
