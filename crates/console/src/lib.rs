//! The operator's door: everything under `/admin`.
//!
//! It acts through the planes' handles and owns no state. Invariants: nothing is answered without the
//! admin token, and what is refused without it looks the same whether it exists or not; every change is on
//! record before it is answered; no answer holds a secret but the one that hands it out; a request body with
//! a field we do not know is refused.

mod agents;
mod aliases;
mod audit;
mod auth;
mod backup;
mod bots;
mod clients;
mod connectors;
mod env;
mod inbox;
mod invites;
mod jobs;
mod keys;
mod listing;
mod messages;
mod problem;
mod receipts;
mod routes;
mod routing;
mod tenants;
mod told;

pub use auth::{AdminToken, unauthorized};
pub use env::{Env, env};
pub use routes::{Backup, Guests, OPERATIONS, Operation, Parts, WakeUrlCheck, routes};
