//! HTTP API and connectors by which programs send messages, wakes and questions to agents.
//!
//! A program names an agent. The post looks it up in the program's own tenant, sends by every connector that
//! knows the agent, and stores one receipt per connector. A question waits for the agent's answer until its
//! deadline.
//!
//! Invariants:
//!
//! - The tenant of a caller follows from our record of its credential, never from the request.
//! - A receipt is returned only after its commit, and it states what happened.
//! - The same dispatch id with the same text is carried out once.
//! - Only the agent that was asked can answer a question.
//! - Connectors sign with their secrets through `vault::WebhookSigner` and never see them.

mod address;
mod auth;
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
mod metrics;
mod outgoing;
mod post;
mod receipt;
mod relay_path;
mod reply;
pub mod requests;
mod routes;
mod scheduled;
mod streamed;
mod tenant_limit;
mod tenant_rounds;
mod tenant_turns;
mod waiting;
mod wake;
mod wiring;
mod writing;

pub use address::Address;
pub use caller::Caller;
pub use config::Config;
pub use conversation::PLATFORM;
pub use fault::{Fault, Refused, ReplyRefused, Unmade};
pub use metrics::Metrics;
pub use post::{Parts, Post};
pub use receipt::failure;
pub use routes::{OPENAPI, OPERATIONS, routes, told};
pub use wiring::{ConnectorSecrets, Health};
