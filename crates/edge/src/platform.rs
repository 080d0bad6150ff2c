//! The border that every chat platform is built against: verify, normalize, carry.

use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ledger::Uses;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, DedupKey, Descriptor, Event};
use relay::{Carried, Order};
use tokio_util::sync::CancellationToken;
use vault::Captured;

use crate::bots::Bot;
use crate::intake::Intake;

/// A request that nobody has parsed yet.
#[derive(Clone, Debug)]
pub struct Raw {
    pub method: Method,
    /// What follows `/door/{platform}/{bot}`, without the leading slash; often empty.
    pub rest: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub received: Moment,
}

/// Bytes that are the platform's by its own proof; decrypted, if the platform encrypts.
#[derive(Clone, Debug)]
pub struct Verified {
    pub body: Bytes,
    pub rest: String,
    pub received: Moment,
}

/// What came through the door, in two hands: the event for the agent, and the capabilities that must
/// never reach it.
pub struct Arrival {
    pub event: Event,
    pub capabilities: Vec<Captured>,
    /// The platform's own word for "the same again".
    pub dedup: DedupKey,
    /// Meant for us: a direct conversation, a mention, a reply, a command, a press on our button.
    pub addressed: bool,
    /// The webhook path as a routing discriminator, where the platform has one.
    pub path: Option<String>,
    /// What the platform calls each of the event's `media`, in the same order: enough for its own code to
    /// fetch them later. It stays inside; agents get handles.
    pub references: Vec<String>,
    pub received: Moment,
}

/// A delivery, read: it may hold several events, or none (a handshake).
#[derive(Default)]
pub struct Reading {
    pub arrivals: Vec<Arrival>,
    /// Chats that go on under another id.
    pub moved: Vec<Moved>,
    pub reply: Reply,
    /// What the platform wants done at the edge, promptly and whatever the agent does.
    pub courtesies: Vec<Courtesy>,
    /// Events that were read and are no turn, by reason.
    pub ignored: Vec<&'static str>,
}

/// A chat that the platform gave a new id: the same people, and from now on the only id that works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: ChatId,
    pub to: ChatId,
}

/// Something owed to the platform itself, such as the acknowledgement of a button press.
pub struct Courtesy(pub Captured);

/// What the platform hears back once everything is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub status: StatusCode,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
}

impl Default for Reply {
    fn default() -> Self {
        Self { status: StatusCode::OK, content_type: None, body: Bytes::new() }
    }
}

/// A request that is not let in. The reason is for logs and counters; the answer carries none of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub reason: &'static str,
    pub status: StatusCode,
}

impl Refusal {
    pub fn unproven(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::UNAUTHORIZED }
    }

    pub fn malformed(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::BAD_REQUEST }
    }

    pub fn method() -> Self {
        Self { reason: "method", status: StatusCode::METHOD_NOT_ALLOWED }
    }
}

/// A secret or setting that a bot of this platform needs, as `posthouse bot create` asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub name: &'static str,
    pub about: &'static str,
    /// Made by the house when not given.
    pub generated: bool,
}

/// What the platform says of a bot when its credentials are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Met {
    /// What the platform calls it: the default bot id.
    pub id: String,
    /// Merged into the bot's settings.
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// How a bot's events come to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The platform calls, or the events arise in this house: there is nothing to fetch.
    Called,
    /// We ask: by polling, or over a socket that we hold.
    Fetches,
}

/// Why a bot cannot be used, in words for its operator. Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Trouble(pub String);

/// One chat platform. An implementation holds no bot: each call names one.
#[async_trait]
pub trait Platform: Send + Sync {
    /// Its name on the wire, in paths and on the command line.
    fn name(&self) -> &'static str;

    fn descriptor(&self, bot: &Bot) -> Descriptor;

    /// The secrets its bots have.
    fn needs(&self) -> &'static [Need];

    /// Whether the platform this bot is known at runs beside us (a stand-in, a server of one's own), so
    /// that it can call an address which the world cannot.
    fn is_neighbour(&self, _bot: &Bot) -> bool {
        false
    }

    /// Tries the credentials of a bot that is not kept yet.
    async fn meet(&self, draft: &Bot) -> Result<Met, Trouble>;

    /// Is this truly the platform's? Judged over the bytes and headers as they came.
    fn verify(&self, bot: &Bot, raw: Raw) -> Result<Verified, Refusal>;

    /// What the bytes mean. Only what is known to be safe is copied into an event.
    fn normalize(&self, bot: &Bot, verified: Verified) -> Result<Reading, Refusal>;

    /// Pays what is owed to the platform itself. Its failure is nobody's.
    async fn be_courteous(&self, bot: &Bot, courtesy: Courtesy);

    /// Carries out one action as this bot.
    async fn carry(&self, bot: &Bot, order: Order) -> Carried;

    /// Makes the platform deliver to us: registers the webhook at `door`, or removes it when the bot
    /// polls or the house has no address the platform could reach. Repeating changes nothing.
    async fn settle_in(&self, bot: &Bot, door: Option<&str>) -> Result<Settled, Trouble>;

    /// Fetches events until told to stop. Asked only of bots whose platform does not call us.
    async fn fetch(&self, bot: Arc<Bot>, intake: Intake, stop: CancellationToken);
}

/// A capability that may be used once, for as long as the platform honours it.
pub fn once(kind: &str, value: impl Into<String>) -> Captured {
    Captured {
        kind: kind.into(),
        value: posthouse_wire::Secret::new(value),
        lifetime: None,
        uses: Uses::Left(1),
    }
}
