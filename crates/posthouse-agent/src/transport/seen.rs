//! Deduplication of inbound entries. The server delivers at least once, so the agent recognizes repeats.

use std::collections::{HashMap, VecDeque};

use posthouse_wire::EntryId;

/// Number of remembered entries: many times the largest window, so that a repeat after a reconnect is
/// recognized.
const REMEMBERED: usize = 4096;

/// The last entries that were delivered, and which of them were accepted.
#[derive(Default)]
pub(crate) struct Seen {
    taken: HashMap<EntryId, bool>,
    order: VecDeque<EntryId>,
}

/// State of an entry that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sight {
    New,
    /// The handler is working on it; its acknowledgement will follow.
    InHand,
    /// Accepted before: acknowledge it again, but do not handle it.
    Taken,
}

impl Seen {
    pub(crate) fn meet(&mut self, entry: &EntryId) -> Sight {
        match self.taken.get(entry) {
            Some(true) => return Sight::Taken,
            Some(false) => return Sight::InHand,
            None => {}
        }
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.taken.remove(&oldest);
        }
        self.order.push_back(entry.clone());
        self.taken.insert(entry.clone(), false);
        Sight::New
    }

    pub(crate) fn took(&mut self, entry: &EntryId) {
        if let Some(taken) = self.taken.get_mut(entry) {
            *taken = true;
        }
    }

    /// The handler declined the entry, so its next delivery counts as new.
    pub(crate) fn forget(&mut self, entry: &EntryId) {
        if self.taken.remove(entry).is_some() {
            self.order.retain(|kept| kept != entry);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_new_once_then_in_hand_then_taken() {
        let mut seen = Seen::default();
        let entry = EntryId::new("ent_1");
        assert_eq!(seen.meet(&entry), Sight::New);
        assert_eq!(seen.meet(&entry), Sight::InHand);
        seen.took(&entry);
        assert_eq!(seen.meet(&entry), Sight::Taken);
        seen.forget(&entry);
        assert_eq!(seen.meet(&entry), Sight::New);
    }

    #[test]
    fn memory_is_bounded_and_the_oldest_goes_first() {
        let mut seen = Seen::default();
        let entries: Vec<EntryId> = (0..=REMEMBERED).map(|n| EntryId::from(n.to_string())).collect();
        for entry in &entries {
            seen.meet(entry);
            seen.took(entry);
        }
        assert_eq!(seen.taken.len(), REMEMBERED);
        assert_eq!(seen.meet(&entries[REMEMBERED]), Sight::Taken);
        assert_eq!(seen.meet(&entries[1]), Sight::Taken);
        assert_eq!(seen.meet(&entries[0]), Sight::New);
    }
}
