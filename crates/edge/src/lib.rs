//! Chat platforms: verifies and normalizes incoming messages, and sends the actions of agents.
//!
//! This is the only crate that knows a chat platform, and the only plane that gets the vault.
//!
//! - A raw request is verified over its unparsed bytes, normalized into events, stripped of every captured
//!   credential, routed and stored. Only then does the platform get its response.
//! - An action is sent with the credentials of exactly one bot.

mod albums;
mod asked_prompts;
mod bot_health;
mod bot_lifecycle;
mod bots;
mod chat_visibility;
mod config;
mod context_buffer;
mod edge;
mod egress;
mod fault;
mod follow_up;
pub mod forwarding;
mod intake;
mod link_commands;
mod metrics;
mod notices;
mod own_threads;
pub mod platform;
mod routes;
pub mod split;
mod staleness;
pub mod telegram;
pub mod web;

pub use bot_health::BotHealth;
pub use bot_lifecycle::{BotDraft, BotNotChanged};
pub use bots::{Bots, OpenedBot};
pub use config::Config;
pub use edge::{Edge, Parts};
pub use fault::Fault;
pub use follow_up::{FollowUp, FollowedUp};
pub use intake::{DeliveryResult, Intake, IntakeResult};
pub use metrics::Metrics;
pub use routes::{OPENAPI, OPERATIONS, routes};
/// The secrets of a bot.
pub use vault::Credentials;
