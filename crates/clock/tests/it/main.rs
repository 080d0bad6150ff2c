//! The clock through its door: sentences of the managed-cron contract, time wound by hand.

#![allow(clippy::unwrap_used, reason = "in a test, trouble is a failure")]

mod agent;
mod alarm;
mod arming;
mod asking;
mod firing;
mod outside;
mod policy;
mod prewake;
mod steps;
mod town;
mod withdrawing;
