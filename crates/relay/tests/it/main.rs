//! The relay tested from both ends: events come in on one side, gateways connect on the other.

#![allow(clippy::unwrap_used, reason = "in a test, trouble is a failure")]

mod attachments;
mod closing;
mod delivery;
mod dialing;
mod failing_inbox;
mod follow_up;
mod foreign_urls;
mod framing;
mod gateway;
mod guard;
mod hello;
mod hold_back;
mod idle;
mod interactions;
mod interrupts;
mod lease;
mod limits;
mod media;
mod outbound;
mod quotas;
mod recorder;
mod repeats;
mod routing;
mod seam;
mod seats;
mod sleep;
mod staleness;
mod state_machine;
mod stops;
mod test_server;
mod unrouted;
mod vectors;
mod wake;
mod wall_clock;
