//! Stand-in for Slack: Events API, interactivity, slash commands, Socket Mode, Web API.
//!
//! [`SlackStandIn`] starts it in the process. [`SlackInjection`] scripts what people do. Events go to the open sockets
//! of an app, or else to the URLs that [`set_urls`](SlackStandIn::set_urls) gave. The base URL of the Web API is
//! [`api_url`](SlackStandIn::api_url).

mod arguments;
mod events;
mod inject;
mod injection;
mod interactions;
mod methods;
mod settings;
mod socket;
mod workspace;

use std::{io, sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderValue, Response, request::Parts};
use parking_lot::Mutex;
use serde_json::{Value, json};

use self::{arguments::Arguments, workspace::SlackWorld};
pub use self::{
    events::AppUrls,
    injection::{SlackFile, SlackInjection},
    settings::{Settings, SlackApp, SlackLimits},
    socket::SlackSocketOrder,
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, StandIn, StandInPlatform, json_response, respond,
};

/// State and behaviour of Slack, run by [`SlackStandIn`].
pub struct SlackPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<SlackWorld>,
}

/// A running stand-in for Slack.
pub type SlackStandIn = StandIn<SlackPlatform>;

impl StandIn<SlackPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<SlackStandIn> {
        StandIn::run(settings.harness.clone(), |harness| {
            let world = Mutex::new(SlackWorld::new(&settings));
            SlackPlatform { harness, settings, world }
        })
        .await
    }

    /// `http://127.0.0.1:<port>/api`: the base URL of the Web API for the server under test.
    #[must_use]
    pub fn api_url(&self) -> String {
        format!("{}/api", self.base_url())
    }

    /// Sends events, interactions and commands of an app to these URLs. A new events URL must echo a challenge; the
    /// transcript says `events_url_verified` or `events_url_refused`.
    pub fn set_urls(&self, app: &str, urls: AppUrls) {
        self.platform.set_urls(Some(app), urls);
    }

    /// Carries out an order on every socket of an app. Returns the number of sockets.
    pub fn order(&self, app: &str, order: &SlackSocketOrder) -> usize {
        self.platform.order(Some(app), order)
    }

    /// Number of open sockets of an app.
    #[must_use]
    pub fn sockets(&self, app: &str) -> usize {
        self.platform.world.lock().sockets.values().filter(|socket| socket.app == app).count()
    }
}

impl StandInPlatform for SlackPlatform {
    type Injection = SlackInjection;
    const NAME: &'static str = "Slack";
    const EXAMPLE: &'static str = r#"{"do": "message", "text": "TEXT", "user": "U77"}"#;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, body: &[u8]) -> Option<CallSubject> {
        let named = |call: &str| Some(CallSubject { call: call.to_owned(), account: None, chat: None });
        if let Some(method) = path.strip_prefix("/api/") {
            let arguments = Arguments::read(head, body);
            let token = arguments.token(head);
            let world = self.world.lock();
            let account = token.and_then(|token| world.app_by_token(&token)).map(|app| app.id.clone());
            let chat = arguments.text("channel").or_else(|| arguments.text("channel_id"));
            return Some(CallSubject { call: method.to_owned(), account, chat });
        }
        match path.split('/').nth(1)? {
            "link" => named("socket"),
            "upload" => named("upload"),
            "files-pri" => named("file"),
            "response" => named("response_url"),
            _ => None,
        }
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        match call.subject.call.as_str() {
            "socket" => socket::upgrade(self, call).await,
            "upload" => self.take_upload(&call),
            "file" => self.download(&call),
            "response_url" => self.answer_by_url(&call),
            _ => self.method(&call),
        }
    }

    fn too_many(&self, retry_after: Duration, _global: bool) -> Response<Body> {
        too_many(retry_after)
    }

    fn not_found(&self) -> Response<Body> {
        respond(404, "text/plain", "not found")
    }

    fn inject(self: &Arc<Self>, injection: SlackInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        Some(match (control.method.as_str(), control.path) {
            ("POST", "urls") => control.read().map(|urls| {
                self.set_urls(None, urls);
                json!({})
            }),
            ("POST", "sockets") => {
                control.read::<SlackSocketOrder>().map(|order| json!({"sockets": self.order(None, &order)}))
            }
            _ => return None,
        })
    }

    fn reset(&self) {
        self.world.lock().reset();
    }
}

/// The 429 response, with the wait in whole seconds.
fn too_many(retry_after: Duration) -> Response<Body> {
    let seconds = u64::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(1).max(1);
    let mut response = json_response(429, &json!({"ok": false, "error": "ratelimited"}));
    response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
    response
}
