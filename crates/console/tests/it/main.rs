//! The admin API as its operator meets it.

// Actors unwrap too: a broken promise is a failed test wherever it shows.
#![allow(clippy::unwrap_used)]

mod agents;
mod bots;
mod clients;
mod door;
mod house;
mod inbox;
mod pigeon;
mod routing;
