//! What the ledger promises, told on every backend there is.

#![allow(clippy::unwrap_used)]

#[macro_use]
mod book;

mod arms;
mod audit;
mod backup;
mod commit;
mod connectors;
mod crash;
mod disk;
mod exchanges;
mod house_keys;
mod inbox;
mod open;
mod outbox;
mod poison;
mod prune;
mod receipts;
mod rooms;
mod roster;
mod tokens;
mod trace;
mod vault;
