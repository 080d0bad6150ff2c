//! Deduplication of inbound entries. The server delivers at least once, so the agent recognizes repeats.

use std::collections::{HashMap, VecDeque};

use posthouse_wire::EntryId;

/// Number of remembered entries: many times the largest window, so that a repeat after a reconnect is
/// recognized.
const REMEMBERED: usize = 4096;

/// The last entries that were delivered, and which of them were accepted.
#[derive(Default)]
pub(crate) struct SeenEntries {
    accepted: HashMap<EntryId, bool>,
    order: VecDeque<EntryId>,
}

/// State of an entry that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntryState {
    New,
    /// The handler is working on it; its acknowledgement will follow.
    InProgress,
    /// Accepted before: acknowledge it again, but do not handle it.
    Accepted,
}

impl SeenEntries {
    pub(crate) fn check(&mut self, entry: &EntryId) -> EntryState {
        match self.accepted.get(entry) {
            Some(true) => return EntryState::Accepted,
            Some(false) => return EntryState::InProgress,
            None => {}
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.accepted.remove(&oldest);
        }
        self.order.push_back(entry.clone());
        self.accepted.insert(entry.clone(), false);
        EntryState::New
    }

    pub(crate) fn accept(&mut self, entry: &EntryId) {
        if let Some(accepted) = self.accepted.get_mut(entry) {
            *accepted = true;
        }
    }

    /// The handler declined the entry, so its next delivery counts as new.
    pub(crate) fn forget(&mut self, entry: &EntryId) {
        if self.accepted.remove(entry).is_some() {
            self.order.retain(|kept| kept != entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_new_once_then_in_hand_then_taken() {
        let mut seen = SeenEntries::default();
        let entry = EntryId::new("ent_1");
        assert_eq!(seen.check(&entry), EntryState::New);
        assert_eq!(seen.check(&entry), EntryState::InProgress);
        seen.accept(&entry);
        assert_eq!(seen.check(&entry), EntryState::Accepted);
        seen.forget(&entry);
        assert_eq!(seen.check(&entry), EntryState::New);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut seen = SeenEntries::default();
        let entries: Vec<EntryId> = (0..=REMEMBERED).map(|n| EntryId::from(n.to_string())).collect();
        for entry in &entries {
            seen.check(entry);
            seen.accept(entry);
        }
        assert_eq!(seen.accepted.len(), REMEMBERED);
        assert_eq!(seen.check(&entries[REMEMBERED]), EntryState::Accepted);
        assert_eq!(seen.check(&entries[1]), EntryState::Accepted);
        assert_eq!(seen.check(&entries[0]), EntryState::New);
    }
}
