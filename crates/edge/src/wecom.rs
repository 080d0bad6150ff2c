//! WeCom: applications by callback (platform `wecom_callback`), and AI bots by a long connection or by callback
//! (platform `wecom`).
//!
//! Settings of an application: `corp_id` and `agent_id`, and `suite_id` if a service provider runs it. Settings of an
//! AI bot: `bot_id`, and `mode` set to `webhook` to get callbacks although the bot has a secret for the long
//! connection. Both can have their own `api_base_url`; an AI bot also its own `socket_url`.

mod access_tokens;
mod api;
mod bot_files;
mod cards;
mod egress;
mod envelope;
mod follow_up;
mod long_connection;
mod media;
mod normalize;
mod open_connections;
mod passive_streams;
mod payload;
mod register;
mod verify;
mod xml;

use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{BotId, ChatId, Descriptor, MessageId, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

use self::access_tokens::WeComTokens;
use self::bot_files::BotFiles;
use self::cards::SentCards;
use self::open_connections::LongConnections;
use self::passive_streams::PassiveStreams;
use crate::bots::OpenedBot;
use crate::event_feed::{EventFeed, FeedEnd};
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform::{
    BotField, BotTrouble, EventDelivery, Platform, PlatformBot, PlatformResponse, Reading, StoredMedia,
    UnverifiedRequest, Verification, VerifiedRequest, WebhookDoor, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

/// Display name of the platform.
const LABEL: &str = "WeCom";
const CORP: &str = "corp_id";
const AGENT: &str = "agent_id";
const SUITE: &str = "suite_id";
const BOT: &str = "bot_id";
const MODE: &str = "mode";
const SECRET: &str = "api_secret";
const CALLBACK_TOKEN: &str = "token";
const AES_KEY: &str = "encoding_aes_key";
const RESPONSE_URL: &str = "wecom.response_url";
const RESPONSE_CODE: &str = "wecom.response_code";
/// Longest text of an application, in bytes. WeCom cuts a longer one without an error.
const APP_BYTES: usize = 2048;
/// The characters that surely fit into it.
const APP_CHARS: u32 = 680;
/// Longest message of an AI bot, in characters, and longest content of one answer, in bytes.
const BOT_CHARS: usize = 4000;
const ANSWER_BYTES: usize = 20_480;
/// The ops of applications, and those of AI bots.
const APP_OPS: [&str; 5] = ["send", "follow_up", "get_chat_info", "send_media", "prompt"];
const BOT_OPS: [&str; 4] = ["send", "follow_up", "get_chat_info", "prompt"];
static DOORS: [WebhookDoor; 2] = [WebhookDoor::post(""), WebhookDoor { method: Method::GET, path: "" }];

/// A product of WeCom, which is a platform of its own for agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeComProduct {
    /// An application of a company, or of a service provider.
    App,
    AiBot,
}

impl WeComProduct {
    const fn platform(self) -> &'static str {
        match self {
            WeComProduct::App => "wecom_callback",
            WeComProduct::AiBot => "wecom",
        }
    }

    /// The recipient that every envelope names. `None` if the bot lacks it.
    fn receive_id(self, bot: &OpenedBot) -> Option<&str> {
        match self {
            WeComProduct::App => bot.setting(SUITE).or(bot.setting(CORP)),
            WeComProduct::AiBot => Some(""),
        }
    }
}

/// One product of WeCom. Clones share connections and caches.
#[derive(Clone)]
pub struct WeCom {
    product: WeComProduct,
    client: PlatformClient,
    api_base: String,
    socket_url: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    refused: RefusedCredentials,
    split_limits: SplitLimits,
    access_tokens: WeComTokens,
    cards: SentCards,
    files: BotFiles,
    streams: PassiveStreams,
    connections: LongConnections,
    /// Chats that are known to be groups.
    groups: Cache<(BotId, String), ()>,
}

impl WeCom {
    /// Base URL of WeCom's API.
    pub const API_BASE: &'static str = "https://qyapi.weixin.qq.com";
    /// Address of the long connections of AI bots.
    pub const SOCKET_URL: &'static str = "wss://openws.work.weixin.qq.com";

    /// Calls go to `api_base` and long connections to `socket_url`, unless a bot has its own. The process must install
    /// a default rustls crypto provider before the first call.
    pub fn new(product: WeComProduct, api_base: &str, socket_url: &str, timepiece: Timepiece) -> Self {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        Self {
            product,
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            socket_url: socket_url.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            refused: RefusedCredentials::default(),
            split_limits: SplitLimits::default(),
            access_tokens: WeComTokens::default(),
            cards: SentCards::default(),
            files: BotFiles::default(),
            streams: PassiveStreams::new(timepiece.clone()),
            connections: LongConnections::new(timepiece.clone()),
            groups: Cache::builder().max_capacity(10_000).time_to_idle(DAY).build(),
            timepiece,
        }
    }
}

/// Whether an AI bot gets its events over a long connection.
fn uses_long_connection(bot: &OpenedBot) -> bool {
    bot.setting(MODE) != Some("webhook")
        && bot.credentials.get(SECRET).is_some_and(|secret| !secret.is_empty())
}

#[async_trait]
impl Platform for WeCom {
    fn name(&self) -> &'static str {
        self.product.platform()
    }

    /// Both products name their capabilities alike.
    fn capability_prefix(&self) -> &'static str {
        "wecom"
    }

    fn descriptor(&self, _: &OpenedBot) -> Descriptor {
        let (length, dialect, ops) = match self.product {
            WeComProduct::App => (APP_CHARS, "plain", &APP_OPS[..]),
            WeComProduct::AiBot => (BOT_CHARS as u32, "markdown", &BOT_OPS[..]),
        };
        Descriptor {
            max_message_length: length,
            markdown_dialect: dialect.to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "💼".to_owned(),
            supported_ops: ops.iter().map(|op| (*op).to_owned()).collect(),
            ..Descriptor::new(self.product.platform(), LABEL)
        }
    }

    /// Only those stock agents that send typing actions handle an interrupt.
    fn stop_rule(&self) -> StopRule {
        StopRule::InterruptIfTyping
    }

    fn fields(&self) -> &'static [BotField] {
        register::fields(self.product)
    }

    fn doors(&self) -> &'static [WebhookDoor] {
        &DOORS
    }

    fn delivery(&self, bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        match self.product {
            WeComProduct::AiBot if uses_long_connection(bot) => EventDelivery::Socket,
            _ => EventDelivery::Webhook,
        }
    }

    fn setup_steps(&self, bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
        register::setup_steps(self.product, bot, door)
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
        verify::verify(self.product, bot, raw).into()
    }

    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        if verified.method == Method::GET {
            // The handshake of a new URL: its decrypted text, and nothing else.
            let echo = PlatformResponse {
                content_type: Some("text/plain"),
                ..PlatformResponse::text(verified.body)
            };
            return Ok(Reading { reply: echo, ..Reading::default() });
        }
        Ok(match self.product {
            WeComProduct::App => normalize::app(bot, &verified),
            WeComProduct::AiBot => normalize::ai_bot(self, bot, &verified),
        })
    }

    /// Applications have direct chats only, and WeCom tells nobody who is in a group with an AI bot.
    async fn sees(&self, _bot: &OpenedBot, _user: &UserId, _chat: &ChatId) -> bool {
        false
    }

    async fn perform(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        egress::perform(self, bot, permitted).await
    }

    async fn follow_up(&self, bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
        follow_up::send(self, bot, follow_up).await
    }

    async fn close_prompt(&self, bot: &OpenedBot, _chat: &ChatId, message: &MessageId) {
        cards::close(self, bot, message).await;
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
        match self.product {
            WeComProduct::App => Some("media/get"),
            // The URL of a file is its own credential.
            WeComProduct::AiBot => None,
        }
    }

    async fn fetch_media(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        media::fetch(self, bot, reference, into).await
    }

    /// The URL of a file of an AI bot ends after five minutes, and is kept in memory.
    fn ends_early(&self, reference: &str) -> bool {
        reference.starts_with(bot_files::FILE_REFERENCE)
    }

    fn text_call(&self) -> Option<&'static str> {
        match self.product {
            WeComProduct::App => Some("message/send"),
            WeComProduct::AiBot => Some("aibot_send_msg"),
        }
    }

    /// A person's chat with an AI bot has the person's id. That with an application also names the company.
    fn direct_chat(&self, user: &UserId) -> Option<ChatId> {
        (self.product == WeComProduct::AiBot).then(|| user.as_str().into())
    }

    /// The operator enters the URL of callbacks in WeCom's console. There is no call for it.
    async fn register(&self, _bot: &OpenedBot, _door: Option<&str>) -> Result<(), BotTrouble> {
        Ok(())
    }

    async fn fetch(&self, feed: &mut EventFeed) -> FeedEnd {
        long_connection::fetch(self, feed).await
    }
}
