//! Relay connections of agents: sockets, inbox, delivery, acknowledgement, actions, wake calls.
//!
//! An agent opens a WebSocket with a gateway credential and sends a hello for each identity that it serves. Its inbox
//! entries are delivered oldest first, and each stays stored until the agent acknowledges it. Every action that the
//! agent requests is checked against the server's records and answered once.
//!
//! Invariants: tenant and instance come from the stored record of the credential, never from a frame; every lookup by
//! session key also names the instance; nothing is acknowledged before its commit.

mod ack_waiters;
mod actions;
mod admission;
mod agent_connections;
mod config;
mod egress;
mod fair_queue;
mod fault;
mod final_reply;
mod fires;
mod frame_rate_limit;
mod full_inboxes;
mod generation;
mod inbox;
mod interrupt;
mod long_lines;
mod message_meter;
mod metrics;
mod relay;
mod route_removal;
mod routes;
mod seats;
mod socket;
mod stop;
mod stream_cursor;
mod turns;
mod wake_calls;

pub use admission::{Admission, Entrant, StopRule};
pub use config::Config;
pub use egress::{Carried, Egress, Order};
pub use fault::Fault;
pub use final_reply::{FinalReply, FinalReplyStream};
pub use fires::{Arrivals, Said};
pub use generation::Proof;
pub use message_meter::MessageMeter;
pub use metrics::Metrics;
pub use relay::{Parts, Relay};
pub use routes::routes;
pub use seats::{Connection, Presence};
pub use stop::STOP;
pub use stream_cursor::STOCK_CURSOR;
