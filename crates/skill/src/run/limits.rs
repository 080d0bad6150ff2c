//! Limits of a run: sizes, counts, and the errors when one is reached.

use super::run_error::RunError;
use crate::syntax::excerpt;

const MEBIBYTE: usize = 1024 * 1024;

/// Bounds that no skill can exceed. Reaching one is an `OpError` that names it.
#[derive(Clone, Copy, Debug)]
pub struct RunLimits {
    /// Bytes of one value, or of one text.
    pub value: usize,
    /// Bytes of all variables of one skill together.
    pub variables: usize,
    /// Bytes of the transcript.
    pub transcript: usize,
    /// Bytes of the answer of one tool.
    pub tool_answer: usize,
    /// Bytes of the standard output of one command, and of one file that is read.
    pub standard_output: usize,
    /// Bytes of the records of fallbacks.
    pub fallback_records: usize,
    /// Operations of a run, with those of the skills that it runs.
    pub operations: u64,
    /// Operations that a trace records. Later ones are left out.
    pub traced_operations: usize,
    /// Bytes of all records of a trace, with those of the skills that it runs. Later operations are left out.
    pub trace: usize,
    /// Bytes that one operation reads in references, filters, conditions and the items of a loop.
    pub read: usize,
    /// Filters of one reference.
    pub filters: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            value: 16 * MEBIBYTE,
            variables: 128 * MEBIBYTE,
            transcript: 16 * MEBIBYTE,
            tool_answer: 16 * MEBIBYTE,
            standard_output: 16 * MEBIBYTE,
            fallback_records: 16 * MEBIBYTE,
            operations: 10_000_000,
            traced_operations: 100_000,
            trace: 32 * MEBIBYTE,
            read: 256 * MEBIBYTE,
            filters: 32,
        }
    }
}

/// The error that names a bound of bytes.
pub fn too_large(what: &str, limit: usize) -> RunError {
    let size = if limit.is_multiple_of(MEBIBYTE) {
        format!("{} MiB", limit / MEBIBYTE)
    } else {
        format!("{limit} bytes")
    };
    RunError::op_error(format!("{what} is larger than the limit of {size}"))
        .with_remedy("Handle the data in smaller parts, or keep only the fields that the skill needs")
}

pub fn too_many_filters(name: &str, limit: usize) -> RunError {
    RunError::op_error(format!(
        "the reference to '{}' has more filters than the limit of {limit}",
        excerpt(name)
    ))
    .with_remedy("Keep a value between filters in a variable of its own")
}

pub fn too_many_operations(limit: u64) -> RunError {
    RunError::op_error(format!("the run has more operations than the limit of {limit}"))
        .with_remedy("Look for a loop over too many items, or split the work over several runs")
}
