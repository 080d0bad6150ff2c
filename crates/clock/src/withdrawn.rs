//! What was cancelled or replaced while a claim of it was on its way back from the ledger.

use std::collections::HashSet;
use std::sync::Arc;

use ledger::ArmKey;
use parking_lot::Mutex;

/// Between the commit of a claim and the moment its arms are held, a withdrawal finds nothing to take
/// back: it is noted here, and whoever receives the claim asks. Keys are never used twice, so a note that
/// nobody asks for does no harm.
#[derive(Clone, Default)]
pub(crate) struct Withdrawn(Arc<Mutex<Notes>>);

#[derive(Default)]
struct Notes {
    claims: usize,
    keys: HashSet<ArmKey>,
}

/// A claim under way: from before it is asked for until all it brought is held or refused.
pub(crate) struct Claiming(Arc<Mutex<Notes>>);

impl Withdrawn {
    pub fn claiming(&self) -> Claiming {
        self.0.lock().claims += 1;
        Claiming(Arc::clone(&self.0))
    }

    /// To be said after a withdrawal has committed, before the arm is looked for among the held. With no
    /// claim under way there is nothing to note: a later one does not find the arm, and what an earlier
    /// one brought is held.
    pub fn note(&self, key: ArmKey) {
        let mut notes = self.0.lock();
        if notes.claims > 0 {
            notes.keys.insert(key);
        }
    }

    /// To be asked after the arm is held: so one of the two sees the other.
    pub fn has(&self, key: ArmKey) -> bool {
        self.0.lock().keys.contains(&key)
    }
}

impl Drop for Claiming {
    fn drop(&mut self) {
        let mut notes = self.0.lock();
        notes.claims -= 1;
        if notes.claims == 0 {
            notes.keys.clear();
        }
    }
}
