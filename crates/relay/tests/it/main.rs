//! The relay from both ends: events go in at one, raw gateways dial in at the other.

#![allow(clippy::unwrap_used, reason = "in a test, trouble is a failure")]

mod closing;
mod delivery;
mod dialing;
mod framing;
mod gateway;
mod guard;
mod hello;
mod house;
mod idle;
mod interrupts;
mod lease;
mod limits;
mod oauth;
mod outbound;
mod program;
mod recorder;
mod repeats;
mod routing;
mod seam;
mod seats;
mod wake;
mod weight;
