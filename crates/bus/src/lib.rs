//! Notifications between nodes and between parts of the server.
//!
//! The ledger holds the truth; the bus only makes reactions faster. Nothing is acknowledged because of a
//! notification, and a lost notification costs time, never a message. A server with one node uses [`Bus::local`].

use tokio::sync::broadcast;

/// A notification that another part of the server, or another node, may act on at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A bot, its routes, or the list of people who may write to it was changed.
    BotChanged { platform: String, bot: String },
    /// An agent announced other commands for a bot.
    CommandsChanged { platform: String, bot: String },
    /// Agents, connectors, aliases, permissions or access tokens of a tenant were changed.
    TenantChanged { tenant: String },
    /// The settings or credentials of an agent were changed, or it was removed.
    AgentChanged { instance: String },
    /// The agents that an author on a platform is linked to were changed.
    AuthorChanged { platform: String, user: String },
    /// A place on a bot, such as a chat, got another owner.
    PlaceChanged { platform: String, bot: String, kind: String, value: String },
    /// A client credential was revoked.
    ClientEnded { client: String },
    /// A login has ended.
    LoginEnded { login: String },
    /// A gateway credential was revoked. Its sockets must close.
    Revoked { gateway: String },
    /// An agent was deleted with everything that belonged to it.
    Removed { instance: String },
    /// Stop one turn of one agent, on whichever node it is connected.
    Interrupt { instance: String, session_key: String, chat: String },
    /// A dead letter of this agent was put back into its queue.
    Redriven { instance: String },
    /// An agent has connected.
    Arrived { instance: String },
}

/// Capacity of a listener's queue. A listener that falls further behind misses the oldest notifications.
const WAITING: usize = 1024;

/// A cloneable handle. Every listener receives every notification sent after it began to listen.
#[derive(Clone, Debug)]
pub struct Bus(broadcast::Sender<Notification>);

/// The receiving end of the bus.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Notification>);

/// The next thing that a listener receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BusEvent {
    Notification(Notification),
    /// Notifications were missed. The listener must reload all data that it caches.
    Missed,
    /// The bus was dropped.
    Closed,
}

impl Bus {
    /// A bus within this process.
    pub fn local() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }

    /// Sends a notification to all listeners. Does nothing when there are none.
    pub fn publish(&self, notification: Notification) {
        let _ = self.0.send(notification);
    }

    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    pub async fn next(&mut self) -> BusEvent {
        match self.0.recv().await {
            Ok(notification) => BusEvent::Notification(notification),
            Err(broadcast::error::RecvError::Lagged(_)) => BusEvent::Missed,
            Err(broadcast::error::RecvError::Closed) => BusEvent::Closed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrived() -> Notification {
        Notification::Arrived { instance: "inst_heron".to_owned() }
    }

    #[tokio::test]
    async fn every_listener_receives_every_notification() {
        let bus = Bus::local();
        let (mut one, mut two) = (bus.listen(), bus.listen());
        bus.publish(arrived());
        assert_eq!(one.next().await, BusEvent::Notification(arrived()));
        assert_eq!(two.next().await, BusEvent::Notification(arrived()));
    }

    #[tokio::test]
    async fn a_listener_that_fell_behind_learns_that_it_missed_something() {
        let bus = Bus::local();
        let mut slow = bus.listen();
        for _ in 0..=WAITING {
            bus.publish(arrived());
        }
        assert_eq!(slow.next().await, BusEvent::Missed);
    }

    #[tokio::test]
    async fn a_bus_that_was_dropped_is_closed() {
        let bus = Bus::local();
        let mut last = bus.listen();
        drop(bus);
        assert_eq!(last.next().await, BusEvent::Closed);
    }
}
