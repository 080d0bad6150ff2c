//! Integration tests of the admin API.

// Actors unwrap too: a failure there is a failed test.
#![allow(clippy::unwrap_used)]

mod access;
mod agents;
mod aliases;
mod all_or_nothing;
mod audit;
mod bots;
mod clients;
mod connectors;
mod door;
mod inbox;
mod jobs;
mod pigeon;
mod receipts;
mod routing;
mod tenants;
mod test_server;
