//! Word between nodes.
//!
//! The ledger is the truth; the bus only hurries. Nothing is acknowledged on its strength, and a word
//! that is lost costs time, never a message. [`Bus::local`] is the whole of it in a house of one node.

use tokio::sync::broadcast;

/// Something that another part of the house, or another node, may want to act on at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// Routes, bots or agents were changed: what was remembered of them may be stale.
    RosterChanged,
    /// A gateway credential has ended: its sockets must close.
    Revoked { gateway: String },
    /// An agent is gone, with everything it had.
    Removed { instance: String },
    /// Stop one turn of one agent, wherever its seat is.
    Interrupt { instance: String, session_key: String, chat: String },
    /// A dead letter of this agent is back in line.
    Redriven { instance: String },
    /// An agent has dialed in.
    Arrived { instance: String },
}

/// Words that may wait for one slow listener; past that it misses the oldest.
const WAITING: usize = 1024;

/// A handle to share; every listener hears every word said after it began to listen.
#[derive(Clone, Debug)]
pub struct Bus(broadcast::Sender<Word>);

/// One listener's ear.
#[derive(Debug)]
pub struct Listener(broadcast::Receiver<Word>);

/// What a listener hears next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    Word(Word),
    /// Words were missed: whatever is remembered must be looked up again.
    Missed,
    /// The bus is gone.
    Silence,
}

impl Bus {
    /// A bus within this process.
    pub fn local() -> Self {
        Self(broadcast::Sender::new(WAITING))
    }

    /// Tells whoever listens; nobody listening is fine.
    pub fn tell(&self, word: Word) {
        let _ = self.0.send(word);
    }

    pub fn listen(&self) -> Listener {
        Listener(self.0.subscribe())
    }
}

impl Listener {
    pub async fn hear(&mut self) -> Heard {
        match self.0.recv().await {
            Ok(word) => Heard::Word(word),
            Err(broadcast::error::RecvError::Lagged(_)) => Heard::Missed,
            Err(broadcast::error::RecvError::Closed) => Heard::Silence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_listener_hears_every_word() {
        let bus = Bus::local();
        let (mut one, mut two) = (bus.listen(), bus.listen());
        bus.tell(Word::RosterChanged);
        assert_eq!(one.hear().await, Heard::Word(Word::RosterChanged));
        assert_eq!(two.hear().await, Heard::Word(Word::RosterChanged));
    }

    #[tokio::test]
    async fn a_listener_that_fell_behind_learns_that_it_missed_something() {
        let bus = Bus::local();
        let mut slow = bus.listen();
        for _ in 0..=WAITING {
            bus.tell(Word::RosterChanged);
        }
        assert_eq!(slow.hear().await, Heard::Missed);
    }

    #[tokio::test]
    async fn a_bus_that_is_gone_is_silent() {
        let bus = Bus::local();
        let mut last = bus.listen();
        drop(bus);
        assert_eq!(last.hear().await, Heard::Silence);
    }
}
