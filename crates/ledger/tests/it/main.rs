//! What the ledger promises, told on every backend there is.

#![allow(clippy::unwrap_used)]

#[macro_use]
mod book;

mod backup;
mod commit;
mod crash;
mod disk;
mod inbox;
mod open;
mod outbox;
mod poison;
mod prune;
mod rooms;
mod roster;
mod trace;
mod vault;
