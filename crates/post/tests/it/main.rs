//! The post, from outside.

#![allow(clippy::unwrap_used)]

mod asking;
mod barred;
mod bench;
mod conformance;
mod connector_settings;
mod drop;
mod foreign_answers;
mod log;
mod noop;
mod notifying;
mod receipts;
mod receiver;
mod retries;
mod second_looks;
mod tmux;
mod town;
mod waking;
mod webhook;
mod webhook_vectors;
