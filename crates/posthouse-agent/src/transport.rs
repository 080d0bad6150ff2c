//! Relay transport: the trait for the connection between an agent and its server.

mod backoff;
mod connection;
mod connection_loop;
mod delivery_queue;
mod dial;
mod requests;
mod seen_entries;
mod socket;
mod stream;
mod websocket;

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use posthouse_wire::cron::{FireBody, Fired};
use posthouse_wire::id::{BotId, ChatId, EntryId, Platform, SessionKey};
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{Action, ChatInfo, Descriptor, Event, Outcome};

#[cfg(feature = "post")]
pub(crate) use backoff::jittered;
pub(crate) use seen_entries::{EntryState, SeenEntries};
pub use websocket::WebSocketTransport;

/// Carries events in and actions out. The first eight methods are those of the original contract; the
/// adapter needs the others.
#[async_trait]
pub trait RelayTransport: Send + Sync {
    /// Opens the connection and returns after the server has sent its first descriptor. An error describes
    /// the first attempt only; the transport keeps trying until [`disconnect`](Self::disconnect).
    async fn connect(&self) -> Result<(), Fault>;

    /// Closes the connection for good. Requests that still wait for an answer fail.
    async fn disconnect(&self);

    /// The descriptor of the first identity that the server accepted. Waits for it if necessary.
    async fn handshake(&self) -> Result<Descriptor, Fault>;

    /// Sets the receiver of deliveries. Deliveries that arrive earlier wait.
    fn set_inbound_handler(&self, handler: Arc<dyn InboundHandler>);

    /// Asks the server to carry out `action`. Always returns: with the result, or with the reason why the
    /// result is unknown.
    async fn send_outbound(&self, action: Action, tag: &Tag) -> Outcome;

    /// Asks for a chat's name and kind.
    async fn get_chat_info(&self, chat_id: &ChatId, tag: &Tag) -> Result<ChatInfo, Fault>;

    /// Asks the server to stop the turn of `session_key`, wherever it runs. The request is not stored for
    /// later: the result is false if there was no connection.
    async fn send_interrupt(&self, session_key: &SessionKey, reason: Option<&str>) -> bool;

    /// Uses a capability that the server stores for a session. `action` is an [`Action::FollowUp`]. It
    /// names the session and the kind of capability and holds no credential.
    async fn send_follow_up(&self, action: Action) -> Outcome;

    /// All descriptors that the server has sent so far.
    fn descriptors(&self) -> Arc<Descriptors>;

    /// Asks the server to deliver nothing more and waits for its confirmation. The connection stays open,
    /// so that running turns can still answer.
    async fn pause(&self) {}

    /// Returns when the connection is down and will not come back by itself: revoked, or disconnected.
    async fn ended(&self) -> Fault {
        std::future::pending().await
    }
}

/// Receiver of deliveries: one after the other, in the order of arrival.
#[async_trait]
pub trait InboundHandler: Send + Sync {
    /// `Ok` means accepted: the server gets the acknowledgement and deletes the entry. Return quickly, once
    /// it is certain that the turn will run. A server that waits too long delivers the entry again.
    async fn inbound(&self, inbound: Inbound) -> Result<(), DeliveryDeclined>;

    /// Stops exactly this session's turn. Unknown keys are ignored.
    fn interrupted(&self, session_key: &SessionKey, chat_id: &ChatId);

    /// A cron job is due. Called only for agents that receive fires on their connection
    /// ([`Settings::taking_fires`](crate::Settings::taking_fires)). The result is what a fire endpoint
    /// would answer.
    async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        tracing::debug!(job.id = %fire.job_id, "ignored a cron fire: this handler runs no jobs");
        (200, Fired::Gone)
    }

    /// A verified webhook, passed on unchanged. Few agents need it; by default it is accepted and dropped.
    async fn forwarded(&self, forward: Forward) -> Result<(), DeliveryDeclined> {
        tracing::debug!(platform = %forward.platform, "dropped a forwarded webhook: this handler does not use them");
        Ok(())
    }
}

/// One delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    pub event: Box<Event>,
    /// The server's id of the entry. It is acknowledged under this id, and repeats are recognized by it.
    pub entry: Option<EntryId>,
}

/// The handler did not accept the delivery. The server keeps it and delivers it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryDeclined;

/// Identity under which an action is carried out. Without a tag, the server uses its own record of the
/// chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    pub platform: Option<Platform>,
    pub bot_id: Option<BotId>,
}

/// Descriptors of the server's platforms, in the order in which they arrived.
#[derive(Clone, Debug, Default)]
pub struct Descriptors(Vec<Arc<Descriptor>>);

impl Descriptors {
    pub fn of(&self, platform: &Platform) -> Option<&Arc<Descriptor>> {
        self.0.iter().find(|known| known.platform == *platform)
    }

    /// The descriptor of the default identity.
    pub fn first(&self) -> Option<&Arc<Descriptor>> {
        self.0.first()
    }

    /// Adds a descriptor. A newer one for the same platform replaces the older one in its position.
    pub fn learn(&mut self, descriptor: Descriptor) {
        match self.0.iter_mut().find(|known| known.platform == descriptor.platform) {
            Some(known) => *known = Arc::new(descriptor),
            None => self.0.push(Arc::new(descriptor)),
        }
    }
}

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// Never opened, or disconnected.
    Closed,
    Dialing,
    /// The server has accepted the agent.
    Live,
    /// The last attempt failed or the connection was lost. The next attempt is scheduled.
    Waiting,
    /// Closed at the agent's own request. The server keeps new messages and may wake the agent.
    Dormant,
    /// The server has revoked the agent's credential.
    Revoked,
}

/// Reason why there is no connection.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{0} is not set")]
    Unset(&'static str),
    #[error("{0} cannot be read: {1}")]
    Unreadable(&'static str, String),
    #[error("relay address {0:?} cannot be dialed: {1}")]
    Address(String, &'static str),
    #[error("cannot reach the server: {0}")]
    Unreachable(String),
    #[error("the server refused the agent's credential; check GATEWAY_RELAY_ID and GATEWAY_RELAY_SECRET")]
    Refused,
    #[error("the server accepted none of the agent's identities; check its platforms and bot ids")]
    NoIdentity,
    #[error("another process is connected as this agent")]
    Superseded,
    #[error("the relay connection was lost: {0}")]
    Fell(String),
    #[error("the agent's credential was revoked")]
    Revoked,
    #[error("the relay connection is closed")]
    Closed,
    #[error("the server did not return the chat's information: {0}")]
    Untold(String),
}

/// Same text as `Display`, because a `main` that returns the fault prints it with `Debug`.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
