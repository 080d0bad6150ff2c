//! The [`Platform`] trait that every chat platform implements, and its request and event types.

use std::sync::Arc;

use async_trait::async_trait;
use axum::body::Bytes;
use http::{HeaderMap, Method, StatusCode};
use ledger::{MediaRecord, Uses};
use posthouse_time::Moment;
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{
    ChatId, DedupKey, Descriptor, Event, MessageId, Outcome, PromptToken, ThreadId, UserId,
};
use relay::{
    EgressResult, FetchedMedia, MediaReader, MediaStore, MediaWriter, NotFetched, PermittedAction, StopRule,
};
use tokio_util::sync::CancellationToken;
use vault::CapturedCapability;

use crate::bots::OpenedBot;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::intake::Intake;

/// An unparsed HTTP request.
#[derive(Clone, Debug)]
pub struct Raw {
    pub method: Method,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub received: Moment,
}

/// The part of a request that comes before its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    pub headers: &'a HeaderMap,
}

/// Result of checking the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadProof {
    /// The request is the platform's.
    Proven,
    /// Not decided yet: the signature covers the body.
    BodyNeeded,
}

/// A verified request body. It is decrypted, if the platform encrypts.
#[derive(Clone, Debug)]
pub struct VerifiedBody {
    pub body: Bytes,
    pub received: Moment,
}

/// One incoming event, split so that the agent's half cannot carry a secret: the event for the agent, and the
/// capabilities that must never reach it.
pub struct Arrival {
    pub event: Event,
    pub capabilities: Vec<CapturedCapability>,
    /// Equal for repeated deliveries of the same event; made from the platform's own id.
    pub dedup: DedupKey,
    /// Addressed to the bot: a direct conversation, a mention, a reply, a command or a press of its button.
    pub addressed: bool,
    /// The webhook path as a routing discriminator, for platforms that use paths. None does today.
    pub path: Option<String>,
    /// The platform's id of each of the event's `media`, in the same order, with which its code can fetch them later.
    /// They stay inside the server; agents get handles.
    pub references: Vec<String>,
    /// The payload of the button, if the event is the press of one that may belong to a prompt.
    pub press: Option<PromptToken>,
    /// The interaction itself, for agents that want it whole. It is made by [`crate::forwarding`], which copies only fields
    /// known to be safe.
    pub forward: Option<Box<Forward>>,
    /// The album that it is a part of.
    pub album: Option<String>,
    pub received: Moment,
}

/// A normalized delivery. It may hold several events, or none (a handshake).
#[derive(Default)]
pub struct Reading {
    pub arrivals: Vec<Arrival>,
    /// Events that other bots wrote. Most agents do not want them.
    pub from_bots: Vec<Arrival>,
    /// Chats that have got a new id.
    pub moved: Vec<Moved>,
    pub reply: PlatformResponse,
    /// Calls that the edge owes the platform promptly, independent of the agent.
    pub interaction_acks: Vec<InteractionAck>,
    /// Threads that somebody has named.
    pub renamed: Vec<RenamedThread>,
    /// The reasons of events that are not turns.
    pub ignored: Vec<&'static str>,
}

/// A thread that got a name from somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenamedThread {
    pub chat: ChatId,
    pub thread: ThreadId,
    pub name: String,
}

/// A chat to which the platform gave a new id. The old id no longer works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    pub from: ChatId,
    pub to: ChatId,
}

/// A call that the edge owes the platform, such as the acknowledgement of a button press.
pub struct InteractionAck(pub CapturedCapability);

/// The HTTP response to the platform after everything is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformResponse {
    pub status: StatusCode,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
}

impl Default for PlatformResponse {
    fn default() -> Self {
        Self { status: StatusCode::OK, content_type: None, body: Bytes::new() }
    }
}

/// A refused request. The reason is for logs and metrics only; the response does not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookRefusal {
    pub reason: &'static str,
    pub status: StatusCode,
}

impl WebhookRefusal {
    pub fn unproven(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::UNAUTHORIZED }
    }

    pub fn malformed(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::BAD_REQUEST }
    }
}

/// A secret of this platform's bots, as `posthouse bot create` asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequiredSecret {
    pub name: &'static str,
    pub about: &'static str,
    /// Generated by the server if it is not given.
    pub generated: bool,
}

/// The platform's description of a bot, from the check of its credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformBot {
    /// The bot's id on the platform: the default bot id.
    pub id: String,
    /// Merged into the bot's settings.
    pub settings: serde_json::Map<String, serde_json::Value>,
}

/// The way in which a bot gets its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventDelivery {
    /// The platform calls a webhook, or the events arise in this server. There is nothing to fetch.
    Pushed,
    /// The server fetches them, by polling or over a socket that it opens.
    Fetched,
}

/// The reason why a bot cannot be used, as a text for its operator. Never contains a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BotTrouble {
    /// The platform answered that it does not accept the bot's credential.
    #[error("{0}")]
    CredentialRefused(String),
    /// Anything else, such as a platform that cannot be reached.
    #[error("{0}")]
    Other(String),
}

/// A stored file that a platform sends.
#[derive(Clone)]
pub struct StoredMedia {
    pub store: MediaStore,
    pub record: MediaRecord,
}

impl StoredMedia {
    /// Opens the file. `None` if it cannot be read.
    pub async fn open(&self) -> Option<MediaReader> {
        match self.store.open(&self.record).await {
            Ok(reader) => reader,
            Err(fault) => {
                tracing::error!(%fault, "could not open a file to send");
                None
            }
        }
    }
}

/// One chat platform. An implementation holds no bot; each call names one.
#[async_trait]
pub trait Platform: Send + Sync {
    /// Its name on the wire, in paths and on the command line.
    fn name(&self) -> &'static str;

    fn descriptor(&self, bot: &OpenedBot) -> Descriptor;

    /// Whether messages carry nearby messages of their group as context. The descriptor says the same.
    fn supports_context(&self) -> bool {
        false
    }

    /// Handling of a message that is exactly `/stop`. A platform on which an interrupt stalls a stock gateway, such as
    /// Slack, must return `Text` (relay contract section 13.1).
    fn stop_rule(&self) -> StopRule;

    /// The secrets its bots have.
    fn required_secrets(&self) -> &'static [RequiredSecret];

    /// Whether the bot's platform runs near this server (a stand-in, a self-hosted server), so that it can call an
    /// address that is not public.
    fn is_neighbour(&self, _bot: &OpenedBot) -> bool {
        false
    }

    /// Whether only invited people may write. Other platforms do not say who their people are, so that the bot's own
    /// list of senders decides.
    fn needs_invitation(&self) -> bool {
        false
    }

    /// Checks the credentials of a bot, which may not be stored yet.
    async fn check_credentials(&self, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble>;

    /// Waits until the platform refuses a call of this bot as unauthorized. The caller then checks its credentials,
    /// because a single refusal can have another reason.
    async fn credential_doubted(&self, _bot: &OpenedBot) {
        std::future::pending().await
    }

    /// Checks what can be checked before the body is read. A platform whose proof is in the headers refuses here. One
    /// that signs the body returns `BodyNeeded`; its body is then read under the limits for unverified requests.
    fn verify_head(&self, _bot: &OpenedBot, _head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
        Ok(HeadProof::BodyNeeded)
    }

    /// Checks that the request is the platform's, over the unparsed bytes and headers.
    fn verify(&self, bot: &OpenedBot, raw: Raw) -> Result<VerifiedBody, WebhookRefusal>;

    /// Parses a verified body. Only fields known to be safe are copied into an event.
    fn normalize(&self, bot: &OpenedBot, verified: VerifiedBody) -> Result<Reading, WebhookRefusal>;

    /// Whether the response to the sender's own request reports a message that is not stored, so that no notice is
    /// needed.
    fn answers_senders_itself(&self) -> bool {
        false
    }

    /// Makes a call that is owed to the platform. A failure has no consequences.
    async fn acknowledge_interaction(&self, bot: &OpenedBot, ack: InteractionAck);

    /// Whether this person can see this chat, by the platform's own word. False also when the platform does not
    /// answer. True where a platform has no such notion.
    async fn sees(&self, _bot: &OpenedBot, _user: &UserId, _chat: &ChatId) -> bool {
        true
    }

    /// The direct chat of this person with the bot, where the platform derives it from the person.
    fn direct_chat(&self, _user: &UserId) -> Option<ChatId> {
        None
    }

    /// Carries out one action as this bot.
    async fn carry(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult;

    /// Sends a follow-up with a capability of this platform. A platform without capabilities never gets here.
    async fn follow_up(&self, _bot: &OpenedBot, _follow_up: FollowUp<'_>) -> FollowedUp {
        FollowedUp { outcome: Outcome::no_capability(), called: "nothing", had_no_effect: true }
    }

    /// Takes the buttons away from a prompt that has its answer. A failure has no consequences.
    async fn close_prompt(&self, _bot: &OpenedBot, _chat: &ChatId, _message: &MessageId) {}

    /// Whether only agents name the threads here, so that the server knows the name of each.
    fn knows_thread_names(&self) -> bool {
        false
    }

    /// Sends a file as this bot. The action is a `send_media`. Called only if the descriptor lists that op.
    async fn send_media(
        &self,
        _bot: &OpenedBot,
        permitted: PermittedAction,
        _media: StoredMedia,
    ) -> EgressResult {
        Outcome::unsupported(permitted.action.op()).into()
    }

    /// The call with the bot's credentials by which attachments are fetched. `None` if fetching uses no credential.
    fn media_call(&self) -> Option<&'static str> {
        None
    }

    /// Writes the bytes of an attachment to `into`. The reference came with an event of this bot.
    async fn fetch_media(
        &self,
        _bot: &OpenedBot,
        _reference: &str,
        _into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        Err(NotFetched::Gone)
    }

    /// Registers the webhook URL `door` with the platform, or removes the webhook if the bot polls or the platform
    /// cannot reach this server. Repeating it changes nothing.
    async fn register(&self, bot: &OpenedBot, door: Option<&str>) -> Result<EventDelivery, BotTrouble>;

    /// Fetches events until `stop`. Called only for bots whose platform does not call a webhook.
    async fn fetch(&self, bot: Arc<OpenedBot>, intake: Intake, stop: CancellationToken);
}

/// A capability that can be used once. It has no expiry here; the platform decides how long it accepts it.
pub fn once(kind: &str, value: impl Into<String>) -> CapturedCapability {
    CapturedCapability {
        kind: kind.into(),
        value: posthouse_wire::Secret::new(value),
        lifetime: None,
        uses: Uses::Left(1),
    }
}
