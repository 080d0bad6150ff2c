//! What the stand-in promises, checked from outside with a plain HTTP client.

// Actors unwrap too: a broken promise is a failed test wherever it shows.
#![allow(clippy::unwrap_used)]

mod actors;
mod control;
mod faults;
mod messages;
mod polling;
mod vectors;
mod webhooks;
