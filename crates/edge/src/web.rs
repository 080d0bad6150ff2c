//! The built-in web chat: platform `web`, for which this server itself is the chat platform.
//!
//! A room is one invited person's conversation with one agent. Every message is stored before any page shows it, so a
//! page that reloads finds exactly what it showed. Nothing is accepted at `/door/web`: people write through the
//! page's own routes, which authenticate them (`auth`).

mod auth;
mod drafts;
mod enrol;
mod files;
mod hub;
mod invitations;
mod locks;
mod markdown;
mod message_place;
mod page;
mod perform;
mod person;
mod presses;
mod problem;
mod prompts;
mod reactions;
mod routes;
mod session;
mod stream;
mod streams;
mod threads;
mod turns;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::StatusCode;
use ledger::{BotRef, Invitation, Invitations, Prompts, Room, Rooms, Threads};
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{Action, ChatId, Descriptor, InstanceId, MessageId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

use crate::Fault;
use crate::bots::OpenedBot;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, Platform, PlatformBot, Reading, StoredMedia, VerifiedRequest,
    WebhookDoor, WebhookRefusal,
};
use crate::split_limits::SplitLimits;

pub use enrol::{Enrol, EnrolRefused, EnrolledAgent};
pub use invitations::{LINK_LIFE, NewInvitation, link};
pub use person::PersonName;
pub use routes::{ChatPage, OPENAPI, OPERATIONS, routes};

use hub::Hub;
use locks::RoomLocks;
use markdown::Renderer;
use streams::Streams;
use turns::RoomTurns;

/// The platform's name on the wire.
pub const NAME: &str = "web";

/// The longest message, in Unicode scalar values, in both directions.
pub const LIMIT: usize = 32_000;

/// Time for which a repeated final draft finds its message.
const FINALS: Duration = Duration::from_secs(600);

/// The web chat as a chat platform.
pub struct Web {
    rooms: Arc<dyn Rooms>,
    invitations: Arc<dyn Invitations>,
    prompts: Arc<dyn Prompts>,
    threads: Arc<dyn Threads>,
    timepiece: Timepiece,
    hub: Arc<Hub>,
    /// Held while a message is stored and shown, so that pages get messages in the order of the ledger and a quick
    /// answer never appears above its question.
    locks: RoomLocks,
    streams: Streams,
    turns: RoomTurns,
    renderer: Renderer,
    split_limits: SplitLimits,
    /// The messages that final drafts became, by room and draft.
    finals: Cache<(ChatId, i64), MessageId>,
}

impl Web {
    pub fn new(
        rooms: Arc<dyn Rooms>,
        invitations: Arc<dyn Invitations>,
        (prompts, threads): (Arc<dyn Prompts>, Arc<dyn Threads>),
        timepiece: Timepiece,
    ) -> Self {
        Self {
            rooms,
            invitations,
            prompts,
            threads,
            finals: Cache::builder().max_capacity(10_000).time_to_live(FINALS).build(),
            timepiece,
            hub: Arc::default(),
            locks: RoomLocks::default(),
            streams: Streams::default(),
            turns: RoomTurns::default(),
            renderer: Renderer::default(),
            split_limits: SplitLimits::default(),
        }
    }

    /// Finds or creates the room of this invitation with this agent. `None` if the invitation was withdrawn.
    async fn enter(&self, instance: InstanceId, invited: &Invitation) -> Result<Option<Room>, Fault> {
        let id = ChatId::from(format!("web-{}", vault::random_hex(16)?.expose()));
        let created = self.timepiece.now();
        let (invitation, person) = (Some(invited.id.clone()), invited.person.clone());
        Ok(self.rooms.enter(Room { id, instance, invitation, person, created }).await?)
    }
}

/// The web bot of an agent. Every agent has one; its id is the agent's id.
fn bot_ref(of: &InstanceId) -> BotRef {
    BotRef { platform: NAME.into(), bot: of.as_str().into() }
}

#[async_trait]
impl Platform for Web {
    fn name(&self) -> &'static str {
        NAME
    }

    fn descriptor(&self, _bot: &OpenedBot) -> Descriptor {
        Descriptor {
            max_message_length: u32::try_from(LIMIT).expect("the limit is small"),
            supports_edit: true,
            supports_draft_streaming: true,
            supports_threads: true,
            markdown_dialect: "markdown".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "💬".to_owned(),
            // It carries out every op.
            supported_ops: Action::OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(NAME, "Web chat")
        }
    }

    /// Stock agents have no special rule for this platform, so every version of them handles an interrupt.
    fn stop_rule(&self) -> StopRule {
        StopRule::Interrupt
    }

    fn fields(&self) -> &'static [BotField] {
        &[]
    }

    /// No outside platform delivers for the web chat, so its webhook path answers like an unknown one.
    fn doors(&self) -> &'static [WebhookDoor] {
        &[]
    }

    fn delivery(&self, _bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        EventDelivery::BuiltIn
    }

    fn needs_invitation(&self) -> bool {
        true
    }

    async fn check_credentials(&self, _draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
        Err(BotTrouble::Other("web bots cannot be created: every agent already has one".to_owned()))
    }

    fn normalize(&self, _bot: &OpenedBot, _verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        Err(WebhookRefusal { reason: "unknown_path", status: StatusCode::NOT_FOUND })
    }

    fn answers_senders_itself(&self) -> bool {
        true
    }

    async fn perform(&self, _bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        self.carry_out(permitted).await
    }

    async fn follow_up(&self, _bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
        self.answer_press(follow_up).await
    }

    fn knows_thread_names(&self) -> bool {
        true
    }

    async fn send_media(
        &self,
        _bot: &OpenedBot,
        permitted: PermittedAction,
        media: StoredMedia,
    ) -> EgressResult {
        self.send_file(permitted, media).await
    }

    async fn fetch_media(
        &self,
        _bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        files::fetch(reference, into).await
    }

    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }
}
