//! Integration tests of the post.

#![allow(clippy::unwrap_used)]

mod asking;
mod barred;
mod bench;
mod clock_steps;
mod conformance;
mod connector_settings;
mod drop;
mod fair_share;
mod foreign_answers;
mod full_inbox;
mod log;
mod noop;
mod notifying;
mod precise;
mod quotas;
mod receipts;
mod receiver;
mod retries;
mod second_looks;
mod storage;
mod streamed;
mod test_server;
mod tmux;
mod waking;
mod webhook;
mod webhook_vectors;
