//! Programs writing to agents.
//!
//! A program names an agent; the post finds it inside the program's own tenant, sends by every connector
//! that knows it, and keeps a receipt of each. It may also ask, and is answered, or told that nobody did.
//!
//! Invariants: whose program it is follows from our record of its credential; a receipt is given only after
//! its commit and says what happened; the same dispatch id over the same text is done once; a question is
//! answered by the agent it was put to and nobody else; a connector's secrets are used through stamps and
//! never seen.

mod address;
mod auth;
mod busy;
mod caller;
mod config;
pub mod connector;
mod conversation;
mod deliver;
mod directory;
mod dispatch;
mod exchange;
mod fault;
mod item;
mod line;
mod metrics;
mod openapi;
mod outgoing;
mod post;
mod receipt;
mod reply;
mod routes;
mod scheduled;
mod waiting;
mod wake;
mod wiring;
pub mod wish;

pub use address::Address;
pub use caller::Caller;
pub use config::Config;
pub use conversation::PLATFORM;
pub use fault::{Fault, Refused, ReplyRefused, Unmade};
pub use metrics::Metrics;
pub use post::{Parts, Post};
pub use receipt::failure;
pub use routes::{OPERATIONS, Operation, routes, told};
pub use wiring::{ConnectorSecrets, Health};
