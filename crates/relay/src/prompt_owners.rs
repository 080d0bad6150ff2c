//! Presses of prompts go to the socket that asked.
//!
//! A stock process makes its prompt ids from a number of its own, and swallows a press of any other id. Another process
//! of the same agent would therefore end the question without an answer (relay contract section 9.1).

use std::collections::VecDeque;

use ledger::{Entry, Seq};
use posthouse_time::Instant;
use posthouse_wire::{Action, EntryId, PromptId};

use crate::agent_connections::State;

/// Maximum number of remembered prompts per agent. Beyond it, the oldest is forgotten, and its press goes to the live
/// socket.
const PROMPTS: usize = 1024;
/// Maximum number of remembered presses per socket.
const PRESSES: usize = 256;

/// The sockets that asked the latest prompts of an agent.
#[derive(Default)]
pub(crate) struct PromptOwners(VecDeque<(PromptId, u64)>);

impl PromptOwners {
    /// Records that a socket asks this prompt.
    pub fn asked(&mut self, prompt: &PromptId, socket: u64) {
        if self.0.len() >= PROMPTS {
            self.0.pop_front();
        }
        self.0.push_back((prompt.clone(), socket));
    }

    fn owner(&self, prompt: &PromptId) -> Option<u64> {
        self.0.iter().rev().find(|(known, _)| known == prompt).map(|(_, socket)| *socket)
    }
}

/// A press for a socket that is not the live one, with the line that delivers it.
pub(crate) struct DeliveredPress {
    pub entry: EntryId,
    /// Its position in the ledger, and its size.
    pub place: (Seq, i64),
    pub line: String,
}

/// The presses that a socket got although it was not live. An entry that is read again is not handed over twice.
#[derive(Default)]
pub(crate) struct DeliveredPresses(VecDeque<EntryId>);

impl DeliveredPresses {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, entry: &EntryId) {
        if self.0.len() >= PRESSES {
            self.0.pop_front();
        }
        self.0.push_back(entry.clone());
    }
}

impl State {
    /// Records a request of a socket: what it shows about its turn, and the prompt that it asks.
    pub fn note_request(&mut self, action: &Action, socket: u64, is_ours: bool, now: Instant) {
        self.turns.asked(action, socket, is_ours, now);
        if let Action::Prompt { prompt_id, .. } = action {
            self.prompts.asked(prompt_id, socket);
        }
    }

    /// Hands a press of this prompt to the open socket that asked, if that is another one than `live`. True when `live`
    /// must not deliver it.
    pub fn hand_to_asker(
        &mut self,
        live: u64,
        prompt: &PromptId,
        entry: &Entry,
        line: Option<String>,
    ) -> bool {
        if self.seats.iter().any(|seat| seat.presses.0.contains(&entry.id)) {
            return true;
        }
        let owner = self.prompts.owner(prompt).filter(|owner| *owner != live);
        let Some((owner, line)) = owner.zip(line) else { return false };
        let Some(seat) = self.seat(owner).filter(|seat| !seat.idle && seat.ordered_to_close().is_none())
        else {
            return false;
        };
        seat.presses.add(&entry.id);
        let place = (entry.seq, entry.size());
        seat.hand(DeliveredPress { entry: entry.id.clone(), place, line });
        true
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ledger::EntryTurn;

    use super::*;
    use crate::agent_connections::Role;
    use crate::tests::{connections, heron};

    fn entry(prompt: &str) -> Entry {
        Entry {
            id: EntryId::mint(1),
            seq: Seq(1),
            instance: heron(),
            chat: "c".into(),
            event: Bytes::from_static(b"{}"),
            forward: None,
            album: None,
            stale: None,
            references: Vec::new(),
            turn: EntryTurn { session: 0, pressed: Some(prompt.into()) },
        }
    }

    #[test]
    fn a_press_goes_to_the_open_socket_that_asked_and_to_no_other() {
        let connections = connections();
        let asker = connections.with_live_socket(&heron(), |seat| seat.role = Role::Standby);
        let live = connections.with_live_socket(&heron(), |_| {});
        let agent = connections.of(&heron());
        let hand = |prompt: &str, entry: &Entry| {
            agent.state.lock().hand_to_asker(live, &prompt.into(), entry, Some("the press".to_owned()))
        };
        agent.state.lock().prompts.asked(&"p1".into(), asker);
        agent.state.lock().prompts.asked(&"p2".into(), live);
        assert!(!hand("p2", &entry("p2")), "the live socket asked");
        assert!(!hand("p3", &entry("p3")), "nobody here asked");
        let first = entry("p1");
        assert!(hand("p1", &first));
        assert!(hand("p1", &first), "it is not handed over twice");
        assert_eq!(connections.orders_of(&heron(), asker).0, ["the press"]);
        assert_eq!(connections.orders_of(&heron(), live).0, Vec::<String>::new());
        agent.state.lock().seat(asker).unwrap().close(1000, "bye");
        assert!(!hand("p1", &entry("p1")), "the asker is about to close");
        agent.state.lock().remove(asker, Default::default());
        assert!(agent.state.lock().rewound, "the live socket reads it again");
        assert!(!hand("p1", &first), "and delivers it");
    }

    #[test]
    fn what_is_remembered_of_prompts_is_bounded() {
        let mut owners = PromptOwners::default();
        for number in 0..PROMPTS + 10 {
            owners.asked(&format!("p{number}").into(), 7);
        }
        assert_eq!(owners.0.len(), PROMPTS);
        assert_eq!((owners.owner(&"p0".into()), owners.owner(&"p20".into())), (None, Some(7)));
    }
}
