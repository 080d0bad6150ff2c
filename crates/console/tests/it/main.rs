//! The admin API as its operator meets it.

// Actors unwrap too: a broken promise is a failed test wherever it shows.
#![allow(clippy::unwrap_used)]

mod agents;
mod aliases;
mod audit;
mod bots;
mod clients;
mod connectors;
mod door;
mod house;
mod inbox;
mod pigeon;
mod receipts;
mod routing;
mod tenants;
