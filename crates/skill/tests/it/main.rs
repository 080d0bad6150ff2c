//! Tests of the skill language with recorded vectors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod approval_vectors;
mod compile_rules;
mod compile_vectors;
mod content_hash_vectors;
mod exchange_rules;
mod footprint_vectors;
mod format_vectors;
mod header_vectors;
mod lint_vectors;
mod parse_vectors;
mod recorded;
mod run_limits;
mod run_rules;
mod run_vectors;
mod running;
mod status_vectors;
mod trigger_vectors;
