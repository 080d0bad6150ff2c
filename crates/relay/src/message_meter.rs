//! Memory limit of incoming WebSocket messages per agent: bytes of incomplete and unprocessed messages.
//!
//! The codec buffers a message until it is complete, and an agent may have several sockets. So the stream below the
//! codec counts what it reads, and ends when the agent holds too much.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Limit of one agent over all its sockets: one message of the greatest length, and half of another.
const PER_AGENT: usize = 12 * 1024 * 1024;
/// Size of one read of the codec. It reads no further than necessary to complete a message, so after a text or binary
/// message it holds less than this.
pub(crate) const READ_AT_ONCE: usize = 2048;
/// Header of a client's control frame: two bytes and the mask.
const CONTROL_HEADER: usize = 6;

/// Meter of one connection. The server adds one to every request and counts with it the bytes that it reads.
#[derive(Clone, Default)]
pub struct MessageMeter(Arc<Meter>);

/// Bytes held by all sockets of one agent.
#[derive(Clone, Default)]
pub(crate) struct AgentMeter(Arc<AtomicUsize>);

#[derive(Default)]
struct Meter {
    /// Bytes read of messages that the codec has not returned yet.
    unfinished: AtomicUsize,
    /// Bytes of complete messages that are not processed yet.
    held: AtomicUsize,
    /// Set once the connection is an agent's socket. Before that, nothing is counted.
    agent: OnceLock<AgentMeter>,
}

impl MessageMeter {
    /// Counts bytes that were read. Returns false when the agent holds too many; then the connection must end.
    pub fn read(&self, bytes: usize) -> bool {
        let Some(AgentMeter(agent)) = self.0.agent.get() else { return true };
        self.0.unfinished.fetch_add(bytes, Ordering::Relaxed);
        agent.fetch_add(bytes, Ordering::Relaxed) + bytes <= PER_AGENT
    }

    /// Records that the codec returned a text or binary message. It now holds no more than its last read.
    pub(crate) fn took_message(&self) {
        let unfinished = self.0.unfinished.load(Ordering::Relaxed);
        self.finished(unfinished.saturating_sub(READ_AT_ONCE));
    }

    /// Records that the codec returned a control frame of this length, which may come between the parts of a message.
    pub(crate) fn took_control(&self, bytes: usize) {
        let unfinished = self.0.unfinished.load(Ordering::Relaxed);
        self.finished((CONTROL_HEADER + bytes).min(unfinished));
    }

    /// Only the connection's own task reads and takes messages, so the count cannot change between load and
    /// subtraction.
    fn finished(&self, bytes: usize) {
        let Some(AgentMeter(agent)) = self.0.agent.get() else { return };
        if bytes > 0 {
            self.0.unfinished.fetch_sub(bytes, Ordering::Relaxed);
            agent.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Records that the connection is a socket of this agent.
    pub(crate) fn joins(&self, agent: &AgentMeter) {
        let _ = self.0.agent.set(agent.clone());
    }

    /// Sets the number of bytes of complete messages that are not processed yet.
    pub(crate) fn holds(&self, bytes: usize) {
        let Some(AgentMeter(agent)) = self.0.agent.get() else { return };
        let before = self.0.held.swap(bytes, Ordering::Relaxed);
        agent.fetch_add(bytes, Ordering::Relaxed);
        agent.fetch_sub(before, Ordering::Relaxed);
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        if let Some(AgentMeter(agent)) = self.agent.get() {
            agent.fetch_sub(*self.unfinished.get_mut() + *self.held.get_mut(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_messages_of_one_agent_share_a_budget_that_another_does_not_feel() {
        let (heron, otter) = (AgentMeter::default(), AgentMeter::default());
        let sockets: Vec<MessageMeter> = (0..3).map(|_| MessageMeter::default()).collect();
        sockets.iter().for_each(|socket| socket.joins(&heron));
        assert!(sockets[0].read(8 << 20));
        assert!(sockets[1].read(4 << 20));
        assert!(!sockets[2].read(1), "the budget is used up");
        let other = MessageMeter::default();
        other.joins(&otter);
        assert!(other.read(8 << 20));
        drop(sockets);
        assert_eq!(heron.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_whole_message_gives_its_bytes_back_save_what_is_still_held() {
        let (heron, socket) = (AgentMeter::default(), MessageMeter::default());
        assert!(socket.read(1 << 30), "nobody's yet");
        socket.joins(&heron);
        assert!(socket.read(8 << 20));
        socket.took_message();
        socket.holds(1 << 20);
        assert_eq!(heron.0.load(Ordering::Relaxed), (1 << 20) + READ_AT_ONCE);
        socket.holds(0);
        assert!(socket.read((12 << 20) - READ_AT_ONCE));
        assert!(!socket.read(1));
    }

    #[test]
    fn a_ping_between_the_parts_of_a_message_gives_back_only_itself() {
        let (heron, socket) = (AgentMeter::default(), MessageMeter::default());
        socket.joins(&heron);
        for part in 1..=11 {
            assert!(socket.read((1 << 20) + CONTROL_HEADER + 4));
            socket.took_control(4);
            assert_eq!(heron.0.load(Ordering::Relaxed), part << 20);
        }
        assert!(!socket.read((1 << 20) + 1));
    }
}
