//! Managed cron: a job set on an agent that is switched off still runs, at its second, once.
//!
//! An agent arms one call a job; the clock keeps it durably, calls back at that instant with a token of
//! its own making, and tries again until the agent has taken it. It is called for nothing else. Other planes
//! set alarms here for themselves, which ring a bell they hung; no agent sees those.
//!
//! Invariants: an arm is answered for only after its commit; a fire is never early, whatever becomes of
//! the wall clock; one that the agent has taken is not made again; after a cancel or a newer arm was
//! answered no attempt of the older one begins; whose job it is follows from our record of the
//! credential, never from a body.

mod alarm;
mod arm;
mod auth;
mod bell;
mod callback;
mod clock;
mod config;
mod crowd;
mod due;
mod fault;
mod fire;
mod heap;
mod line;
mod metrics;
mod mint;
mod missed;
mod operator;
mod outside;
mod pace;
mod prewake;
mod retry;
mod routes;
mod withdrawn;

pub use alarm::Alarm;
pub use bell::{Bell, Rung};
pub use clock::{Clock, Parts};
pub use config::Config;
pub use fault::Fault;
pub use metrics::Metrics;
pub use operator::{ByHand, JobFilter, JobStanding};
pub use routes::{routes, told};
/// What the operator is told of the keys.
pub use vault::{Algorithm, KeyStanding};
