//! Tests of the stand-in from outside, with a plain HTTP client.

// Actors unwrap too: any wrong answer fails the test.
#![allow(clippy::unwrap_used)]

mod actors;
mod control;
mod faults;
mod messages;
mod polling;
mod vectors;
mod webhooks;
