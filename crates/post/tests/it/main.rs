//! The post, from outside.

#![allow(clippy::unwrap_used)]

mod asking;
mod bench;
mod conformance;
mod connector_settings;
mod drop;
mod noop;
mod notifying;
mod receipts;
mod receiver;
mod tmux;
mod town;
mod waking;
mod webhook;
mod webhook_vectors;
