//! Tests of the transport against a server scripted frame by frame, and of the adapter against one in
//! memory.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod adapter;
mod connection;
mod cron;
mod idle;
mod inbound;
mod jobs;
mod newer_ops;
mod outbound;
mod post;
mod posted;
mod race;
mod schedule;
mod sheds_verification;
mod streaming;
mod test_server;
mod tls;
