//! Admin API: everything under `/admin`.
//!
//! It acts through the planes' handles and owns no state. Invariants:
//!
//! - Every request needs the admin token. The refusal does not reveal whether the path exists.
//! - Every change is recorded before it is answered.
//! - No answer contains a secret, except the one that issues it.
//! - A request body with an unknown field is refused.

mod access;
mod account_names;
mod agents;
mod aliases;
mod approval_keys;
mod audit;
mod auth;
mod backup;
mod bindings;
mod bot_changes;
mod bots;
mod capabilities;
mod claims;
mod clients;
mod connectors;
mod enroll_tokens;
mod env;
mod extract;
mod inbox;
mod invites;
mod jobs;
mod keys;
mod message_chain;
mod messages;
mod problem;
mod receipts;
mod routes;
mod routing;
mod run_settings;
mod staleness;
mod tenants;

pub use auth::AdminApi;
pub use env::{Env, env};
pub use routes::{Backup, ChatPageParts, OPENAPI, OPERATIONS, Parts, routes};
