//! The contracts against recorded truths, hostile peers and themselves.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod hostile;
mod peers_view;
mod round_trip;
mod session_keys;
mod tokens;
mod vectors;
