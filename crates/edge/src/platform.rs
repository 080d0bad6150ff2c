//! Chat platforms: the [`Platform`] trait that each implements. The submodules have the types of requests and events.

mod bot_fields;
mod payload_text;
mod readings;
mod requests;

use async_trait::async_trait;
use ledger::{MediaRecord, Uses};
use posthouse_wire::frame::CommandManifest;
use posthouse_wire::{ChatId, Descriptor, MessageId, Outcome, Secret, UserId};
use relay::{
    EgressResult, FetchedMedia, MediaReader, MediaStore, MediaWriter, NotFetched, PermittedAction, StopRule,
};
use vault::CapturedCapability;

use crate::Fault;
use crate::bots::OpenedBot;
use crate::edit_streams::EditLimits;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::follow_up::{FollowUp, FollowedUp};

pub(crate) use bot_fields::is_placeholder;
pub use bot_fields::{BotField, FieldPresence};
pub use payload_text::PayloadText;
pub use readings::{Arrival, InteractionAck, Moved, Reading, RenamedThread, location_text};
pub use requests::{
    HeadProof, PLAIN_DOOR, PlatformResponse, RequestHead, UnverifiedRequest, Verification, VerifiedRequest,
    WebhookDoor, WebhookRefusal, verify_request,
};
pub(crate) use requests::{check_head, check_rest, door_url};

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
    /// The platform calls a webhook.
    Webhook,
    /// The server polls the platform.
    Polling,
    /// The server opens a socket to the platform. The bot's doors stay open beside it.
    Socket,
    /// The events arise in this server.
    BuiltIn,
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

/// Largest accepted body, in bytes. The deliveries of nearly all platforms are far smaller.
pub const LARGEST_BODY: usize = 1024 * 1024;

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

    /// The word before the dot in the kinds of its capabilities. Platforms of one company can share it.
    fn capability_prefix(&self) -> &'static str {
        self.name()
    }

    fn descriptor(&self, bot: &OpenedBot) -> Descriptor;

    /// Whether messages carry nearby messages of their group as context. The descriptor says the same.
    fn supports_context(&self) -> bool {
        false
    }

    /// Handling of a message that is exactly `/stop`. A platform on which an interrupt stalls a stock gateway, such as
    /// Slack, must return `Text` (relay contract section 13.1).
    fn stop_rule(&self) -> StopRule;

    /// The secrets and settings of its bots.
    fn fields(&self) -> &'static [BotField];

    /// The paths and methods at which it calls this server. A request elsewhere gets 404 or 405.
    fn doors(&self) -> &'static [WebhookDoor] {
        &PLAIN_DOOR
    }

    /// The way in which this bot gets its events. `door` is its public address, if the platform can call it.
    fn delivery(&self, bot: &OpenedBot, door: Option<&str>) -> EventDelivery;

    /// What the operator must do at the platform before the first message arrives, one sentence each.
    fn setup_steps(&self, _bot: &OpenedBot, _door: Option<&str>) -> Vec<String> {
        Vec::new()
    }

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

    /// The largest body of a request whose head is proven, in bytes. A platform that repeats a refused delivery forever
    /// needs room for the largest that it makes.
    fn largest_proven_body(&self) -> usize {
        LARGEST_BODY
    }

    /// The largest body of a request that only its body can prove, in bytes. Such bytes come from anybody, so that the
    /// listener counts them against its budget for unauthenticated senders.
    fn largest_unproven_body(&self) -> usize {
        LARGEST_BODY
    }

    /// Whether only somebody who has the bot's secret can send, so that everybody who can may write to the agent.
    fn proves_senders(&self) -> bool {
        false
    }

    /// The host name whose requests are all for this bot, if the operator mapped one.
    fn host_of<'b>(&self, _bot: &'b OpenedBot) -> Option<&'b str> {
        None
    }

    /// Checks the credentials of a bot, which may not be stored yet.
    async fn check_credentials(&self, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble>;

    /// Waits until the platform refuses a call of this bot as unauthorized. The caller then checks its credentials,
    /// because a single refusal can have another reason.
    async fn credential_doubted(&self, _bot: &OpenedBot) {
        std::future::pending().await
    }

    /// Checks what can be checked before the body is read. A platform whose proof is in the head refuses or accepts
    /// here. One that signs the body returns `BodyNeeded`; its body is then read under the limits for unverified
    /// requests.
    fn verify_head(&self, _bot: &OpenedBot, _head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
        Ok(HeadProof::BodyNeeded)
    }

    /// Checks a request whose head proves nothing, over its unparsed bytes. A request is verified once: this is not
    /// called after `HeadProof::Proven`.
    fn verify<'a>(&'a self, _bot: &'a OpenedBot, _raw: UnverifiedRequest) -> Verification<'a> {
        Verification::Done(Err(WebhookRefusal::unproven("no_proof")))
    }

    /// Parses a verified request. Only fields known to be safe are copied into an event.
    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal>;

    /// Adds what only the platform knows to a reading that is marked as incomplete. It must end within the time that the
    /// platform waits for its response. After a fault nothing of the reading is stored: the platform repeats the delivery,
    /// or the position of the feed stays before it. So it must not fail forever.
    async fn complete(&self, _bot: &OpenedBot, reading: Reading) -> Result<Reading, Fault> {
        Ok(reading)
    }

    /// Whether the response to the sender's own request reports a message that is not stored, so that no notice is
    /// needed.
    fn answers_senders_itself(&self) -> bool {
        false
    }

    /// Makes a call that the platform expects at once. A failure has no consequences.
    async fn acknowledge_interaction(&self, _bot: &OpenedBot, _ack: InteractionAck) {}

    /// Whether this person can see this chat, as the platform reports it. False also when the platform does not answer.
    /// True where a platform has no such notion.
    async fn sees(&self, _bot: &OpenedBot, _user: &UserId, _chat: &ChatId) -> bool {
        true
    }

    /// The call with the bot's credentials by which [`Platform::sees`] asks. `None` if it uses no credential.
    fn visibility_call(&self) -> Option<&'static str> {
        None
    }

    /// The call with the bot's credentials by which a text is sent. `None` if that uses no credential.
    fn text_call(&self) -> Option<&'static str> {
        None
    }

    /// The direct chat of this person with the bot, where the platform derives it from the person.
    fn direct_chat(&self, _user: &UserId) -> Option<ChatId> {
        None
    }

    /// How often a message of this chat may be edited. Edits that come faster are joined. By default there is no limit.
    fn edit_limits(&self, _chat: &ChatId) -> EditLimits {
        EditLimits::default()
    }

    /// As [`Platform::edit_limits`], where the limits depend on what kind of message is edited.
    fn message_edit_limits(&self, _bot: &OpenedBot, chat: &ChatId, _message: &MessageId) -> EditLimits {
        self.edit_limits(chat)
    }

    /// Called after an edit whose text its agent does not continue, for platforms that show a text as growing until they
    /// are told that it has ended. A failure has no consequences.
    async fn text_is_final(&self, _bot: &OpenedBot, _message: &MessageId) {}

    /// Carries out one action as this bot.
    async fn perform(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult;

    /// The kind of capability that actions in this chat need, if a message of the chat brought one.
    fn sending_capability(&self, _chat: &ChatId) -> Option<&'static str> {
        None
    }

    /// Carries out one action with the capability that the chat's last message brought. `media` is the file of a
    /// `send_media`.
    async fn carry_with(
        &self,
        _bot: &OpenedBot,
        permitted: PermittedAction,
        _media: Option<StoredMedia>,
        _capability: &Secret,
    ) -> EgressResult {
        Outcome::unsupported(permitted.action.op()).into()
    }

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

    /// Whether a reference can end long before an agent wakes. The attachment is then fetched as soon as its message is
    /// stored.
    fn ends_early(&self, _reference: &str) -> bool {
        false
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

    /// Registers the webhook URL `door` with the platform, or removes the webhook if the bot needs none. Repeating it
    /// changes nothing.
    async fn register(&self, bot: &OpenedBot, door: Option<&str>) -> Result<(), BotTrouble>;

    /// Makes these the commands that the platform offers to people. Repeating it changes nothing.
    async fn register_commands(
        &self,
        _bot: &OpenedBot,
        _commands: &CommandManifest,
    ) -> Result<(), BotTrouble> {
        Ok(())
    }

    /// Fetches events until the feed is stopped or fails; the edge then calls it again after a pause. Called only for
    /// bots that poll or open a socket.
    async fn fetch(&self, _feed: &mut EventFeed) -> FeedEnd {
        FeedEnd::Stopped
    }
}

/// A capability that can be used once. It has no expiry here; the platform decides how long it accepts it.
pub fn once(kind: &str, value: impl Into<String>) -> CapturedCapability {
    CapturedCapability { kind: kind.into(), value: Secret::new(value), lifetime: None, uses: Uses::Left(1) }
}
