//! Managed cron, the agent's side.

pub mod schedule;
