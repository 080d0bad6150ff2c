//! Tests of the skill language with recorded vectors.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod approval_vectors;
mod content_hash_vectors;
mod footprint_vectors;
mod header_vectors;
mod recorded;
mod status_vectors;
