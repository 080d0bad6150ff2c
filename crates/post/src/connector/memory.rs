//! State that outlives connectors: warnings already logged, and file operations that still run.
//!
//! Connectors are rebuilt from their records every few seconds. This state must not be reset with them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use ledger::{FileThreads, TenantFileThreads};
use parking_lot::Mutex;
use posthouse_wire::TenantId;
use tokio::sync::Semaphore;

/// Number of remembered warnings. It exceeds the number of answers polled for in one round; otherwise all of them
/// could be logged again in every round.
const REMEMBERED: usize = 4096;
/// The largest number of concurrent operations in one directory.
const HANDS: usize = 4;

/// The shared state of all connectors of this server. A cheap handle to clone.
#[derive(Clone, Default)]
pub struct ConnectorMemory(Arc<SharedMemory>);

#[derive(Default)]
struct SharedMemory {
    logged: Mutex<LoggedWarnings>,
    at_work: Mutex<HashMap<PathBuf, Weak<Semaphore>>>,
    /// Threads for drop directories, by tenant.
    threads: TenantFileThreads,
}

/// Logged warnings, as a set and in order of arrival.
#[derive(Default)]
struct LoggedWarnings {
    known: HashSet<String>,
    order: VecDeque<String>,
}

impl ConnectorMemory {
    /// True the first time for each text. The oldest text is forgotten when there are too many.
    pub(super) fn is_new(&self, what: String) -> bool {
        let mut logged = self.0.logged.lock();
        if !logged.known.insert(what.clone()) {
            return false;
        }
        logged.order.push_back(what);
        if logged.order.len() > REMEMBERED
            && let Some(oldest) = logged.order.pop_front()
        {
            logged.known.remove(&oldest);
        }
        true
    }

    /// The permits for operations in this directory. All connectors share them while any operation runs.
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

    /// The threads for this tenant's drop directories.
    pub(super) fn threads(&self, of: &TenantId) -> Arc<FileThreads> {
        self.0.threads.of(of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_logged_once_until_too_many_others_follow() {
        let memory = ConnectorMemory::default();
        assert!(memory.is_new("first".to_owned()));
        for number in 1..REMEMBERED {
            assert!(memory.is_new(number.to_string()));
            assert!(!memory.is_new("first".to_owned()) && !memory.is_new(number.to_string()));
        }
        assert!(memory.is_new("one too many".to_owned()));
        assert!(memory.is_new("first".to_owned()));
        assert!(memory.0.logged.lock().known.len() <= REMEMBERED);
    }

    #[test]
    fn whoever_is_held_up_in_a_directory_is_counted_after_its_connector_is_gone() {
        let memory = ConnectorMemory::default();
        let dir = Path::new("/srv/drops/desk");
        let held = memory.hands(dir).try_acquire_owned().unwrap();
        assert_eq!(memory.hands(dir).available_permits(), HANDS - 1);
        assert_eq!(memory.hands(Path::new("/srv/drops/other")).available_permits(), HANDS);
        drop(held);
        assert_eq!(memory.hands(dir).available_permits(), HANDS);
        assert!(memory.0.at_work.lock().len() <= 2);
    }
}
