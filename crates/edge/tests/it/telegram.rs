//! The Telegram platform, tested with the vectors and with the stand-in.

mod actors;
mod business;
pub mod health;
mod intake;
mod interactions;
mod lookups;
pub mod media;
mod polling;
mod quotas;
mod registration;
mod sending;
mod staleness;
pub mod test_server;
mod vectors;
