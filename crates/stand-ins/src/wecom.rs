//! Stand-in for WeCom: applications with encrypted callbacks and their API, AI bots with callbacks or a long
//! connection.
//!
//! [`WeComStandIn`] starts it in the process. [`WeComInjection`] scripts what people do. Events of an AI bot go over
//! its long connection, if there is one; all others go to the URL that [`set_callback`](WeComStandIn::set_callback)
//! gave. The long connection is at [`socket_url`](WeComStandIn::socket_url).

mod callbacks;
mod calls;
mod envelope;
mod inject;
mod settings;
mod socket;

use std::{
    collections::{HashMap, HashSet},
    io,
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use http::{Response, request::Parts};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use self::{
    calls::{WeComFile, error},
    socket::{BotSocket, DisplacedFrames},
};
pub use self::{
    inject::WeComInjection,
    settings::{Settings, WeComApp, WeComBot},
    socket::WeComSocketOrder,
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, Recent, StandIn, StandInPlatform, respond,
};

/// State and behaviour of WeCom, run by [`WeComStandIn`].
pub struct WeComPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<WeComWorld>,
}

/// State of WeCom.
#[derive(Default)]
struct WeComWorld {
    /// URLs of callbacks, by account.
    callbacks: HashMap<String, String>,
    /// Accounts whose secret is not accepted any more.
    revoked: HashSet<String>,
    /// Access tokens with their account and end.
    tokens: Recent<(String, i64)>,
    files: Recent<WeComFile>,
    /// Response codes of cards, with their account.
    codes: Recent<String>,
    /// Codes of response URLs, with their bot, chat and beginning.
    response_urls: Recent<(String, String, i64)>,
    /// When a message was sent, and its id, by its content.
    same_messages: Recent<(i64, String)>,
    sockets: HashMap<String, BotSocket>,
    displaced: DisplacedFrames,
}

/// A running stand-in for WeCom.
pub type WeComStandIn = StandIn<WeComPlatform>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallbackSetup {
    url: String,
    #[serde(default)]
    account: Option<String>,
}

impl StandIn<WeComPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<WeComStandIn> {
        StandIn::run(settings.harness.clone(), |harness| WeComPlatform {
            harness,
            settings,
            world: Mutex::default(),
        })
        .await
    }

    /// `ws://127.0.0.1:<port>/ws`: the address of long connections.
    #[must_use]
    pub fn socket_url(&self) -> String {
        format!("ws://{}/ws", self.address())
    }

    /// Sends the callbacks of an account to this URL. It must echo a challenge; the transcript says `callback_verified`
    /// or `callback_refused`.
    ///
    /// # Errors
    /// When there is no such account.
    pub fn set_callback(&self, account: &str, url: &str) -> Result<(), String> {
        self.platform.set_callback(Some(account), url)
    }

    /// Stops to accept the secret of an account. Its access tokens end.
    pub fn revoke(&self, account: &str) {
        let mut world = self.platform.world.lock();
        world.revoked.insert(account.to_owned());
        world.tokens = Recent::default();
    }

    /// Carries out an order on the long connection of a bot. Returns the number of connections.
    pub fn order(&self, bot: &str, order: WeComSocketOrder) -> usize {
        self.platform.order(Some(bot), order)
    }

    /// Whether a bot has a long connection.
    #[must_use]
    pub fn is_connected(&self, bot: &str) -> bool {
        self.platform.world.lock().sockets.contains_key(bot)
    }
}

impl StandInPlatform for WeComPlatform {
    type Injection = WeComInjection;
    const NAME: &'static str = "WeCom";
    const EXAMPLE: &'static str = r#"{"do": "message", "text": "TEXT"}"#;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, body: &[u8]) -> Option<CallSubject> {
        let call = match path.strip_prefix("/cgi-bin/") {
            Some(call) => call,
            None if path == "/ws" || path == "/" => "socket",
            None if path.starts_with("/files/") => "file",
            None => return None,
        };
        let known = [
            "gettoken",
            "message/send",
            "message/update_template_card",
            "media/upload",
            "media/get",
            "agent/get",
            "aibot/response",
            "socket",
            "file",
        ];
        if !known.contains(&call) {
            return None;
        }
        let query = crate::harness::form::read_pairs(head.uri.query().unwrap_or_default().as_bytes());
        let token = query.iter().find(|(name, _)| name == "access_token").map(|(_, token)| token);
        let account =
            token.and_then(|token| self.world.lock().tokens.get(token).map(|(account, _)| account.clone()));
        let fields: Value = serde_json::from_slice(body).unwrap_or_default();
        let chat = fields["touser"].as_str().map(str::to_owned);
        Some(CallSubject { call: call.to_owned(), account, chat })
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        match call.subject.call.as_str() {
            "gettoken" => self.grant_token(&call),
            "socket" => socket::upgrade(self, call).await,
            "file" => self.hidden_file(&call),
            "aibot/response" => self.take_response(&call),
            _ => self.api(&call),
        }
    }

    fn too_many(&self, _retry_after: Duration, _global: bool) -> Response<Body> {
        error(45_009, "api freq out of limit")
    }

    fn not_found(&self) -> Response<Body> {
        respond(404, "text/plain", "not found")
    }

    fn inject(self: &Arc<Self>, injection: WeComInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        Some(match (control.method.as_str(), control.path) {
            ("POST", "callback") => control.read::<CallbackSetup>().and_then(|setup| {
                self.set_callback(setup.account.as_deref(), &setup.url).map(|()| json!({}))
            }),
            ("POST", "sockets") => {
                control.read::<WeComSocketOrder>().map(|order| json!({"sockets": self.order(None, order)}))
            }
            _ => return None,
        })
    }

    fn reset(&self) {
        let mut world = self.world.lock();
        let callbacks = std::mem::take(&mut world.callbacks);
        let (sockets, tokens) = (std::mem::take(&mut world.sockets), std::mem::take(&mut world.tokens));
        *world = WeComWorld { callbacks, sockets, tokens, ..WeComWorld::default() };
    }
}
