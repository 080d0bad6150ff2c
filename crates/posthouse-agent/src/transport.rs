//! The line between an agent and its house, as a contract of eight verbs and a few more.

mod backoff;
mod dial;
mod hands;
mod keeper;
mod line;
mod requests;
mod seen;
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

pub(crate) use backoff::jittered;
pub(crate) use seen::{Seen, Sight};
pub use websocket::WebSocketTransport;

/// Carries events in and actions out. The first eight methods are the founding contract's own; the rest
/// is what an adapter needs to live well on top of it.
#[async_trait]
pub trait RelayTransport: Send + Sync {
    /// Opens the line and returns once the house described itself. An error tells how the first try went;
    /// the line keeps trying until [`disconnect`](Self::disconnect).
    async fn connect(&self) -> Result<(), Fault>;

    /// Closes the line for good: what still waits for an answer is told so.
    async fn disconnect(&self);

    /// What the house said about the first identity it accepted. Waits for it, if need be.
    async fn handshake(&self) -> Result<Descriptor, Fault>;

    /// Says who takes what comes in. What comes before that waits.
    fn set_inbound_handler(&self, handler: Arc<dyn InboundHandler>);

    /// Has `action` carried out. Always answers: with what happened, or with why nobody knows.
    async fn send_outbound(&self, action: Action, tag: &Tag) -> Outcome;

    /// Asks for a chat's name and kind.
    async fn get_chat_info(&self, chat_id: &ChatId, tag: &Tag) -> Result<ChatInfo, Fault>;

    /// Asks the house to stop the turn of `session_key`, wherever it runs. Never kept for later: false
    /// when there was no line to say it on.
    async fn send_interrupt(&self, session_key: &SessionKey, reason: Option<&str>) -> bool;

    /// Acts on a capability that the house keeps for a session. `action` is an [`Action::FollowUp`]; it
    /// names the session and the kind, and holds no credential.
    async fn send_follow_up(&self, action: Action) -> Outcome;

    /// Everything the house described so far.
    fn descriptors(&self) -> Arc<Descriptors>;

    /// Asks the house to bring nothing more, and waits for its word. The line stays open, so that turns
    /// under way can still answer.
    async fn pause(&self) {}

    /// Returns when the line is down and will not come back by itself: revoked, or disconnected.
    async fn ended(&self) -> Fault {
        std::future::pending().await
    }
}

/// Takes what comes in, one after the other, in the order it came.
#[async_trait]
pub trait InboundHandler: Send + Sync {
    /// `Ok` means "taken": the house is told and forgets the entry. So return quickly, having seen to it
    /// that the turn will run; a house that waits too long brings the entry again.
    async fn inbound(&self, inbound: Inbound) -> Result<(), Declined>;

    /// Stop exactly this session's turn. Unknown keys are none of our business.
    fn interrupted(&self, session_key: &SessionKey, chat_id: &ChatId);

    /// A job is due; only for agents that said they take fires down the line
    /// ([`Settings::taking_fires`](crate::Settings::taking_fires)). Answers as a fire endpoint would.
    async fn fired(&self, fire: FireBody) -> (u16, Fired) {
        tracing::debug!(job.id = %fire.job_id, "let go a fire that nobody waits for");
        (200, Fired::Gone)
    }

    /// A verified webhook handed on whole. Few agents want them; by default they are taken and dropped.
    async fn forwarded(&self, forward: Forward) -> Result<(), Declined> {
        tracing::debug!(platform = %forward.platform, "dropped a forwarded webhook that nobody asked for");
        Ok(())
    }
}

/// One delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    pub event: Box<Event>,
    /// The house's name for it; acknowledged under this name, and repeats are known by it.
    pub entry: Option<EntryId>,
}

/// The handler would not take it. The house keeps it and brings it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declined;

/// Under which identity an action goes out. Untagged, the house goes by its own record of the chat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    pub platform: Option<Platform>,
    pub bot_id: Option<BotId>,
}

/// What the house said its platforms can do, in the order it said so.
#[derive(Clone, Debug, Default)]
pub struct Descriptors(Vec<Arc<Descriptor>>);

impl Descriptors {
    pub fn of(&self, platform: &Platform) -> Option<&Arc<Descriptor>> {
        self.0.iter().find(|known| known.platform == *platform)
    }

    /// The one of the default identity.
    pub fn first(&self) -> Option<&Arc<Descriptor>> {
        self.0.first()
    }

    /// A newer word about a platform replaces the older in its place.
    pub fn learn(&mut self, descriptor: Descriptor) {
        match self.0.iter_mut().find(|known| known.platform == descriptor.platform) {
            Some(known) => *known = Arc::new(descriptor),
            None => self.0.push(Arc::new(descriptor)),
        }
    }
}

/// How the line stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Never opened, or disconnected.
    Closed,
    Dialing,
    /// The house accepted us.
    Live,
    /// The last try failed or the line fell; the next try is due.
    Waiting,
    /// Asleep by our own wish; the house keeps what comes and may wake us.
    Dormant,
    /// The house took our credential back.
    Revoked,
}

/// Why there is no line.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{0} is not set")]
    Unset(&'static str),
    #[error("{0} cannot be read: {1}")]
    Unreadable(&'static str, String),
    #[error("relay address {0:?} cannot be dialed: {1}")]
    Address(String, &'static str),
    #[error("could not reach the house: {0}")]
    Unreachable(String),
    #[error("the house refused our credential")]
    Refused,
    #[error("the house accepted none of our identities")]
    NoIdentity,
    #[error("another process holds our place at the house")]
    Superseded,
    #[error("the line fell: {0}")]
    Fell(String),
    #[error("our credential was revoked")]
    Revoked,
    #[error("the line is closed")]
    Closed,
    #[error("the house could not tell: {0}")]
    Untold(String),
}

/// The same words: a `main` that returns the fault prints it this way, and its reader is a person.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
