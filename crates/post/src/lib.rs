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
mod answer_collector;
mod answers;
mod answers_in_progress;
mod background;
mod caller;
mod callers;
mod config;
pub mod connector;
mod connector_admin;
mod conversations;
mod deadlines;
mod directory;
mod dispatch;
mod dispatcher;
mod fault;
mod http_replies;
mod messages;
mod metrics;
mod post;
mod questions;
mod receipt;
mod receipt_views;
mod reply_url;
pub mod requests;
mod retries;
mod routes;
mod scheduled_wakes;
mod tenant_limit;
mod tenant_quotas;
mod tenant_rounds;
#[cfg(test)]
mod tests;

pub use address::Address;
pub use answers::Answers;
pub use caller::Caller;
pub use callers::{CallerRefusal, Callers};
pub use config::Config;
pub use connector_admin::{ConnectorAdmin, ConnectorHealth, ConnectorSecrets};
pub use conversations::Conversations;
pub use conversations::names::PLATFORM;
pub use directory::Directory;
pub use fault::{ConnectorNotCreated, Fault, Refused, ReplyRefused};
pub use http_replies::HttpReplies;
pub use messages::Messages;
pub use metrics::Metrics;
pub use post::{Parts, Post};
pub use questions::Questions;
pub use receipt::failure;
pub use receipt_views::ReceiptViews;
pub use routes::{OPENAPI, OPERATIONS, ProgramCall, render_receipt, routes};
