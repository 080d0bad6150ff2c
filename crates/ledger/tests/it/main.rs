//! Guarantees of the ledger, tested on every backend.

#![allow(clippy::unwrap_used)]

#[macro_use]
mod book;

mod arms;
mod audit;
mod backup;
mod commit;
mod connectors;
mod crash;
mod data;
mod data_database;
mod deprovision;
mod disk;
mod exchanges;
mod full;
mod inbox;
mod invitations;
mod ledger_time;
mod media;
mod open;
mod outbox;
mod person_chats;
mod poison;
mod prompts;
mod prune;
mod reads;
mod receipts;
mod rooms;
mod roster;
mod server_keys;
mod shared_bot;
mod skill_approval;
mod skill_database;
mod skill_runs;
mod skills;
mod sleep;
mod staleness;
mod tenant_limits;
mod tokens;
mod trace;
mod usage;
mod vault;
