//! Slack: events, interactions and slash commands by webhook or over Socket Mode, and actions over its Web API.
//!
//! A bot is an app that is installed in one workspace, or in one organization. Settings of a bot:
//!
//! - `mode`: `webhook` to get events by webhook although the bot has an app-level token
//! - `api_base_url`: overrides the server's setting
//! - `team_id`, `team`, `enterprise_id`, `bot_user_id`, `bot_id`, `app_id`, `username`: read from Slack when the bot is
//!   created

mod api;
mod directory;
mod egress;
mod emoji;
mod follow_up;
mod form;
mod joined_threads;
mod media;
mod members;
mod mrkdwn;
mod normalize;
mod payload;
mod prompt_texts;
mod readable_text;
mod register;
mod socket_mode;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::frame::CommandManifest;
use posthouse_wire::{BotId, ChatId, Descriptor, MessageId, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

use crate::Fault;
use crate::bots::OpenedBot;
use crate::edit_streams::EditLimits;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, Platform, PlatformBot, Reading, StoredMedia, UnverifiedRequest,
    Verification, VerifiedRequest, WebhookDoor, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

pub use directory::{SlackChat, SlackChatKind};

const PLATFORM: &str = "slack";
/// Display name of the platform.
const LABEL: &str = "Slack";
const TOKEN: &str = "token";
const SIGNING_SECRET: &str = "signing_secret";
const APP_TOKEN: &str = "app_token";
const TEAM_ID: &str = "team_id";
const ENTERPRISE_ID: &str = "enterprise_id";
const BOT_USER_ID: &str = "bot_user_id";
const BOT_ID: &str = "bot_id";
const APP_ID: &str = "app_id";
const RESPONSE_URL: &str = "slack.response_url";
const TRIGGER_ID: &str = "slack.trigger_id";
const EVENTS_DOOR: &str = "/events";
const INTERACTIONS_DOOR: &str = "/interactions";
const COMMANDS_DOOR: &str = "/commands";
/// Longest message, in characters. Slack cuts a text of more than 40,000 without an error.
const MESSAGE_LENGTH: usize = 39_000;
/// Shortest time between two edits of a message.
const EDIT_PAUSE: Duration = Duration::from_millis(1200);
/// Time limit for calls that no action waits for.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The ops that Slack carries out.
const OPS: [&str; 9] = [
    "send",
    "edit",
    "typing",
    "follow_up",
    "get_chat_info",
    "send_media",
    "prompt",
    "react",
    "thread_create",
];

/// Slack has three addresses for an app. Each may be any of these, because the body says what it is.
static DOORS: [WebhookDoor; 4] = [
    WebhookDoor::post(""),
    WebhookDoor::post(EVENTS_DOOR),
    WebhookDoor::post(INTERACTIONS_DOOR),
    WebhookDoor::post(COMMANDS_DOOR),
];

/// The platform `slack`. Clones share connections and caches.
#[derive(Clone)]
pub struct Slack {
    client: PlatformClient,
    api_base: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    directory: directory::SlackDirectory,
    joined_threads: joined_threads::JoinedThreads,
    prompt_texts: prompt_texts::PromptTexts,
    /// The direct message with each person.
    direct_messages: Cache<(BotId, String), String>,
    /// All messages that one action was split into, by the message that the agent knows. An edit must change all of
    /// them.
    split_messages: Cache<(BotId, String, String), Arc<[String]>>,
    /// Bots whose app may not show a status.
    statusless: Cache<BotId, ()>,
    split_limits: SplitLimits,
    refused: RefusedCredentials,
}

impl Slack {
    /// Base URL of Slack's own API.
    pub const API_BASE: &'static str = "https://slack.com/api";

    /// Calls go to `api_base`, unless a bot has its own `api_base_url`. The process must install a default rustls
    /// crypto provider before the first call.
    pub fn new(api_base: &str, timepiece: Timepiece) -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            timepiece,
            directory: directory::SlackDirectory::default(),
            joined_threads: joined_threads::JoinedThreads::default(),
            prompt_texts: prompt_texts::PromptTexts::default(),
            direct_messages: Cache::builder().max_capacity(10_000).time_to_live(HOUR).build(),
            split_messages: Cache::builder().max_capacity(10_000).time_to_idle(HOUR).build(),
            statusless: Cache::builder().max_capacity(10_000).time_to_live(HOUR / 6).build(),
            split_limits: SplitLimits::default(),
            refused: RefusedCredentials::default(),
        }
    }

    /// Notes the name of a person of a bot's workspace, so that it is not looked up.
    pub fn note_person(&self, bot: &BotId, id: &str, name: &str) {
        self.directory.keep_person(bot, id, name.to_owned());
    }

    /// Notes what is known about a channel of a bot's workspace, so that it is not looked up.
    pub fn note_chat(&self, bot: &BotId, id: &str, chat: SlackChat) {
        self.directory.keep_chat(bot, id, chat);
    }
}

#[async_trait]
impl Platform for Slack {
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
            markdown_dialect: "slack_mrkdwn".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "💼".to_owned(),
            supports_context: self.supports_context(),
            supported_ops: OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(PLATFORM, LABEL)
        }
    }

    /// On Slack an interrupt stalls stock gateways (relay contract section 13.1).
    fn stop_rule(&self) -> StopRule {
        StopRule::Text
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::secret(
                TOKEN,
                "the Bot User OAuth Token (xoxb-…), from the page OAuth & Permissions of the app",
            ),
            BotField::secret(
                SIGNING_SECRET,
                "the Signing Secret, from the page Basic Information of the app; proves webhooks",
            )
            .optional(),
            BotField::secret(
                APP_TOKEN,
                "an App-Level Token (xapp-…) with the scope connections:write, from the page Basic Information of the \
                 app; opens Socket Mode",
            )
            .optional(),
        ];
        FIELDS
    }

    fn doors(&self) -> &'static [WebhookDoor] {
        &DOORS
    }

    fn delivery(&self, bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        match register::uses_socket(bot) {
            true => EventDelivery::Socket,
            false => EventDelivery::Webhook,
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

    fn verify<'a>(&'a self, bot: &'a OpenedBot, raw: UnverifiedRequest) -> Verification<'a> {
        verify::verify(bot, raw).into()
    }

    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        normalize::normalize(self, bot, &verified)
    }

    async fn complete(&self, bot: &OpenedBot, reading: Reading) -> Result<Reading, Fault> {
        Ok(self.complete_names(bot, reading).await)
    }

    async fn sees(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        self.is_member(bot, user, chat).await
    }

    fn visibility_call(&self) -> Option<&'static str> {
        Some("conversations.members")
    }

    fn text_call(&self) -> Option<&'static str> {
        Some("chat.postMessage")
    }

    /// Slack counts 50 edits a minute of one app in a workspace.
    fn edit_limits(&self, _chat: &ChatId) -> EditLimits {
        EditLimits { pause: EDIT_PAUSE, most: None }
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
        Some("files.info")
    }

    async fn fetch_media(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        media::fetch(self, bot, reference, into).await
    }

    /// Slack has no call that sets the addresses of an app with the app's own tokens. The operator enters them.
    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }

    /// Slash commands are part of the app's manifest, which no token of the app can change.
    async fn register_commands(&self, bot: &OpenedBot, commands: &CommandManifest) -> Result<(), BotTrouble> {
        if !commands.0.is_empty() {
            tracing::info!(bot.id = %bot.id, commands = commands.0.len(), "Slack offers announced commands only if the operator adds them to the app's manifest");
        }
        Ok(())
    }

    async fn fetch(&self, feed: &mut EventFeed) -> FeedEnd {
        socket_mode::fetch(self, feed).await
    }
}
