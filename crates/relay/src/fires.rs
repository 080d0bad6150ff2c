//! What the clock asks of the line: who has dialed in, wake this body, and a fire down the socket.

use std::time::Duration;

use bus::{Heard, Listener, Word};
use dashmap::DashMap;
use posthouse_wire::cron::{FireBody, Fired};
use posthouse_wire::{InstanceId, RequestId, ToGateway};
use tokio::sync::oneshot;

use crate::Relay;

/// Fires that wait for their answer.
pub(crate) type Fires = DashMap<RequestId, (InstanceId, oneshot::Sender<Said>)>;

/// What an agent said to a fire down its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    Answer {
        status: u16,
        fired: Fired,
    },
    /// Nobody is there who takes fires: nothing was sent.
    Nobody,
    /// It was sent, and nothing came back in time.
    Nothing,
}

/// Tells who has dialed in, here or on another node.
pub struct Arrivals(Listener);

impl Arrivals {
    /// The next agent to dial in; nothing when the house is gone. Those missed by a slow listener are
    /// not told later.
    pub async fn next(&mut self) -> Option<InstanceId> {
        loop {
            match self.0.hear().await {
                Heard::Word(Word::Arrived { instance }) => return Some(instance.into()),
                Heard::Word(_) | Heard::Missed => {}
                Heard::Silence => return None,
            }
        }
    }
}

impl Relay {
    pub fn arrivals(&self) -> Arrivals {
        Arrivals(self.0.bus.listen())
    }

    /// Hands a fire to the agent's live socket, if it takes them, and waits for the answer. Never kept:
    /// whoever asks decides when to try again.
    pub async fn fire(&self, instance: &InstanceId, fire: FireBody, within: Duration) -> Said {
        let request_id = RequestId::mint(self.0.timepiece.now().millis());
        let (answer, said) = oneshot::channel();
        self.0.fires.insert(request_id.clone(), (instance.clone(), answer));
        let line = ToGateway::CronFire { request_id: request_id.clone(), fire }.line();
        let said = match self.offer_fire(instance, line) {
            true => match self.0.timepiece.within(within, said).await {
                Ok(Ok(said)) => said,
                _ => Said::Nothing,
            },
            false => Said::Nobody,
        };
        self.0.fires.remove(&request_id);
        said
    }

    fn offer_fire(&self, instance: &InstanceId, line: String) -> bool {
        let Some(desk) = self.0.desks.get(instance).map(|desk| desk.clone()) else { return false };
        let mut state = desk.state.lock();
        let live = state.seats.iter_mut().find(|seat| seat.role == crate::desk::Role::Live && !seat.idle);
        match live.filter(|seat| seat.takes_fires) {
            Some(seat) => seat.stop(line),
            None => false,
        }
    }

    /// An answer counts only from the agent that was asked.
    pub(crate) fn fired(&self, by: &InstanceId, request_id: &RequestId, said: Said) {
        if let Some((_, (_, answer))) = self.0.fires.remove_if(request_id, |_, (asked, _)| asked == by) {
            let _ = answer.send(said);
        }
    }
}
