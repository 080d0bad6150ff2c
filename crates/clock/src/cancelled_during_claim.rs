//! Arms that were cancelled or replaced during a claim.

use std::sync::Arc;

use foldhash::HashSet;
use ledger::ArmKey;
use parking_lot::Mutex;

/// Keys of arms that were cancelled or replaced during a claim.
///
/// Between the commit of a claim and the time when its arms are held, a cancellation does not find the arm among
/// the held ones. It is noted here, and the receiver of the claim checks the note. Keys are never reused, so an
/// unused note is harmless.
#[derive(Clone, Default)]
pub(crate) struct CancelledDuringClaim(Arc<Mutex<CancelledKeys>>);

#[derive(Default)]
struct CancelledKeys {
    claims: usize,
    keys: HashSet<ArmKey>,
}

/// A claim in progress, from before its request until all its arms are held or dropped.
pub(crate) struct Claiming(Arc<Mutex<CancelledKeys>>);

impl CancelledDuringClaim {
    pub fn claiming(&self) -> Claiming {
        self.0.lock().claims += 1;
        Claiming(Arc::clone(&self.0))
    }

    /// Notes a cancellation. Call it after the commit, and before removing the arm from the held ones. Without a
    /// claim in progress nothing is noted: a later claim does not find the arm, and the arms of an earlier one
    /// are already held.
    pub fn note(&self, key: ArmKey) {
        let mut notes = self.0.lock();
        if notes.claims > 0 {
            notes.keys.insert(key);
        }
    }

    /// Whether the arm was cancelled. Call it after the arm is held: then either this check or the cancellation
    /// sees the other.
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
