//! Interrupts: stopping exactly one turn of an agent.

use std::sync::Arc;

use bus::{Bus, Notification};
use identity::GatewayOwner;
use ledger::Roster;
use posthouse_wire::{ChatId, InstanceId, SessionKey, Source, ToGateway, session_key};

use crate::Fault;
use crate::connections::Connections;

/// Requests to stop turns, on whichever node the agent is connected.
#[derive(Clone)]
pub struct Interrupts {
    roster: Arc<dyn Roster>,
    bus: Bus,
}

impl Interrupts {
    pub(crate) fn new(roster: Arc<dyn Roster>, bus: Bus) -> Self {
        Self { roster, bus }
    }

    /// Handles a stop requested by a gateway. The key is looked up among the sessions of its own instance. An unknown
    /// key is ignored, even if another instance has it.
    pub(crate) async fn interrupt_from(&self, holder: &GatewayOwner, key: SessionKey) -> Result<(), Fault> {
        if let Some((_, chat)) = self.roster.chat_of_session(&holder.instance, &key).await? {
            self.tell_stop(&holder.instance, &key, &chat);
        }
        Ok(())
    }

    /// Handles a stop requested by a person on their platform. Unknown keys are harmless to an agent, so every
    /// plausible key is sent when its generation is unknown.
    pub fn interrupt(&self, instance: &InstanceId, source: &Source) {
        let Some(chat) = &source.chat_id else { return };
        for key in session_key::plausible(source) {
            self.tell_stop(instance, &key, chat);
        }
    }

    fn tell_stop(&self, instance: &InstanceId, key: &SessionKey, chat: &ChatId) {
        self.bus.publish(Notification::Interrupt {
            instance: instance.to_string(),
            session_key: key.to_string(),
            chat: chat.to_string(),
        });
    }
}

/// Carries out a stop that was requested on this node or another. It goes to the sockets that got the chat's last
/// entries, whatever their roles. A key does not tell which session of its chat it means, but an agent ignores unknown
/// keys. The stop is never stored: a late stop would end the wrong turn.
pub(crate) fn stop_turn(connections: &Connections, instance: &InstanceId, key: &SessionKey, chat: &ChatId) {
    let Some(connections) = connections.find(instance) else { return };
    let frame = ToGateway::InterruptInbound { session_key: key.clone(), chat_id: chat.clone() };
    let mut state = connections.state.lock();
    let mut sockets = state.turns.sockets(chat);
    sockets.retain(|socket| state.seats.iter().any(|seat| seat.socket == *socket));
    if sockets.is_empty() {
        sockets.extend(state.live().map(|live| live.socket));
    }
    for socket in sockets {
        if let Some(seat) = state.seat(socket)
            && seat.send_now(frame.line())
        {
            state.turns.interrupted(chat);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::{connections, heron};

    use super::*;

    #[test]
    fn a_stop_goes_to_the_live_socket_when_nobody_knows_who_has_the_turn() {
        let connections = connections();
        let socket = connections.with_live_socket(&heron(), |_| {});
        let other = connections.with_live_socket(&"inst_egret".into(), |_| {});
        stop_turn(&connections, &heron(), &"key".into(), &"c1".into());
        let (lines, _) = connections.orders_of(&heron(), socket);
        assert_eq!(lines.len(), 1);
        assert!(lines[0].contains("interrupt_inbound"), "{lines:?}");
        assert!(connections.orders_of(&"inst_egret".into(), other).0.is_empty());
    }
}
