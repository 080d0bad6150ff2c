//! WhatsApp, over Meta's Cloud API: receives messages by webhook, and sends actions with the Graph API.
//!
//! Settings of a bot:
//!
//! - `phone_number_id`: the id of its phone number, which is also the default id of the bot
//! - `graph_version`, `api_base_url`: override the server's settings
//! - `display_phone_number`: read from WhatsApp when the bot is created

mod api;
mod egress;
mod media;
mod normalize;
mod payload;
mod recent_contacts;
mod register;
mod verify;

use async_trait::async_trait;
use http::Method;
use posthouse_time::Timepiece;
use posthouse_wire::descriptor::LenUnit;
use posthouse_wire::{ChatId, Descriptor, UserId};
use relay::{EgressResult, FetchedMedia, MediaWriter, NotFetched, PermittedAction, StopRule};

use self::recent_contacts::RecentContacts;
use crate::bots::OpenedBot;
use crate::platform::{
    BotField, BotTrouble, EventDelivery, HeadProof, Platform, PlatformBot, Reading, RequestHead, StoredMedia,
    UnverifiedRequest, Verification, VerifiedRequest, WebhookDoor, WebhookRefusal,
};
use crate::platform_calls::{PlatformClient, PlatformRateLimits};
use crate::refused_credentials::RefusedCredentials;
use crate::split_limits::SplitLimits;

const PLATFORM: &str = "whatsapp_cloud";
/// Display name of the platform.
const LABEL: &str = "WhatsApp";
const TOKEN: &str = "token";
const APP_SECRET: &str = "app_secret";
const VERIFY_TOKEN: &str = "verify_token";
/// The setting with the id of the bot's phone number.
const NUMBER: &str = "phone_number_id";
const GRAPH_VERSION: &str = "graph_version";
/// Longest message, in characters.
const MESSAGE_LENGTH: usize = 4096;
/// Largest accepted notification, in bytes.
const LARGEST_BATCH: usize = 4 << 20;
/// The ops that WhatsApp carries out.
const OPS: [&str; 6] = ["send", "typing", "get_chat_info", "send_media", "prompt", "react"];
static DOORS: [WebhookDoor; 2] = [WebhookDoor::post(""), WebhookDoor { method: Method::GET, path: "" }];

/// The platform `whatsapp_cloud`. Clones share connections and caches.
#[derive(Clone)]
pub struct WhatsApp {
    client: PlatformClient,
    api_base: String,
    graph_version: String,
    timepiece: Timepiece,
    rate_limits: PlatformRateLimits,
    contacts: RecentContacts,
    split_limits: SplitLimits,
    refused: RefusedCredentials,
}

impl WhatsApp {
    /// Base URL of the Graph API, without its version.
    pub const API_BASE: &'static str = "https://graph.facebook.com";
    /// The version of the Graph API that is used by default.
    pub const GRAPH_VERSION: &'static str = "v26.0";

    /// Calls go to this version below `api_base`, unless a bot has its own. The process must install a default rustls
    /// crypto provider before the first call.
    pub fn new(api_base: &str, graph_version: &str, timepiece: Timepiece) -> Self {
        Self {
            client: PlatformClient::new(timepiece.clone()),
            api_base: api_base.to_owned(),
            graph_version: graph_version.to_owned(),
            rate_limits: PlatformRateLimits::new(timepiece.clone()),
            timepiece,
            contacts: RecentContacts::default(),
            split_limits: SplitLimits::default(),
            refused: RefusedCredentials::default(),
        }
    }
}

/// The id of the bot's phone number.
fn number_of(bot: &OpenedBot) -> &str {
    bot.setting(NUMBER).unwrap_or(bot.id.as_str())
}

#[async_trait]
impl Platform for WhatsApp {
    fn name(&self) -> &'static str {
        PLATFORM
    }

    fn descriptor(&self, _: &OpenedBot) -> Descriptor {
        Descriptor {
            max_message_length: MESSAGE_LENGTH as u32,
            markdown_dialect: "whatsapp".to_owned(),
            len_unit: LenUnit::Chars,
            emoji: "💬".to_owned(),
            pii_safe: true,
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
            BotField::secret(
                TOKEN,
                "the access token of a system user with the permission whatsapp_business_messaging",
            ),
            BotField::secret(
                APP_SECRET,
                "the app secret, from the page App settings > Basic of Meta's app dashboard",
            ),
            BotField::secret(VERIFY_TOKEN, "the token with which WhatsApp proves that it checks the webhook")
                .generated(),
            BotField::setting(NUMBER, "the id of the phone number, from the page WhatsApp > API Setup"),
            BotField::setting(
                GRAPH_VERSION,
                "the version of the Graph API, such as v26.0; by default the server's",
            )
            .optional(),
        ];
        FIELDS
    }

    fn doors(&self) -> &'static [WebhookDoor] {
        &DOORS
    }

    /// Meta joins notifications to batches of up to 3 MB, and repeats a refused one for days.
    fn largest_unproven_body(&self) -> usize {
        LARGEST_BATCH
    }

    fn delivery(&self, _bot: &OpenedBot, _door: Option<&str>) -> EventDelivery {
        EventDelivery::Webhook
    }

    fn setup_steps(&self, _bot: &OpenedBot, door: Option<&str>) -> Vec<String> {
        register::setup_steps(door)
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

    fn verify<'a>(&'a self, bot: &'a OpenedBot, raw: UnverifiedRequest) -> Verification<'a> {
        verify::verify(bot, raw).into()
    }

    fn normalize(&self, bot: &OpenedBot, verified: VerifiedRequest) -> Result<Reading, WebhookRefusal> {
        match verified.method == Method::GET {
            true => Ok(Reading { reply: verify::challenge(&verified.query), ..Reading::default() }),
            false => normalize::normalize(bot, &self.contacts, &verified),
        }
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

    fn text_call(&self) -> Option<&'static str> {
        Some("POST messages")
    }

    /// A person's chat with a number has the person's id.
    fn direct_chat(&self, user: &UserId) -> Option<ChatId> {
        Some(user.as_str().into())
    }

    /// Without an address that WhatsApp can call, the number gets the webhook of its app again.
    async fn register(&self, bot: &OpenedBot, door: Option<&str>) -> Result<(), BotTrouble> {
        register::register(self, bot, door).await
    }
}
