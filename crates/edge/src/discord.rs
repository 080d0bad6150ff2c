//! Discord: events over its gateway, interactions over the gateway or by webhook, and actions over its HTTP API.
//!
//! Settings of a bot:
//!
//! - `mode`: `webhook` to get slash commands and buttons by webhook; messages always come over the gateway
//! - `api_base_url`: overrides the server's setting
//! - `shards`: number of shards; by default what Discord recommends
//! - `application_id`, `public_key`, `bot_user_id`, `username`: read from Discord when the bot is created

mod api;
mod commands;
mod dialect;
mod directory;
mod egress;
mod follow_up;
mod gateway;
mod lookups;
mod media;
mod members;
mod normalize;
mod payload;
mod refusal_limit;
mod register;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::frame::CommandManifest;
use posthouse_wire::{BotId, ChatId, ChatInfo, Descriptor, MessageId, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::Fault;
use crate::bots::OpenedBot;
use crate::edit_streams::EditLimits;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, InteractionAck, Platform, PlatformBot, Reading, StoredMedia,
    UnverifiedRequest, Verification, VerifiedRequest, WebhookDoor, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

use api::DiscordCall;
use directory::GuildDirectory;
use normalize::OwedCallback;
use refusal_limit::RefusalLimit;

const PLATFORM: &str = "discord";
/// Display name of the platform.
const LABEL: &str = "Discord";
const TOKEN: &str = "token";
const PUBLIC_KEY: &str = "public_key";
const APPLICATION_ID: &str = "application_id";
const INTERACTION_TOKEN: &str = "discord.interaction_token";
/// Capability for the first answer to an interaction. The edge itself sends this answer; no agent can use it.
const INTERACTION_CALLBACK: &str = "discord.interaction_callback";
/// The path at which Discord delivers interactions.
const INTERACTIONS_DOOR: &str = "/interactions";
/// Longest message, in characters.
const MESSAGE_LENGTH: usize = 2000;
/// Discord accepts the first answer to an interaction for three seconds.
const CALLBACK_WITHIN: Duration = Duration::from_secs(3);
/// Discord requires this format.
const USER_AGENT: &str =
    concat!("DiscordBot (https://github.com/posthouse/posthouse, ", env!("CARGO_PKG_VERSION"), ")");
/// The ops that Discord carries out.
const OPS: [&str; 10] = [
    "send",
    "edit",
    "typing",
    "follow_up",
    "get_chat_info",
    "send_media",
    "prompt",
    "react",
    "thread_create",
    "thread_rename",
];

static DOORS: [WebhookDoor; 1] = [WebhookDoor::post(INTERACTIONS_DOOR)];

/// The platform `discord`. Clones share connections and caches.
#[derive(Clone)]
pub struct Discord {
    client: PlatformClient,
    api_base: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    refusal_limit: RefusalLimit,
    /// The rate-limit bucket of each route.
    buckets: Cache<String, String>,
    directories: Cache<BotId, Arc<GuildDirectory>>,
    lookups: lookups::ChannelLookups,
    chats: Cache<(BotId, ChatId), ChatInfo>,
    /// All messages that one action was split into, by the message id that the agent knows. An edit must change all
    /// of them.
    split_messages: Cache<(BotId, String, String), Arc<[String]>>,
    first_answers: follow_up::FirstAnswers,
    command_files: media::CommandFiles,
    split_limits: SplitLimits,
    refused: RefusedCredentials,
}

impl Discord {
    /// Base URL of Discord's own API.
    pub const API_BASE: &'static str = "https://discord.com/api/v10";

    /// Calls go to `api_base`, unless a bot has its own `api_base_url`. The process must install a default rustls
    /// crypto provider before the first call.
    pub fn new(api_base: &str, timepiece: Timepiece) -> Self {
        Self {
            client: PlatformClient::new(timepiece.clone()).with_user_agent(USER_AGENT),
            api_base: api_base.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            refusal_limit: RefusalLimit::new(timepiece.clone()),
            timepiece,
            buckets: Cache::builder().max_capacity(50_000).time_to_idle(Duration::from_secs(3600)).build(),
            directories: Cache::builder().max_capacity(10_000).build(),
            lookups: lookups::ChannelLookups::default(),
            chats: Cache::builder().max_capacity(10_000).time_to_live(Duration::from_secs(60)).build(),
            split_messages: Cache::builder()
                .max_capacity(10_000)
                .time_to_idle(Duration::from_secs(3600))
                .build(),
            first_answers: follow_up::FirstAnswers::default(),
            command_files: media::CommandFiles::default(),
            split_limits: SplitLimits::default(),
            refused: RefusedCredentials::default(),
        }
    }

    /// What is known about the servers of a bot.
    fn directory(&self, bot: &BotId) -> Arc<GuildDirectory> {
        self.directories.get_with_by_ref(bot, Arc::default)
    }

    /// Updates the directory from a gateway event about servers and channels.
    pub fn note_directory(&self, bot: &BotId, event: &str, data: &RawValue) {
        self.directory(bot).note(event, data.get());
    }
}

#[async_trait]
impl Platform for Discord {
    fn name(&self) -> &'static str {
        PLATFORM
    }

    fn supports_context(&self) -> bool {
        true
    }

    fn descriptor(&self, _: &OpenedBot) -> Descriptor {
        Descriptor {
            max_message_length: MESSAGE_LENGTH as u32,
            supports_edit: true,
            supports_threads: true,
            markdown_dialect: "discord".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "💬".to_owned(),
            supports_context: self.supports_context(),
            supported_ops: OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(PLATFORM, LABEL)
        }
    }

    /// On Discord only those stock agents that send typing actions handle an interrupt.
    fn stop_rule(&self) -> StopRule {
        StopRule::InterruptIfTyping
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::secret(
                TOKEN,
                "the bot's token, from the page Bot of its application in Discord's developer portal",
            ),
            BotField::setting(PUBLIC_KEY, "the application's public key; by default it is read from Discord")
                .optional(),
            BotField::setting(
                "shards",
                "the number of gateway connections; by default what Discord recommends",
            )
            .optional(),
        ];
        FIELDS
    }

    fn doors(&self) -> &'static [WebhookDoor] {
        &DOORS
    }

    fn delivery(&self, _bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        EventDelivery::Socket
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

    fn verify<'a>(&'a self, bot: &'a OpenedBot, raw: UnverifiedRequest) -> Verification<'a> {
        verify::verify(bot, raw).into()
    }

    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        normalize::normalize(bot, &self.directory(&bot.id), &self.command_files, &verified)
    }

    async fn complete(&self, bot: &OpenedBot, mut reading: Reading) -> Result<Reading, Fault> {
        let described = self.describe_places(bot, &mut reading).await;
        described.map_err(|failure| Fault::ChatLookup(failure.cause(LABEL)))?;
        Ok(reading)
    }

    /// Answers an interaction that came over the gateway.
    async fn acknowledge_interaction(&self, bot: &OpenedBot, ack: InteractionAck) {
        let Ok(owed) = serde_json::from_str::<OwedCallback>(ack.0.value.expose()) else { return };
        let path = format!("/interactions/{}/{}/callback", owed.interaction_id, owed.token);
        let body = serde_json::from_str(&owed.body).unwrap_or_default();
        let call = DiscordCall::new(Method::POST, "POST /interactions/ID/TOKEN/callback", path)
            .of(owed.interaction_id)
            .json(body)
            .without_token();
        if let Err(failure) = self.call::<IgnoredAny>(bot, call, CALLBACK_WITHIN).await {
            tracing::debug!(bot.id = %bot.id, "could not acknowledge an interaction: {}", failure.cause(LABEL));
        }
    }

    async fn sees(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        self.can_view(bot, user, chat).await
    }

    fn visibility_call(&self) -> Option<&'static str> {
        Some("GET /guilds/ID/members/ID")
    }

    fn text_call(&self) -> Option<&'static str> {
        Some("POST /channels/ID/messages")
    }

    /// Discord counts five edits in five seconds for each channel.
    fn edit_limits(&self, _chat: &ChatId) -> EditLimits {
        EditLimits { pause: Duration::from_secs(1), most: None }
    }

    async fn perform(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        egress::perform(self, bot, permitted).await
    }

    async fn follow_up(&self, bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
        follow_up::send(self, bot, follow_up).await
    }

    async fn close_prompt(&self, bot: &OpenedBot, chat: &ChatId, message: &MessageId) {
        egress::close_prompt(self, bot, chat, message).await;
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
        Some("GET /channels/ID/messages/ID")
    }

    /// The URL of a file of a slash command is only in the interaction, and is kept in memory.
    fn ends_early(&self, reference: &str) -> bool {
        reference.starts_with(media::COMMAND_FILE_REFERENCE)
    }

    async fn fetch_media(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        media::fetch(self, bot, reference, into).await
    }

    async fn register(&self, bot: &OpenedBot, door: Option<&str>) -> Result<(), BotTrouble> {
        register::register(self, bot, door).await
    }

    async fn register_commands(&self, bot: &OpenedBot, commands: &CommandManifest) -> Result<(), BotTrouble> {
        register::register_commands(self, bot, commands).await
    }

    async fn fetch(&self, feed: &mut EventFeed) -> FeedEnd {
        gateway::fetch(self, feed).await
    }
}
