//! Tests of the stand-ins from outside, with plain HTTP and WebSocket clients.

// Actors unwrap too: any wrong answer fails the test.
#![allow(clippy::unwrap_used)]

mod actors;
mod control;
mod discord;
mod discord_gateway;
mod faults;
mod messages;
mod polling;
mod slack;
mod twilio;
mod vectors;
mod webhooks;
mod whatsapp;
