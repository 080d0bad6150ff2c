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
}

impl ReservedMemory {
    pub fn new(of: Option<Arc<dyn RunMemory>>) -> Self {
        Self { of, reserved: 0, wanted: 0 }
    }

    /// Follows what the skill holds now. An operation that adds a step fails if the budget has no room. Others go on, so
    /// that an error block can still report.
    pub fn hold(&mut self, bytes: usize) -> Result<(), RunError> {
        let Some(of) = &self.of else { return Ok(()) };
        let wanted = if bytes < STEP { 0 } else { bytes.next_multiple_of(STEP) };
        let has_grown = wanted > std::mem::replace(&mut self.wanted, wanted);
        if wanted <= self.reserved {
            of.release(self.reserved - wanted);
            self.reserved = wanted;
            return Ok(());
        }
        match of.reserve(wanted - self.reserved) {
            Ok(()) => {
                self.reserved = wanted;
                Ok(())
            }
            Err(MemoryRefusal { what, limit }) if has_grown => Err(too_large(what, limit)),
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
