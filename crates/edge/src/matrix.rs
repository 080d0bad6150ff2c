//! Matrix: events as an application service or by sync, and actions over the client-server API.
//!
//! Encrypted rooms are refused: the bot says so once, and leaves. Settings of a bot:
//!
//! - `homeserver_url`: base URL of its homeserver; overrides the server's setting
//! - `mode`: `sync` to get events by sync although the bot has an `hs_token`
//! - `username`: the user as whom an application service acts; by default the sender of its registration
//! - `invitations`: the people and servers whose invitations the bot follows
//! - `allow_query_token`: `true` to accept the `hs_token` in the query too, as old homeservers send it
//! - `user_id`, `display_name`: read from the homeserver when the bot is created

mod api;
mod dialect;
mod egress;
mod ids;
mod media;
mod membership;
mod normalize;
mod own_events;
mod payload;
mod register;
mod room_lookups;
mod rooms;
mod sync;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{BotId, ChatId, Descriptor, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

use crate::Fault;
use crate::bots::OpenedBot;
use crate::edit_streams::EditLimits;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, HeadProof, InteractionAck, Platform, PlatformBot, Reading,
    RequestHead, StoredMedia, VerifiedRequest, WebhookDoor, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

pub use rooms::MatrixRoom;

const PLATFORM: &str = "matrix";
/// Largest transaction, in bytes.
const LARGEST_TRANSACTION: usize = 16 * 1024 * 1024;
/// Display name of the platform.
const LABEL: &str = "Matrix";
const TOKEN: &str = "token";
const HS_TOKEN: &str = "hs_token";
const HOMESERVER_URL: &str = "homeserver_url";
const USERNAME: &str = "username";
const INVITATIONS: &str = "invitations";
const ALLOW_QUERY_TOKEN: &str = "allow_query_token";
const USER_ID: &str = "user_id";
const DISPLAY_NAME: &str = "display_name";
const TRANSACTIONS_DOOR: &str = "/_matrix/app/v1/transactions/*";
const PING_DOOR: &str = "/_matrix/app/v1/ping";
const USERS_DOOR: &str = "/_matrix/app/v1/users/*";
const ROOMS_DOOR: &str = "/_matrix/app/v1/rooms/*";
/// Shortest time between two edits of one message. Homeservers count an edit as a message.
const EDIT_PAUSE: Duration = Duration::from_secs(1);
/// Time limit for asking whether a person is in a room.
const MEMBERS_WITHIN: Duration = Duration::from_secs(5);
/// The ops that Matrix carries out.
const OPS: [&str; 7] = ["send", "edit", "typing", "get_chat_info", "send_media", "react", "thread_create"];

static DOORS: [WebhookDoor; 4] = [
    WebhookDoor { method: Method::PUT, path: TRANSACTIONS_DOOR },
    WebhookDoor::post(PING_DOOR),
    WebhookDoor { method: Method::GET, path: USERS_DOOR },
    WebhookDoor { method: Method::GET, path: ROOMS_DOOR },
];

/// The platform `matrix`. Clones share connections and caches.
#[derive(Clone)]
pub struct Matrix {
    client: PlatformClient,
    api_base: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    rooms: rooms::RoomDirectory,
    own_events: own_events::OwnEvents,
    /// All messages that one action was split into, by the message that the agent knows. An edit must change all of
    /// them.
    split_messages: Cache<(BotId, String), Arc<[String]>>,
    /// Encrypted rooms that are being refused.
    refused_rooms: Cache<(BotId, String), ()>,
    refused: RefusedCredentials,
    split_limits: SplitLimits,
}

impl Matrix {
    /// Base URL of the best-known homeserver.
    pub const API_BASE: &'static str = "https://matrix-client.matrix.org";

    /// Calls go to the homeserver at `api_base`, unless a bot has its own. The process must install a default rustls
    /// crypto provider before the first call.
    pub fn new(api_base: &str, timepiece: Timepiece) -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            timepiece,
            rooms: rooms::RoomDirectory::default(),
            own_events: own_events::OwnEvents::default(),
            split_messages: Cache::builder().max_capacity(10_000).time_to_idle(HOUR).build(),
            refused_rooms: Cache::builder().max_capacity(10_000).time_to_live(HOUR).build(),
            refused: RefusedCredentials::default(),
            split_limits: SplitLimits::default(),
        }
    }

    /// Notes the name of a person, so that it is not looked up.
    pub fn note_person(&self, bot: &BotId, id: &str, name: &str) {
        self.rooms.keep_person(bot, id, name);
    }

    /// Notes what is known about a room, so that it is not looked up.
    pub fn note_room(&self, bot: &BotId, id: &str, room: MatrixRoom) {
        self.rooms.keep_room(bot, id, room);
    }
}

/// Whether the homeserver calls this server for the bot.
fn is_appservice(bot: &OpenedBot) -> bool {
    let has_token = bot.credentials.get(HS_TOKEN).is_some_and(|token| !token.is_empty());
    has_token && bot.setting("mode") != Some("sync")
}

#[async_trait]
impl Platform for Matrix {
    fn name(&self) -> &'static str {
        PLATFORM
    }

    fn supports_context(&self) -> bool {
        true
    }

    fn descriptor(&self, _: &OpenedBot) -> Descriptor {
        Descriptor {
            max_message_length: dialect::MESSAGE_LENGTH as u32,
            supports_edit: true,
            supports_threads: true,
            markdown_dialect: "markdown".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "🟩".to_owned(),
            supports_context: self.supports_context(),
            supported_ops: OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(PLATFORM, LABEL)
        }
    }

    /// Only those stock agents that send typing actions handle an interrupt.
    /// A homeserver packs up to 100 events of at most 64 KiB into one transaction, and never goes past a refused one.
    fn largest_proven_body(&self) -> usize {
        LARGEST_TRANSACTION
    }

    fn stop_rule(&self) -> StopRule {
        StopRule::InterruptIfTyping
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::secret(
                TOKEN,
                "the as_token of the bot's registration file, or the access token of an ordinary user",
            ),
            BotField::secret(
                HS_TOKEN,
                "the hs_token of the registration file, with which the homeserver proves its calls; an ordinary user \
                 has none",
            )
            .optional(),
            BotField::setting(HOMESERVER_URL, "base URL of the bot's homeserver; by default the server's setting")
                .optional(),
            BotField::setting(
                USERNAME,
                "the first part of the id of an application service's user; by default the sender of its registration",
            )
            .optional(),
            BotField::setting(
                INVITATIONS,
                "user ids and server names whose invitations the bot follows, or * for all; by default those of its \
                 own homeserver",
            )
            .optional(),
        ];
        FIELDS
    }

    fn doors(&self) -> &'static [WebhookDoor] {
        &DOORS
    }

    fn delivery(&self, bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        match is_appservice(bot) {
            true => EventDelivery::Webhook,
            false => EventDelivery::Polling,
        }
    }

    fn setup_steps(&self, bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
        register::setup_steps(bot, door)
    }

    fn is_neighbour(&self, bot: &OpenedBot) -> bool {
        self.base_of(bot).starts_with("http://")
    }

    async fn check_credentials(&self, draft: &OpenedBot) -> Result<PlatformBot, BotTrouble> {
        register::check_credentials(self, draft).await
    }

    async fn credential_doubted(&self, bot: &OpenedBot) {
        self.refused.reported(&bot.id).await;
    }

    fn verify_head(&self, bot: &OpenedBot, head: &RequestHead<'_>) -> Result<HeadProof, WebhookRefusal> {
        verify::verify_head(bot, head)
    }

    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        normalize::normalize(self, bot, &verified)
    }

    async fn complete(&self, bot: &OpenedBot, reading: Reading) -> Result<Reading, Fault> {
        self.complete_rooms(bot, reading).await
    }

    async fn acknowledge_interaction(&self, bot: &OpenedBot, ack: InteractionAck) {
        self.call_for_room(bot, &ack).await;
    }

    async fn sees(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        if !ids::is_room_id(chat.as_str()) {
            return false;
        }
        let members = self.joined_members(bot, chat.as_str(), MEMBERS_WITHIN).await;
        members.is_ok_and(|members| members.joined.contains_key(user.as_str()))
    }

    fn visibility_call(&self) -> Option<&'static str> {
        Some("GET joined_members")
    }

    fn text_call(&self) -> Option<&'static str> {
        Some("PUT message")
    }

    fn edit_limits(&self, _chat: &ChatId) -> EditLimits {
        EditLimits { pause: EDIT_PAUSE, most: None }
    }

    async fn perform(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        egress::perform(self, bot, permitted).await
    }

    async fn send_media(
        &self,
        bot: &OpenedBot,
        permitted: PermittedAction,
        media: StoredMedia,
    ) -> EgressResult {
        egress::send_media(self, bot, permitted, media).await
    }

    fn media_call(&self) -> Option<&'static str> {
        Some("GET media")
    }

    async fn fetch_media(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        media::fetch(self, bot, reference, into).await
    }

    /// A homeserver reads where an application service is from a file of its own. The operator writes it.
    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }

    async fn fetch(&self, feed: &mut EventFeed) -> FeedEnd {
        sync::fetch(self, feed).await
    }
}
