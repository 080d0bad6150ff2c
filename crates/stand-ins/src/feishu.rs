//! Stand-in for Feishu and Lark: event subscription, long connection, Open API, card entities.
//!
//! [`FeishuStandIn`] starts it in the process. [`FeishuInjection`] scripts what people do. Events go to the open
//! connections of an app, or else, encrypted and signed, to the address that [`set_url`](FeishuStandIn::set_url) gave.
//! The base URL of the API is that of the stand-in itself.

mod cards;
mod events;
mod frame;
mod inject;
mod injection;
mod messages;
mod settings;
mod socket;
mod world;

use std::{io, sync::Arc, time::Duration};

use axum::body::Body;
use http::{HeaderValue, Response, request::Parts};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use self::world::FeishuWorld;
pub use self::{
    injection::{FeishuInjection, FeishuSharedFile},
    settings::{FeishuApp, FeishuLimits, Settings},
    socket::FeishuSocketOrder,
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, RefusedCall, StandIn, StandInPlatform,
    json_response, respond,
};

/// Lifetime of an access token.
const TOKEN_MS: i64 = 2 * 3600 * 1000;

/// State and behaviour of Feishu, run by [`FeishuStandIn`].
pub struct FeishuPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<FeishuWorld>,
}

/// A running stand-in for Feishu.
pub type FeishuStandIn = StandIn<FeishuPlatform>;

/// The result of a call: the data of the answer, or a code with its text.
type CallResult = Result<Value, (i64, &'static str)>;

/// The address of an app's events.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventUrl {
    #[serde(default)]
    app: Option<String>,
    url: Option<String>,
}

impl StandIn<FeishuPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<FeishuStandIn> {
        StandIn::run(settings.harness.clone(), |harness| {
            let world = Mutex::new(FeishuWorld::new(&settings));
            FeishuPlatform { harness, settings, world }
        })
        .await
    }

    /// Sends events and card actions of an app to this address, which must answer a challenge. The transcript says
    /// `url_verified` or `url_refused`.
    pub fn set_url(&self, app: &str, url: Option<&str>) {
        self.platform.set_url(Some(app), url.map(str::to_owned));
    }

    /// Number of open connections of an app.
    #[must_use]
    pub fn sockets(&self, app: &str) -> usize {
        self.platform.open_sockets(app)
    }

    /// Carries out an order on every connection of an app. Returns their number.
    ///
    /// # Errors
    /// When the order holds no base64.
    pub fn order(&self, app: &str, order: &FeishuSocketOrder) -> Result<usize, String> {
        self.platform.order(Some(app), order)
    }

    /// Makes all access tokens invalid.
    pub fn forget_tokens(&self) {
        self.platform.world.lock().tokens = crate::harness::Recent::default();
    }

    /// Gives an app another secret.
    pub fn change_secret(&self, app: &str, secret: &str) {
        let mut world = self.platform.world.lock();
        if let Some(app) = world.apps.iter_mut().find(|known| known.id == app) {
            app.secret = secret.to_owned();
        }
        world.tokens = crate::harness::Recent::default();
    }
}

impl StandInPlatform for FeishuPlatform {
    type Injection = FeishuInjection;
    const NAME: &'static str = "Feishu";
    const EXAMPLE: &'static str = r#"{"do": "message", "text": "TEXT", "user": "u77"}"#;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, body: &[u8]) -> Option<CallSubject> {
        let named = |call: &str| Some(CallSubject { call: call.to_owned(), account: None, chat: None });
        match path {
            "/callback/ws/endpoint" => return named("endpoint"),
            "/ws/v2" => return named("socket"),
            _ => {}
        }
        let path = path.strip_prefix("/open-apis")?;
        let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = token.and_then(|value| value.strip_prefix("Bearer "));
        let account = token.and_then(|token| {
            self.world.lock().app_of_token(token, self.harness.now_ms()).map(|app| app.id.clone())
        });
        let parts: Vec<&str> = path.split('/').skip(1).collect();
        // Ids do not belong to the name of a call.
        let named = parts.iter().enumerate().map(|(at, part)| match (at, parts.get(at.wrapping_sub(1))) {
            (_, Some(&("messages" | "chats" | "users" | "reactions" | "resources" | "elements"))) => "{id}",
            (_, Some(&"cards")) if *part != "id_convert" => "{id}",
            _ => *part,
        });
        let name = named.collect::<Vec<_>>().join("/");
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let chat = match parts[..] {
            ["im", "v1", "messages"] => body["receive_id"].as_str().map(str::to_owned),
            ["im", "v1", "messages", id, ..] => {
                self.world.lock().messages.get(id).map(|message| message.chat.clone())
            }
            _ => None,
        };
        Some(CallSubject { call: format!("{} /{name}", head.method), account, chat })
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        match call.subject.call.as_str() {
            "endpoint" => self.endpoint(&call),
            "socket" => socket::upgrade(self, call).await,
            "POST /auth/v3/tenant_access_token/internal" => self.give_token(&call),
            "GET /im/v1/messages/{id}/resources/{id}" => self.download(&call),
            _ => self.answer(&call),
        }
    }

    fn too_many(&self, retry_after: Duration, _global: bool) -> Response<Body> {
        let seconds = u64::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(1).max(1);
        let mut response =
            json_response(429, &json!({"code": 99991400, "msg": "request trigger frequency limit"}));
        response.headers_mut().insert("x-ogw-ratelimit-reset", HeaderValue::from(seconds));
        response
    }

    fn not_found(&self) -> Response<Body> {
        respond(404, "text/plain", "404 page not found")
    }

    fn inject(self: &Arc<Self>, injection: FeishuInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        Some(match (control.method.as_str(), control.path) {
            ("POST", "url") => control.read::<EventUrl>().map(|given| {
                self.set_url(given.app.as_deref(), given.url);
                json!({})
            }),
            ("POST", "sockets") => control
                .read::<FeishuSocketOrder>()
                .and_then(|order| self.order(None, &order).map(|sockets| json!({"sockets": sockets}))),
            ("POST", "tokens/forget") => {
                self.world.lock().tokens = crate::harness::Recent::default();
                Ok(json!({}))
            }
            _ => return None,
        })
    }

    fn reset(&self) {
        self.world.lock().reset();
    }
}

impl FeishuPlatform {
    fn give_token(&self, call: &ApiCall) -> Response<Body> {
        let asked: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let token = format!("t-{}", self.harness.next_id());
        let mut world = self.world.lock();
        let Some(app) = world.app(asked["app_id"].as_str().unwrap_or_default()).cloned() else {
            return refusal(200, 10003, "invalid param");
        };
        if asked["app_secret"] != *app.secret {
            return refusal(200, 10014, "app secret invalid");
        }
        world.tokens.insert(token.clone(), (app.id, self.harness.now_ms() + TOKEN_MS));
        json_response(
            200,
            &json!({"code": 0, "msg": "ok", "tenant_access_token": token, "expire": TOKEN_MS / 1000}),
        )
    }

    /// Answers a call with an access token.
    fn answer(self: &Arc<Self>, call: &ApiCall) -> Response<Body> {
        let Some(token) = call.credential("Bearer") else {
            return refusal(400, 99991661, "Missing access token for authorization");
        };
        let app = self.world.lock().app_of_token(token, self.harness.now_ms()).cloned();
        let Some(app) = app else {
            return refusal(400, 99991663, "Invalid access token for authorization");
        };
        if call.subject.call == "GET /bot/v3/info" {
            // The one answer whose object is not below `data`.
            let bot = json!({"activate_status": 2, "app_name": app.name, "avatar_url": "", "open_id": app.open_id()});
            return json_response(200, &json!({"code": 0, "msg": "ok", "bot": bot}));
        }
        if let Some(wait) = self.limit(&app, call) {
            return self.too_many(wait, false);
        }
        match self.carry_out(&app, call) {
            Ok(data) => json_response(200, &json!({"code": 0, "msg": "success", "data": data})),
            Err((code, text)) => refusal(400, code, text),
        }
    }

    /// Time to wait, if the app is over a limit.
    fn limit(&self, app: &FeishuApp, call: &ApiCall) -> Option<Duration> {
        let limits = self.settings.limits?;
        let name = call.subject.call.as_str();
        let (key, most) = match name {
            "POST /im/v1/messages" | "POST /im/v1/messages/{id}/reply" => {
                (call.subject.chat.clone()?, limits.messages_per_second)
            }
            "PUT /cardkit/v1/cards/{id}" | "PUT /cardkit/v1/cards/{id}/elements/{id}/content" => {
                (call.path.split('/').nth(5)?.to_owned(), limits.card_updates_per_second)
            }
            _ => return None,
        };
        let mut world = self.world.lock();
        if world.windows.len() > 10_000 {
            world.windows.clear();
        }
        let window = world.windows.entry(format!("{}/{key}", app.id)).or_default();
        let wait = window.admit(most, 1_000, self.harness.now_ms()).err()?;
        Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
    }
}

/// A refusal, as Feishu writes it.
fn refusal(status: u16, code: i64, text: &str) -> Response<Body> {
    let mut response = json_response(status, &json!({"code": code, "msg": text}));
    response.extensions_mut().insert(RefusedCall);
    response
}
