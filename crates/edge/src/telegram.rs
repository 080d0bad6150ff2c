//! Telegram, by its Bot API: updates in by webhook or long polling, actions out.
//!
//! Settings of a bot: `mode` (`webhook` or `poll`), `api_base_url` (instead of the house's),
//! `forum_chat_type` (what a forum group is called in session keys; `group` unless said), and, learned
//! from Telegram itself, `username` and `bot_user_id`.

mod api;
mod egress;
pub mod markdown;
mod normalize;
mod poll;
mod settle;
mod update;
mod verify;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{Action, BotId, ChatInfo, Descriptor};
use relay::{Carried, Order};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::bots::Bot;
use crate::intake::Intake;
use crate::platform::{Courtesy, Met, Need, Platform, Raw, Reading, Refusal, Settled, Trouble, Verified};

const PLATFORM: &str = "telegram";
const TOKEN: &str = "token";
const WEBHOOK_SECRET: &str = "webhook_secret";
const CALLBACK_QUERY: &str = "telegram.callback_query_id";
const BUSINESS_CONNECTION: &str = "telegram.business_connection_id";
/// How Telegram itself addresses the topic that has no id in messages.
const GENERAL_TOPIC: &str = "1";
/// UTF-16 units in one message, after its entities are parsed.
const MESSAGE_LENGTH: usize = 4096;
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
/// How long somebody looks at a spinner before it gives up by itself.
const COURTESY: Duration = Duration::from_secs(10);

/// The platform. Clones share connections and memory.
#[derive(Clone)]
pub struct Telegram {
    /// Made for the first call: it reads the machine's certificates, which a house without bots need not do.
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
    api_base: String,
    timepiece: Timepiece,
    chats: Cache<(BotId, i64), ChatInfo>,
    /// Which messages one action became, by the one the agent knows: an edit must reach them all.
    families: Cache<(BotId, i64, i64), Arc<[i64]>>,
}

impl Telegram {
    /// The address of the Bot API that Telegram runs.
    pub const API_BASE: &'static str = "https://api.telegram.org";

    /// Calls go to `api_base`, unless a bot has an address of its own. The process must have installed a
    /// rustls crypto provider as its default before the first call.
    pub fn new(api_base: &str, timepiece: Timepiece) -> Self {
        Self {
            client: Arc::default(),
            api_base: api_base.to_owned(),
            timepiece,
            chats: Cache::builder().max_capacity(10_000).time_to_live(Duration::from_secs(60)).build(),
            families: Cache::builder().max_capacity(10_000).time_to_idle(Duration::from_secs(3600)).build(),
        }
    }

    /// The messages that stand for `message`; itself, unless it was ever too long for one.
    fn recall(&self, bot: &Bot, chat: i64, message: i64) -> Arc<[i64]> {
        self.families.get(&(bot.id.clone(), chat, message)).unwrap_or_else(|| Arc::from([message]))
    }

    fn remember(&self, bot: &Bot, chat: i64, message: i64, family: &[i64]) {
        let key = (bot.id.clone(), chat, message);
        if family == [message] {
            self.families.invalidate(&key);
        } else {
            self.families.insert(key, Arc::from(family));
        }
    }
}

/// Who we are on Telegram.
struct Us<'a> {
    id: Option<i64>,
    username: Option<&'a str>,
}

impl<'a> Us<'a> {
    fn of(bot: &'a Bot) -> Self {
        // Without a setting the bot's own id will do: by default it is the same number.
        let id = bot.setting("bot_user_id").unwrap_or(bot.id.as_str()).parse().ok();
        Self { id, username: bot.setting("username") }
    }

    fn is_called(&self, name: &str) -> bool {
        self.username.is_some_and(|username| username.eq_ignore_ascii_case(name))
    }
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

    fn descriptor(&self, _: &Bot) -> Descriptor {
        Descriptor {
            max_message_length: MESSAGE_LENGTH as u32,
            supports_edit: true,
            supports_threads: true,
            markdown_dialect: "markdown_v2".to_owned(),
            len_unit: LenUnit::Utf16,
            emoji: "✈️".to_owned(),
            pii_safe: true,
            supports_context: true,
            supported_ops: Action::OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(PLATFORM, "Telegram")
        }
    }

    fn needs(&self) -> &'static [Need] {
        &[
            Need { name: TOKEN, about: "the token that @BotFather gave the bot", generated: false },
            Need {
                name: WEBHOOK_SECRET,
                about: "what Telegram proves itself with when it calls; 1 to 256 of A-Z a-z 0-9 _ -",
                generated: true,
            },
        ]
    }

    fn is_neighbour(&self, bot: &Bot) -> bool {
        self.base_of(bot).starts_with("http://")
    }

    async fn meet(&self, draft: &Bot) -> Result<Met, Trouble> {
        settle::meet(self, draft).await
    }

    fn verify(&self, bot: &Bot, raw: Raw) -> Result<Verified, Refusal> {
        verify::verify(bot, raw)
    }

    fn normalize(&self, bot: &Bot, verified: Verified) -> Result<Reading, Refusal> {
        normalize::normalize(bot, &verified)
    }

    async fn be_courteous(&self, bot: &Bot, courtesy: Courtesy) {
        let params = AnswerCallbackQuery { callback_query_id: courtesy.0.value.expose() };
        let answered = self.call::<bool>(bot, "answerCallbackQuery", &params, COURTESY).await;
        if let Err(failure) = answered {
            tracing::debug!(bot.id = %bot.id, "a pressed button was not answered: {}", failure.cause());
        }
    }

    async fn carry(&self, bot: &Bot, order: Order) -> Carried {
        egress::carry(self, bot, order).await
    }

    async fn settle_in(&self, bot: &Bot, door: Option<&str>) -> Result<Settled, Trouble> {
        settle::settle_in(self, bot, door).await
    }

    async fn fetch(&self, bot: Arc<Bot>, intake: Intake, stop: CancellationToken) {
        poll::fetch(self, bot, intake, stop).await;
    }
}
