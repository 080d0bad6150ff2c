//! Chat platforms: verifies and normalizes incoming messages, and sends the actions of agents.
//!
//! This is the only crate that knows a chat platform, and the only plane that gets the vault.
//!
//! - A raw request is verified over its unparsed bytes, normalized into events, stripped of every captured
//!   credential, routed and stored. Only then does the platform get its response.
//! - An action is sent with the credentials of exactly one bot.

mod albums;
mod announced_commands;
mod asked_prompts;
mod attachments;
mod bot_health;
mod bot_lifecycle;
mod bot_uses;
mod bots;
mod chat_capabilities;
mod chat_visibility;
mod config;
mod context_buffer;
pub mod discord;
mod edge;
mod edit_streams;
mod egress;
mod event_feed;
mod fault;
pub mod feishu;
mod follow_up;
pub mod forwarding;
mod intake;
mod known_people;
pub mod light_markup;
mod link_commands;
mod mapped_hosts;
mod markdown_source;
pub mod matrix;
mod metrics;
mod notices;
mod own_threads;
pub mod platform;
pub mod platform_calls;
pub mod platforms;
mod refused_credentials;
mod routes;
mod safe_html;
pub mod slack;
pub mod split;
mod split_limits;
mod staleness;
pub mod telegram;
pub mod twilio;
pub mod verification;
pub mod web;
pub mod webhook;
pub mod wecom;
pub mod whatsapp;

pub use bot_health::BotHealth;
pub use bot_lifecycle::{BotDraft, BotNotChanged, MissingField};
pub use bots::{Bots, OpenedBot};
pub use config::Config;
pub use edge::{Edge, Parts};
pub use edit_streams::EditLimits;
pub use event_feed::{EventFeed, FeedEnd, keep_open};
pub use fault::Fault;
pub use follow_up::{FollowUp, FollowedUp};
pub use intake::{DeliveryResult, Intake, IntakeResult};
pub use mapped_hosts::MappedHosts;
pub use metrics::Metrics;
pub use routes::{OPENAPI, OPERATIONS, routes};
/// The secrets of a bot.
pub use vault::Credentials;
