//! Stand-in for Discord: gateway, HTTP API, signed interactions.
//!
//! [`DiscordStandIn`] starts it in the process. [`DiscordInjection`] scripts what people do, [`SocketOrder`] what the
//! gateway does to a connection. The API base URL is [`api_url`](DiscordStandIn::api_url), which tells clients where
//! the gateway is.

mod buckets;
mod compress;
mod errors;
mod gateway;
mod guilds;
mod inject;
mod injection;
mod interactions;
mod messages;
mod permissions;
mod rest;
mod routes;
mod session;
mod settings;
mod signing;
mod world;

use std::{io, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Response, request::Parts};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{errors::RestError, world::DiscordWorld};
pub use self::{
    guilds::{ChannelSetup, GuildSetup, MemberSetup, OverwriteSetup, RoleSetup},
    injection::{DiscordInjection, DiscordPerson, DiscordPlace, InjectedFile},
    session::{GatewaySession, SocketOrder},
    settings::{DiscordBot, DiscordLimits, Settings},
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, StandIn, StandInPlatform, json_response, respond,
};

/// State and behaviour of Discord, run by [`DiscordStandIn`].
pub struct DiscordPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<DiscordWorld>,
}

/// A running stand-in for Discord.
pub type DiscordStandIn = StandIn<DiscordPlatform>;

impl StandIn<DiscordPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<DiscordStandIn> {
        StandIn::run(settings.harness.clone(), |harness| {
            let world = Mutex::new(DiscordWorld::new(&settings, harness.now_ms()));
            DiscordPlatform { harness, settings, world }
        })
        .await
    }

    /// `http://127.0.0.1:<port>/api/v10`: the API base URL for the server under test.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("{}/api/v10", self.base_url())
    }

    /// Creates a server, or replaces the one with this id. Bots that are members learn of it.
    pub fn add_guild(&self, guild: GuildSetup) {
        self.platform.add_guild(guild);
    }

    /// The public key of an application, in hex, as the developer portal shows it.
    #[must_use]
    pub fn public_key(&self, application: &str) -> Option<String> {
        let world = self.platform.world.lock();
        world.bot(application).map(|bot| bot.public_key.clone())
    }

    /// Sends interactions of this application to this URL, without the check that the developer portal makes.
    pub fn set_interactions_url(&self, application: &str, url: &str) {
        if let Some(bot) = self.platform.world.lock().bot_mut(application) {
            bot.interactions_url = Some(url.to_owned());
        }
    }

    /// Carries out an order on every gateway connection of an application. Returns the number of connections.
    pub fn order(&self, application: &str, order: &SocketOrder) -> usize {
        self.platform.order(Some(application), order)
    }

    /// Number of open gateway connections, with those that have no session yet.
    #[must_use]
    pub fn open_sockets(&self) -> usize {
        self.platform.world.lock().connections.len()
    }

    /// Gateway sessions of all applications.
    #[must_use]
    pub fn sessions(&self) -> Vec<GatewaySession> {
        self.platform.world.lock().sessions()
    }
}

impl StandInPlatform for DiscordPlatform {
    type Injection = DiscordInjection;
    const NAME: &'static str = "Discord";
    const EXAMPLE: &'static str = r#"{"do": "message", "text": "TEXT", "from": {"id": "77"}}"#;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, _body: &[u8]) -> Option<CallSubject> {
        routes::subject(self, head, path)
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        match call.subject.call.as_str() {
            routes::GATEWAY_SOCKET => gateway::upgrade(self, call).await,
            routes::ATTACHMENT => self.attachment(&call),
            _ => self.api(call).await,
        }
    }

    fn too_many(&self, retry_after: Duration, global: bool) -> Response<Body> {
        buckets::too_many(retry_after, global, None)
    }

    fn not_found(&self) -> Response<Body> {
        RestError::not_found().into()
    }

    fn inject(self: &Arc<Self>, injection: DiscordInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        Some(match (control.method.as_str(), control.path) {
            ("POST", "guilds") => control.read().map(|guild| {
                self.add_guild(guild);
                json!({})
            }),
            ("GET", "sockets") => Ok(json!({"sessions": self.world.lock().sessions()})),
            ("POST", "sockets") => {
                control.read::<SocketOrder>().map(|order| json!({"sockets": self.order(None, &order)}))
            }
            ("POST", "probe") => {
                self.probe_all();
                Ok(json!({}))
            }
            _ => return None,
        })
    }

    fn reset(&self) {
        self.world.lock().reset();
    }
}

impl DiscordPlatform {
    /// Downloads a file of a message. The link is signed and expires, as on the platform.
    fn attachment(&self, call: &ApiCall) -> Response<Body> {
        let parts: Vec<&str> = call.path.split('/').collect();
        let world = self.world.lock();
        match parts.get(3).and_then(|id| world.files.get(id)) {
            Some(file) if call.head.uri.query().is_some_and(|query| query.contains(&file.signature)) => {
                let mut response = respond(200, "", file.content.clone());
                if let Ok(kind) = file.content_type.parse() {
                    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
                }
                response
            }
            _ => json_response(404, &json!({"message": "This content is no longer available."})),
        }
    }
}
