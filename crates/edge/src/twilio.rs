//! Twilio: SMS (platform `sms`) and WhatsApp senders (platform `whatsapp`), by webhook and REST API.
//!
//! A bot is one number on one channel. Settings of a bot:
//!
//! - `account_sid`, `number`: the account and the phone number
//! - `api_key_sid`: the API key with which messages are sent, instead of the auth token
//! - `shared_key_id`: the key of the newer signatures
//! - `messaging_service_sid`: sends by a messaging service, instead of the number
//! - `webhook_url`: the URL that was registered with Twilio, if a proxy changes it

mod api;
mod egress;
mod media;
mod normalize;
mod register;
mod segments;
mod verify;

use async_trait::async_trait;
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{BotId, ChatId, Descriptor, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

pub use self::segments::segments;
use crate::bots::OpenedBot;
use crate::platform::{
    BotField, BotTrouble, EventDelivery, Platform, PlatformBot, Reading, UnverifiedRequest, Verification,
    VerifiedRequest, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

/// Display name of the platform.
const LABEL: &str = "Twilio";
const ACCOUNT: &str = "account_sid";
const NUMBER: &str = "number";
const AUTH_TOKEN: &str = "auth_token";
const API_KEY_ID: &str = "api_key_sid";
const API_KEY_SECRET: &str = "api_key_secret";
const SHARED_KEY_ID: &str = "shared_key_id";
const SHARED_KEY: &str = "shared_key";
const SERVICE: &str = "messaging_service_sid";
const WEBHOOK_URL: &str = "webhook_url";
/// Longest message, in characters.
const MESSAGE_LENGTH: usize = 1600;
/// The ops that Twilio carries out.
const OPS: [&str; 2] = ["send", "get_chat_info"];

/// A channel of Twilio, which is a platform of its own for agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwilioChannel {
    Sms,
    WhatsApp,
}

impl TwilioChannel {
    const fn platform(self) -> &'static str {
        match self {
            TwilioChannel::Sms => "sms",
            TwilioChannel::WhatsApp => "whatsapp",
        }
    }
}

/// One channel of Twilio. Clones share connections.
#[derive(Clone)]
pub struct Twilio {
    channel: TwilioChannel,
    client: PlatformClient,
    api_base: String,
    timepiece: Timepiece,
    /// The webhook of each bot, to which Twilio also reports what became of messages.
    doors: Cache<BotId, String>,
    split_limits: SplitLimits,
    rate_limits: PlatformRateLimits,
    refused: RefusedCredentials,
}

impl Twilio {
    /// Base URL of Twilio's own API.
    pub const API_BASE: &'static str = "https://api.twilio.com";

    /// Calls go to `api_base`, unless a bot has its own `api_base_url`. The process must install a default rustls
    /// crypto provider before the first call.
    pub fn new(channel: TwilioChannel, api_base: &str, timepiece: Timepiece) -> Self {
        Self {
            channel,
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            timepiece,
            doors: Cache::new(10_000),
            split_limits: SplitLimits::default(),
            refused: RefusedCredentials::default(),
        }
    }
}

/// The bot's own address on its channel.
fn own_address(channel: TwilioChannel, bot: &OpenedBot) -> Option<String> {
    let number = bot.setting(NUMBER)?;
    Some(match channel {
        TwilioChannel::Sms => number.to_owned(),
        TwilioChannel::WhatsApp => format!("whatsapp:{number}"),
    })
}

#[async_trait]
impl Platform for Twilio {
    fn name(&self) -> &'static str {
        self.channel.platform()
    }

    fn descriptor(&self, _: &OpenedBot) -> Descriptor {
        let (label, dialect, emoji) = match self.channel {
            TwilioChannel::Sms => ("SMS", "plain", "📱"),
            TwilioChannel::WhatsApp => ("WhatsApp", "whatsapp", "💬"),
        };
        Descriptor {
            max_message_length: MESSAGE_LENGTH as u32,
            markdown_dialect: dialect.to_owned(),
            len_unit: LenUnit::Chars,
            emoji: emoji.to_owned(),
            pii_safe: true,
            supported_ops: OPS.map(str::to_owned).to_vec(),
            ..Descriptor::new(self.channel.platform(), label)
        }
    }

    /// Only those stock agents that send typing actions handle an interrupt.
    fn stop_rule(&self) -> StopRule {
        StopRule::InterruptIfTyping
    }

    fn fields(&self) -> &'static [BotField] {
        const FIELDS: &[BotField] = &[
            BotField::setting(ACCOUNT, "the SID of the account, which begins with AC"),
            BotField::setting(NUMBER, "the bot's phone number, such as +15550100"),
            BotField::secret(
                AUTH_TOKEN,
                "the auth token of the account, from the start page of Twilio's console",
            ),
            BotField::setting(API_KEY_ID, "the SID of an API key for sending, which begins with SK")
                .optional(),
            BotField::secret(API_KEY_SECRET, "the secret of that API key").optional(),
            BotField::setting(SHARED_KEY_ID, "the id of a shared key that signs the webhooks").optional(),
            BotField::secret(SHARED_KEY, "the secret of that shared key").optional(),
            BotField::setting(SERVICE, "the SID of a messaging service that sends, which begins with MG")
                .optional(),
            BotField::setting(WEBHOOK_URL, "the URL registered with Twilio, if a proxy changes it")
                .optional(),
        ];
        FIELDS
    }

    fn delivery(&self, _bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        EventDelivery::Webhook
    }

    fn setup_steps(&self, bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
        register::setup_steps(self.channel, bot.setting(WEBHOOK_URL).or(door))
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
        normalize::normalize(self.channel, bot, &verified)
    }

    async fn perform(&self, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
        egress::perform(self, bot, permitted).await
    }

    fn media_call(&self) -> Option<&'static str> {
        Some("GET Media")
    }

    async fn fetch_media(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        media::fetch(self, bot, reference, into).await
    }

    fn text_call(&self) -> Option<&'static str> {
        Some("POST Messages")
    }

    /// A person's chat with a number has the person's id.
    fn direct_chat(&self, user: &UserId) -> Option<ChatId> {
        Some(user.as_str().into())
    }

    /// Remembers the webhook for reports about messages. The operator enters it in Twilio's console.
    async fn register(&self, bot: &OpenedBot, door: Option<&str>) -> Result<(), BotTrouble> {
        match bot.setting(WEBHOOK_URL).or(door) {
            Some(door) => self.doors.insert(bot.id.clone(), door.to_owned()),
            None => self.doors.invalidate(&bot.id),
        }
        Ok(())
    }
}
