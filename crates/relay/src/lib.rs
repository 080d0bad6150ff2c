//! Relay connections of agents: sockets, inbox, delivery, acknowledgement, actions, wake calls.
//!
//! An agent opens a WebSocket with a gateway credential and sends a hello for each bot that it serves. Its inbox
//! entries are delivered oldest first, and each stays stored until the agent acknowledges it. Every action that the
//! agent requests is checked against the server's records and answered once.
//!
//! Invariants: tenant and instance come from the stored record of the credential, never from a frame; every lookup by
//! session key also names the instance; nothing is acknowledged before its commit.

mod acknowledgements;
mod actions;
mod admission;
mod agent_connections;
mod background;
mod config;
mod connections;
mod early_close;
mod egress;
mod expirations;
mod fair_queue;
mod fault;
mod fires;
mod frame_rate_limit;
mod full_inboxes;
mod gateway_records;
mod generation;
mod inbox;
mod interrupt;
mod long_lines;
mod media;
mod message_meter;
mod metrics;
mod prompt_owners;
mod relay;
mod route_removal;
mod routes;
mod sleep_calls;
mod socket;
mod socket_roles;
mod stop_command;
mod stream_cursor;
#[cfg(test)]
mod tests;
mod turns;
mod wake_calls;

pub use acknowledgements::Acknowledgements;
pub use admission::{Admission, NewEntry, StopRule};
pub use config::Config;
pub use connections::{Connection, Connections, Presence};
pub use early_close::{EarlyClose, EarlyCloseStream};
pub use egress::{Egress, EgressResult, FetchedMedia, NotFetched, PermittedAction};
pub use expirations::Expirations;
pub use fault::Fault;
pub use fires::{Arrivals, FireAnswer, Fires};
pub use generation::Proof;
pub use inbox::Inboxes;
pub use interrupt::Interrupts;
pub use media::{
    AttachmentFile, AttachmentOwner, EARLY_MEDIA_LIFE, FETCHED_WITHIN, FileNotAvailable, LARGEST_MEDIA,
    MEDIA_LIFE, MediaNotKept, MediaParts, MediaReader, MediaSource, MediaStore, MediaWriter, NamedAttachment,
    NewMedia, UnfetchedAttachment, media_in_url, safe_filename, safe_type, type_of_name,
};
pub use message_meter::MessageMeter;
pub use metrics::Metrics;
pub use relay::{Parts, Relay};
pub use route_removal::RouteRemovals;
pub use routes::{OPENAPI, OPERATIONS, routes};
pub use socket_roles::SocketRoles;
pub use stop_command::STOP;
pub use stream_cursor::STOCK_CURSOR;
pub use wake_calls::{WakeCalls, WakeFailure, WakeFailures};
