//! The clock through its HTTP API: the managed-cron contract, with time driven by hand.

#![allow(clippy::unwrap_used, reason = "in a test, trouble is a failure")]

mod alarm;
mod arming;
mod asking;
mod callback_server;
mod cancelling;
mod external_scheduler;
mod fairness;
mod firing;
mod fixtures;
mod policy;
mod prewake;
mod steps;
