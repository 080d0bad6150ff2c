//! Shared memory of runs: a budget of bytes for everything that several runs hold together.

use std::fmt;
use std::sync::Arc;

use super::limits::too_large;
use super::run_error::RunError;

/// Runs reserve in steps of this size. A skill that holds less than one step reserves nothing.
const STEP: usize = 256 * 1024;

/// A budget that several runs share. The host decides who shares it.
pub trait RunMemory: fmt::Debug + Send + Sync {
    fn reserve(&self, bytes: usize) -> Result<(), MemoryRefusal>;
    fn release(&self, bytes: usize);
}

/// A budget that is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryRefusal {
    /// What the budget is for, for the message of the error.
    pub what: &'static str,
    pub limit: usize,
}

/// What one running skill has reserved. Dropping it gives the bytes back.
#[derive(Debug, Default)]
pub struct ReservedMemory {
    of: Option<Arc<dyn RunMemory>>,
    reserved: usize,
    /// What the skill needed after the last operation.
    wanted: usize,
    /// Whether the budget has refused what the skill holds now.
    is_refused: bool,
}

impl ReservedMemory {
    pub fn new(of: Option<Arc<dyn RunMemory>>) -> Self {
        Self { of, reserved: 0, wanted: 0, is_refused: false }
    }

    /// Follows what the skill holds now. An operation that adds a step fails if the budget has no room. Others go on, so
    /// that an error block can still report. A skill that grows further, although it was refused, ends.
    pub fn hold(&mut self, bytes: usize) -> Result<(), RunError> {
        let Some(of) = &self.of else { return Ok(()) };
        let wanted = if bytes < STEP { 0 } else { bytes.next_multiple_of(STEP) };
        let before = std::mem::replace(&mut self.wanted, wanted);
        // Most operations change nothing, and must not ask the budget that all runs share.
        if wanted == before && (wanted == self.reserved || self.is_refused) {
            return Ok(());
        }
        if wanted <= self.reserved {
            of.release(self.reserved - wanted);
            (self.reserved, self.is_refused) = (wanted, false);
            return Ok(());
        }
        match of.reserve(wanted - self.reserved) {
            Ok(()) => {
                (self.reserved, self.is_refused) = (wanted, false);
                Ok(())
            }
            Err(MemoryRefusal { what, limit }) if wanted > before => {
                let grows_again = std::mem::replace(&mut self.is_refused, true);
                let refused = too_large(what, limit);
                Err(if grows_again { refused.ending_run() } else { refused })
            }
            Err(_) => Ok(()),
        }
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        if let Some(of) = self.of.take() {
            of.release(self.reserved);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct NoRoom;

    impl RunMemory for NoRoom {
        fn reserve(&self, _: usize) -> Result<(), MemoryRefusal> {
            Err(MemoryRefusal { what: "the memory of all runs", limit: 1024 })
        }

        fn release(&self, _: usize) {}
    }

    #[test]
    fn a_skill_that_grows_although_it_was_refused_ends() {
        let mut memory = ReservedMemory::new(Some(Arc::new(NoRoom)));
        let refused = memory.hold(STEP).unwrap_err();
        assert!(!refused.ends_run(), "an error block can report it");
        assert!(memory.hold(STEP).is_ok(), "so the operations of that block go on");
        assert!(memory.hold(2 * STEP).unwrap_err().ends_run());
        // What holds less again may fail once more.
        assert!(memory.hold(0).is_ok());
        assert!(!memory.hold(STEP).unwrap_err().ends_run());
    }
}
