//! Telegram, over its Bot API: receives updates by webhook or long polling, and sends actions.
//!
//! Settings of a bot:
//!
//! - `mode`: `webhook` or `poll`
//! - `api_base_url`: overrides the server's setting
//! - `forum_chat_type`: chat type of a forum group in session keys; default `group`
//! - `business`: `on` to get messages of business accounts that are connected to the bot, and to answer in their name
//! - `calls_per_second`: messages and edits that the bot may send in a second; default 30
//! - `username` and `bot_user_id`: read from Telegram when the bot is created

mod api;
mod egress;
pub mod markdown;
mod media;
mod members;
mod normalize;
mod poll;
mod register;
mod update;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{BotId, ChatId, ChatInfo, Descriptor, MessageId, Secret, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};
use serde::Serialize;

use crate::bots::OpenedBot;
use crate::edit_streams::EditLimits;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, HeadProof, InteractionAck, Platform, PlatformBot, Reading,
    RequestHead, StoredMedia, VerifiedRequest, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

const PLATFORM: &str = "telegram";
/// Display name of the platform.
const LABEL: &str = "Telegram";
const TOKEN: &str = "token";
const WEBHOOK_SECRET: &str = "webhook_secret";
const CALLBACK_QUERY: &str = "telegram.callback_query_id";
const BUSINESS_CONNECTION: &str = "telegram.business_connection_id";
/// The setting by which an operator lets business accounts connect to the bot.
const BUSINESS: &str = "business";
/// The setting for the limit that all agents of a bot share, and its default.
const CALLS_PER_SECOND: &str = "calls_per_second";
const CALLS_PER_SECOND_BY_DEFAULT: u32 = 30;
/// Telegram's id of the General topic, whose messages carry no topic id.
const GENERAL_TOPIC: &str = "1";
/// Longest message, in UTF-16 units after its entities are parsed.
const MESSAGE_LENGTH: usize = 4096;
/// The ops that Telegram carries out.
const OPS: [&str; 10] = [
    "send",
    "edit",
    "typing",
    "get_chat_info",
    "send_media",
    "prompt",
    "react",
    "thread_create",
    "thread_rename",
    "draft",
];
const ALLOWED_UPDATES: &[&str] = &[
    "message",
    "edited_message",
    "channel_post",
    "callback_query",
    "message_reaction",
    "my_chat_member",
    "business_message",
    "business_connection",
];
/// Time limit for acknowledging a button press. Later the person's client hides its spinner by itself.
const COURTESY: Duration = Duration::from_secs(10);

/// The platform `telegram`. Clones share connections and caches.
#[derive(Clone)]
pub struct Telegram {
    client: PlatformClient,
    api_base: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    chats: Cache<(BotId, i64), ChatInfo>,
    /// All messages that one action was split into, by the message id that the agent knows. An edit must change all
    /// of them.
    split_messages: Cache<(BotId, i64, i64), Arc<[i64]>>,
    /// The messages that final drafts became, by chat and draft.
    finals: Cache<(BotId, i64, i64), MessageId>,
    split_limits: SplitLimits,
    refused: RefusedCredentials,
}

impl Telegram {
    /// Base URL of Telegram's own Bot API.
    pub const API_BASE: &'static str = "https://api.telegram.org";

    /// Calls go to `api_base`, unless a bot has its own `api_base_url`. The process must install a default rustls
    /// crypto provider before the first call.
    pub fn new(api_base: &str, timepiece: Timepiece) -> Self {
        Self {
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            timepiece,
            chats: Cache::builder().max_capacity(10_000).time_to_live(Duration::from_secs(60)).build(),
            split_messages: Cache::builder()
                .max_capacity(10_000)
                .time_to_idle(Duration::from_secs(3600))
                .build(),
            finals: Cache::builder().max_capacity(10_000).time_to_live(Duration::from_secs(600)).build(),
            split_limits: SplitLimits::default(),
            refused: RefusedCredentials::default(),
        }
    }

    /// The same with another resolver of host names, which counts from the first call on.
    pub fn with_lookup(self, lookup: errand::SystemLookup) -> Self {
        Self { client: self.client.with_lookup(lookup), ..self }
    }

    /// The messages that `message` was split into; only itself, if it fitted into one.
    fn recall(&self, bot: &OpenedBot, chat: i64, message: i64) -> Arc<[i64]> {
        self.split_messages.get(&(bot.id.clone(), chat, message)).unwrap_or_else(|| Arc::from([message]))
    }

    fn remember(&self, bot: &OpenedBot, chat: i64, message: i64, parts: &[i64]) {
        let key = (bot.id.clone(), chat, message);
        if parts == [message] {
            self.split_messages.invalidate(&key);
        } else {
            self.split_messages.insert(key, Arc::from(parts));
        }
    }
}

/// Whether the operator wants messages of business accounts. Anybody can connect their account to a bot, and people whom
/// the bot knows would then be answered in chats of that account. So it is off unless it was turned on.
fn takes_business(bot: &OpenedBot) -> bool {
    bot.setting(BUSINESS) == Some("on")
}

#[derive(Serialize)]
struct AnswerCallbackQuery<'a> {
    callback_query_id: &'a str,
}

#[async_trait]
impl Platform for Telegram {
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
            supports_draft_streaming: true,
            supports_threads: true,
            markdown_dialect: "markdown_v2".to_owned(),
            len_unit: LenUnit::Utf16,
            emoji: "✈️".to_owned(),
            pii_safe: true,
            supports_context: self.supports_context(),
            supported_ops: OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(PLATFORM, LABEL)
        }
    }

    /// On Telegram only those stock agents that send typing actions handle an interrupt.
    fn stop_rule(&self) -> StopRule {
        StopRule::InterruptIfTyping
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::secret(TOKEN, "the token that @BotFather gave the bot"),
            BotField::secret(
                WEBHOOK_SECRET,
                "the secret that Telegram sends with each webhook call; 1 to 256 of A-Z a-z 0-9 _ -",
            )
            .generated(),
            BotField::setting(
                BUSINESS,
                "`on` to get messages of business accounts that are connected to the bot; everybody can connect theirs",
            )
            .optional(),
            BotField::setting(
                CALLS_PER_SECOND,
                "messages and edits that the bot may send in a second; by default 30, as Telegram allows without payment",
            )
            .optional(),
        ];
        FIELDS
    }

    fn delivery(&self, bot: &OpenedBot, door: Option<&str>) -> EventDelivery {
        register::delivery(bot, door)
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
        normalize::normalize(bot, &verified)
    }

    async fn acknowledge_interaction(&self, bot: &OpenedBot, ack: InteractionAck) {
        let params = AnswerCallbackQuery { callback_query_id: ack.0.value.expose() };
        let answered = self.call::<bool>(bot, "answerCallbackQuery", &params, COURTESY).await;
        if let Err(failure) = answered {
            tracing::debug!(bot.id = %bot.id, "could not acknowledge a button press: {}", failure.cause(LABEL));
        }
    }

    /// Telegram allows about one message a second in a private chat, and twenty a minute in a group.
    fn edit_limits(&self, chat: &ChatId) -> EditLimits {
        let is_group = chat.as_str().starts_with('-');
        EditLimits { pause: Duration::from_secs(if is_group { 3 } else { 1 }), most: None }
    }

    async fn perform(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        egress::perform(self, bot, permitted, None).await
    }

    /// A message of a customer of a business is answered in the name of that business.
    fn sending_capability(&self, chat: &ChatId) -> Option<&'static str> {
        // Ids of groups and channels are negative.
        (!chat.as_str().starts_with('-')).then_some(BUSINESS_CONNECTION)
    }

    async fn carry_with(
        &self,
        bot: &OpenedBot,
        permitted: PermittedAction,
        media: Option<StoredMedia>,
        capability: &Secret,
    ) -> EgressResult {
        // A connection from before the operator turned them off is no longer used.
        let capability = Some(capability).filter(|_| takes_business(bot));
        match media {
            Some(media) => egress::send_media(self, bot, permitted, media, capability).await,
            None => egress::perform(self, bot, permitted, capability).await,
        }
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
        egress::send_media(self, bot, permitted, media, None).await
    }

    fn media_call(&self) -> Option<&'static str> {
        Some("getFile")
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

    async fn sees(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        self.is_member(bot, user, chat).await
    }

    fn visibility_call(&self) -> Option<&'static str> {
        Some("getChatMember")
    }

    fn text_call(&self) -> Option<&'static str> {
        Some("sendMessage")
    }

    /// A person's direct chat with a bot has the person's id.
    fn direct_chat(&self, user: &UserId) -> Option<ChatId> {
        Some(user.as_str().into())
    }

    async fn fetch(&self, feed: &mut EventFeed) -> FeedEnd {
        poll::fetch(self, feed).await
    }
}
