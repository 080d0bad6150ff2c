//! Tests of the contracts: recorded vectors, hostile input and round trips.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on may panic")]

mod hostile;
mod peers_view;
mod release_0_20;
mod round_trip;
mod session_keys;
mod tokens;
mod vectors;
