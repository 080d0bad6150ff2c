//! Cron fires over relay connections, and notification of connecting agents. Used by the clock.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusEvent, Listener, Notification};
use dashmap::DashMap;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{FireBody, Fired};
use posthouse_wire::{InstanceId, RequestId, ToGateway};
use tokio::sync::oneshot;

use crate::agent_connections::Role;
use crate::connections::Connections;

/// An agent's answer to a fire over its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FireAnswer {
    Answer {
        status: u16,
        fired: Fired,
    },
    /// No connected socket accepts fires. Nothing was sent.
    NotConnected,
    /// The fire was sent, and no answer came in time.
    NoAnswer,
}

/// Receives the agents that connect, on this node or another.
pub struct Arrivals(Listener);

impl Arrivals {
    /// The next agent that connects. `None` when the bus was dropped. A slow listener may miss agents.
    pub async fn next(&mut self) -> Option<InstanceId> {
        loop {
            match self.0.next().await {
                BusEvent::Notification(Notification::Arrived { instance }) => return Some(instance.into()),
                BusEvent::Notification(_) | BusEvent::Missed => {}
                BusEvent::Closed => return None,
            }
        }
    }
}

/// Fires over sockets, and those that wait for an answer.
pub struct Fires {
    waiting: DashMap<RequestId, (InstanceId, oneshot::Sender<FireAnswer>)>,
    connections: Arc<Connections>,
    bus: Bus,
    timepiece: Timepiece,
}

impl Fires {
    pub(crate) fn new(connections: Arc<Connections>, bus: Bus, timepiece: Timepiece) -> Self {
        Self { waiting: DashMap::new(), connections, bus, timepiece }
    }

    pub fn arrivals(&self) -> Arrivals {
        Arrivals(self.bus.listen())
    }

    /// Sends a fire to the agent's live socket, if it accepts fires, and waits for the answer. The fire is never
    /// stored: the caller decides when to try again.
    pub async fn send(&self, instance: &InstanceId, fire: FireBody, within: Duration) -> FireAnswer {
        let request_id = RequestId::mint(self.timepiece.now().millis());
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(request_id.clone(), (instance.clone(), sender));
        let line = ToGateway::CronFire { request_id: request_id.clone(), fire }.line();
        let answer = match self.offer(instance, line) {
            true => match self.timepiece.within(within, receiver).await {
                Ok(Ok(answer)) => answer,
                _ => FireAnswer::NoAnswer,
            },
            false => FireAnswer::NotConnected,
        };
        self.waiting.remove(&request_id);
        answer
    }

    fn offer(&self, instance: &InstanceId, line: String) -> bool {
        let Some(connections) = self.connections.find(instance) else { return false };
        let mut state = connections.state.lock();
        let live = state
            .seats
            .iter_mut()
            .find(|seat| seat.role == Role::Live && !seat.idle && seat.ordered_to_close().is_none());
        match live.filter(|seat| seat.takes_fires) {
            Some(seat) => seat.send_now(line),
            None => false,
        }
    }

    /// An answer counts only from the agent that was asked.
    pub(crate) fn answered(&self, by: &InstanceId, request_id: &RequestId, answer: FireAnswer) {
        if let Some((_, (_, sender))) = self.waiting.remove_if(request_id, |_, (asked, _)| asked == by) {
            let _ = sender.send(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Moment;
    use posthouse_wire::cron::Overlap;

    use crate::tests::{connections, heron};

    use super::*;

    fn fires(connections: &Arc<Connections>) -> Fires {
        Fires::new(Arc::clone(connections), Bus::local(), Timepiece::wound(Moment::default()))
    }

    fn fire() -> FireBody {
        FireBody { job_id: "ab12".into(), fire_at: None, overlap: Overlap::default() }
    }

    #[tokio::test]
    async fn a_fire_needs_a_socket_that_accepts_fires() {
        let connections = connections();
        let fires = fires(&connections);
        let second = Duration::from_secs(1);
        assert_eq!(fires.send(&heron(), fire(), second).await, FireAnswer::NotConnected);
        let stock = connections.with_live_socket(&heron(), |_| {});
        assert_eq!(fires.send(&heron(), fire(), second).await, FireAnswer::NotConnected);
        assert!(connections.orders_of(&heron(), stock).0.is_empty());
        assert!(fires.waiting.is_empty(), "nothing is kept of a fire that nobody got");
    }

    #[tokio::test]
    async fn an_answer_counts_only_from_the_agent_that_was_asked() {
        let connections = connections();
        let fires = fires(&connections);
        connections.with_live_socket(&heron(), |seat| seat.takes_fires = true);
        let answer = FireAnswer::Answer { status: 202, fired: Fired::Accepted };
        let answers = async {
            let request = fires.waiting.iter().next().map(|waiting| waiting.key().clone()).unwrap();
            fires.answered(&"inst_egret".into(), &request, FireAnswer::NoAnswer);
            fires.answered(&heron(), &request, answer);
        };
        let instance = heron();
        let sending = fires.send(&instance, fire(), Duration::from_secs(1));
        let (got, ()) = tokio::join!(sending, answers);
        assert_eq!(got, answer);
    }
}
