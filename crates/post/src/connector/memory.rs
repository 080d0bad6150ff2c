//! What outlasts a connector. Connectors are opened anew every few seconds from their records, and some things must
//! not begin anew with them: what the log was told already, and who is still held up in a directory.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// How much is remembered of what was told. More than the answers that are looked for in one round: were it less, all
/// of them could be told again in every round.
const REMEMBERED: usize = 4096;
/// How many may be at work in one directory.
const HANDS: usize = 4;

/// One house's memory of its connectors; a handle to share.
#[derive(Clone, Default)]
pub struct Memory(Arc<Inner>);

#[derive(Default)]
struct Inner {
    told: Mutex<Told>,
    at_work: Mutex<HashMap<PathBuf, Weak<Semaphore>>>,
}

/// The same things twice: to look them up, and in the order of their coming.
#[derive(Default)]
struct Told {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl Memory {
    /// Whether this is to be told: true the first time. The oldest is forgotten when there is too much of it.
    pub(super) fn is_new(&self, what: String) -> bool {
        let mut told = self.0.told.lock();
        if !told.known.insert(what.clone()) {
            return false;
        }
        told.order.push_back(what);
        if told.order.len() > REMEMBERED
            && let Some(oldest) = told.order.pop_front()
        {
            told.known.remove(&oldest);
        }
        true
    }

    /// Who may be at work in this directory. It is the same for as long as anybody is, whichever connector sent them.
    pub(super) fn hands(&self, dir: &Path) -> Arc<Semaphore> {
        let mut at_work = self.0.at_work.lock();
        if let Some(hands) = at_work.get(dir).and_then(Weak::upgrade) {
            return hands;
        }
        at_work.retain(|_, hands| hands.strong_count() > 0);
        let hands = Arc::new(Semaphore::new(HANDS));
        at_work.insert(dir.to_owned(), Arc::downgrade(&hands));
        hands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_told_once_until_there_was_too_much_since() {
        let memory = Memory::default();
        assert!(memory.is_new("first".to_owned()));
        for number in 1..REMEMBERED {
            assert!(memory.is_new(number.to_string()));
            assert!(!memory.is_new("first".to_owned()) && !memory.is_new(number.to_string()));
        }
        assert!(memory.is_new("one too many".to_owned()));
        assert!(memory.is_new("first".to_owned()));
        assert!(memory.0.told.lock().known.len() <= REMEMBERED);
    }

    #[test]
    fn whoever_is_held_up_in_a_directory_is_counted_after_its_connector_is_gone() {
        let memory = Memory::default();
        let dir = Path::new("/srv/drops/desk");
        let held = memory.hands(dir).try_acquire_owned().unwrap();
        assert_eq!(memory.hands(dir).available_permits(), HANDS - 1);
        assert_eq!(memory.hands(Path::new("/srv/drops/other")).available_permits(), HANDS);
        drop(held);
        assert_eq!(memory.hands(dir).available_permits(), HANDS);
        assert!(memory.0.at_work.lock().len() <= 2);
    }
}
