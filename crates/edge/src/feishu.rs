//! Feishu and Lark: events and card actions by webhook or over a long connection, and actions over the Open API.
//!
//! A bot is an app of one company. Settings of a bot:
//!
//! - `app_id`: the id of the app, which is also the id of the bot
//! - `domain`: `lark` for apps of open.larksuite.com; otherwise the server's setting counts
//! - `mode`: `webhook` or `socket`; by default a bot with a verification token gets its events by webhook
//! - `api_base_url`: overrides the server's setting
//! - `bot_open_id`, `username`: read from Feishu when the bot is created

mod api;
mod directory;
mod egress;
mod emoji;
mod follow_up;
pub mod frames;
mod long_connection;
mod media;
mod members;
mod normalize;
mod payload;
mod post_text;
mod register;
mod streamed_cards;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{BotId, ChatId, Descriptor, MessageId, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

use crate::Fault;
use crate::bots::OpenedBot;
use crate::edit_streams::EditLimits;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, Platform, PlatformBot, Reading, StoredMedia, UnverifiedRequest,
    Verification, VerifiedRequest, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

pub use directory::FeishuChat;

const PLATFORM: &str = "feishu";
/// Display name of the platform.
const LABEL: &str = "Feishu";
const APP_ID: &str = "app_id";
const APP_SECRET: &str = "app_secret";
const ENCRYPT_KEY: &str = "encrypt_key";
const VERIFICATION_TOKEN: &str = "verification_token";
const DOMAIN: &str = "domain";
const MODE: &str = "mode";
const BOT_OPEN_ID: &str = "bot_open_id";
const CARD_TOKEN: &str = "feishu.card_token";
/// Longest message, in characters.
const MESSAGE_LENGTH: usize = 8_000;
/// Edits that Feishu accepts of one message. After that it is never changed again.
const MOST_EDITS: u32 = 20;
/// Time limit for calls that no action waits for.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The ops that Feishu carries out. It shows nobody that a bot is typing.
const OPS: [&str; 8] =
    ["send", "edit", "follow_up", "get_chat_info", "send_media", "prompt", "react", "thread_create"];

/// The platform `feishu`. Clones share connections and caches.
#[derive(Clone)]
pub struct Feishu {
    client: PlatformClient,
    api_base: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    tokens: api::TenantTokens,
    directory: directory::FeishuDirectory,
    cards: streamed_cards::StreamedCards,
    /// All messages that one action was split into, by the message that the agent knows. An edit must change all of
    /// them.
    split_messages: Cache<(BotId, String), Arc<[String]>>,
    /// The texts of prompts, without which the buttons cannot be taken away.
    prompt_texts: Cache<(BotId, String), String>,
    /// The ids of reactions, by message and kind. Only by its id a reaction can be removed.
    reactions: Cache<(BotId, String, String), String>,
    refused: RefusedCredentials,
    split_limits: SplitLimits,
}

impl Feishu {
    /// Base URL of Feishu's API.
    pub const API_BASE: &'static str = "https://open.feishu.cn";
    /// Base URL of Lark's API.
    pub const LARK_BASE: &'static str = "https://open.larksuite.com";

    /// Calls go to `api_base`, unless a bot has its own `api_base_url` or `domain`. The process must install a default
    /// rustls crypto provider before the first call.
    pub fn new(api_base: &str, timepiece: Timepiece) -> Self {
        const HOUR: Duration = Duration::from_secs(3600);
        Self {
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            timepiece,
            tokens: api::TenantTokens::default(),
            directory: directory::FeishuDirectory::default(),
            cards: streamed_cards::StreamedCards::default(),
            split_messages: Cache::builder().max_capacity(10_000).time_to_idle(HOUR).build(),
            prompt_texts: Cache::builder().max_capacity(10_000).time_to_live(HOUR * 24).build(),
            reactions: Cache::builder().max_capacity(10_000).time_to_live(HOUR).build(),
            refused: RefusedCredentials::default(),
            split_limits: SplitLimits::default(),
        }
    }

    /// Notes the name of a person of a bot's company, so that it is not looked up.
    pub fn note_person(&self, bot: &BotId, id: &str, name: &str) {
        self.directory.keep_person(bot, id, name);
    }

    /// Notes what is known about a chat of a bot, so that it is not looked up.
    pub fn note_chat(&self, bot: &BotId, id: &str, chat: FeishuChat) {
        self.directory.keep_chat(bot, id, chat);
    }
}

#[async_trait]
impl Platform for Feishu {
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
            markdown_dialect: "feishu_post".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "🪽".to_owned(),
            supports_context: self.supports_context(),
            supported_ops: OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(PLATFORM, LABEL)
        }
    }

    /// Only those stock agents that send typing actions handle an interrupt.
    fn stop_rule(&self) -> StopRule {
        StopRule::InterruptIfTyping
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::setting(APP_ID, "the App ID (cli_…), from the page Credentials & Basic Info of the app"),
            BotField::secret(APP_SECRET, "the App Secret, from the same page"),
            BotField::secret(
                VERIFICATION_TOKEN,
                "the Verification Token, from the page Events & Callbacks > Encryption Strategy; needed for events by \
                 webhook",
            )
            .optional(),
            BotField::secret(
                ENCRYPT_KEY,
                "the Encrypt Key, from the same page; with it only encrypted and signed webhooks are accepted",
            )
            .optional(),
            BotField::setting(DOMAIN, "feishu or lark; by default the server's").optional(),
            BotField::setting(
                MODE,
                "webhook or socket (the long connection); by default webhook if there is a verification token",
            )
            .optional(),
        ];
        FIELDS
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
        Some("GET members")
    }

    fn text_call(&self) -> Option<&'static str> {
        Some("POST messages")
    }

    fn message_edit_limits(&self, bot: &OpenedBot, _chat: &ChatId, message: &MessageId) -> EditLimits {
        match self.cards.has(&bot.id, message.as_str()) {
            true => EditLimits { pause: Duration::from_millis(100), most: None },
            false => EditLimits { pause: Duration::from_millis(200), most: Some(MOST_EDITS) },
        }
    }

    async fn text_is_final(&self, bot: &OpenedBot, message: &MessageId) {
        self.end_stream(bot, message.as_str()).await;
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
        Some("GET resources")
    }

    async fn fetch_media(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        media::fetch(self, bot, reference, into).await
    }

    /// Feishu has no call that sets the address of an app with the app's own credentials. The operator enters it.
    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }

    async fn fetch(&self, feed: &mut EventFeed) -> FeedEnd {
        long_connection::fetch(self, feed).await
    }
}
