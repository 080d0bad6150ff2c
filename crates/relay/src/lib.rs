//! Agents on the line.
//!
//! An agent dials in with a gateway credential and says hello for the identities it fronts. What is
//! kept for it is handed over oldest first and forgotten only when it acknowledges; what it asks to be
//! done is checked against our records and answered once.
//!
//! Invariants: tenant and instance come from the stored record of the credential, never from a frame;
//! every lookup by session key also names the instance; nothing is acknowledged before its commit.

mod actions;
mod auth;
mod clients;
mod config;
mod desk;
mod egress;
mod enrol;
mod fault;
mod fires;
mod gate;
mod inbox;
mod interrupt;
mod last_word;
mod metrics;
mod oauth;
mod program;
mod relay;
mod rouse;
mod route;
mod routes;
mod seats;
mod socket;
mod taken;

pub use auth::{Caller, bearer};
pub use config::Config;
pub use egress::{Carried, Egress, Order};
pub use enrol::{Enrolled, Enrolment, NotEnrolled};
pub use fault::Fault;
pub use fires::{Arrivals, Said};
pub use gate::{Admission, Entrant};
pub use last_word::{LastWord, Speaking};
pub use metrics::Metrics;
pub use oauth::LOGIN_SCOPE;
pub use program::{Presented, Program};
pub use relay::{Parts, Relay, RosterWatch};
pub use route::Bearings;
pub use routes::routes;
pub use seats::Presence;
pub use vault::{BOOTSTRAP_CLIENT, Login};
