//! The outer doors: the only code that knows a chat platform.
//!
//! Raw requests are verified over the bytes as they came, normalized into events, stripped of every
//! captured credential, routed and kept; only then does the platform hear a word. Actions go out with
//! the credentials of exactly one bot. This is the only plane that is handed the vault.

mod bots;
mod config;
mod edge;
mod egress;
mod fault;
mod intake;
mod keeping;
mod metrics;
pub mod platform;
mod routes;
pub mod split;
pub mod telegram;
pub mod web;

pub use bots::{Bot, Bots};
pub use config::Config;
pub use edge::{Edge, Parts};
pub use fault::Fault;
pub use intake::{Admitted, Intake};
pub use keeping::{BotDraft, NotKept};
pub use metrics::Metrics;
pub use routes::routes;
