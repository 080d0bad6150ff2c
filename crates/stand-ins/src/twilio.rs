//! Stand-in for Twilio messaging: SMS, MMS and WhatsApp, with signed webhooks and status callbacks.
//!
//! [`TwilioStandIn`] starts it in the process. [`TwilioInjection`] scripts what people do. Messages of people go to the
//! URL that [`set_webhook`](TwilioStandIn::set_webhook) gave, signed over exactly that URL.

mod inject;
mod messages;
mod settings;
mod webhook;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use axum::body::Body;
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Response, request::Parts};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

pub use self::{
    inject::{TwilioFile, TwilioInjection},
    settings::{Settings, SharedKey, TwilioAccount},
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, Recent, SlidingWindow, StandIn, StandInPlatform,
    json_response, respond,
};

/// State and behaviour of Twilio, run by [`TwilioStandIn`].
pub struct TwilioPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<TwilioWorld>,
}

/// State of Twilio.
#[derive(Default)]
struct TwilioWorld {
    webhook: Option<String>,
    /// Message resources by sid.
    messages: Recent<Value>,
    media: Recent<TwilioMedia>,
    /// People who wrote STOP.
    opted_out: Recent<()>,
    windows: HashMap<String, SlidingWindow>,
}

/// A file of a message.
struct TwilioMedia {
    account: String,
    message: String,
    kind: String,
    content: Bytes,
    /// The secret part of its storage URL.
    signature: String,
}

/// A running stand-in for Twilio.
pub type TwilioStandIn = StandIn<TwilioPlatform>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IncomingUrl {
    url: Option<String>,
}

impl StandIn<TwilioPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<TwilioStandIn> {
        StandIn::run(settings.harness.clone(), |harness| TwilioPlatform {
            harness,
            settings,
            world: Mutex::default(),
        })
        .await
    }

    /// Sends messages of people to this URL.
    pub fn set_webhook(&self, url: Option<String>) {
        self.platform.world.lock().webhook = url;
    }
}

/// Error of the API: `{code, message, more_info, status}`.
struct TwilioError {
    status: u16,
    code: u32,
    message: String,
}

impl TwilioError {
    fn new(status: u16, code: u32, message: impl Into<String>) -> TwilioError {
        TwilioError { status, code, message: message.into() }
    }

    fn not_found(path: &str) -> TwilioError {
        TwilioError::new(404, 20_404, format!("The requested resource {path} was not found"))
    }

    fn unauthenticated() -> TwilioError {
        TwilioError::new(401, 20_003, "Authenticate")
    }
}

impl From<TwilioError> for Response<Body> {
    fn from(error: TwilioError) -> Response<Body> {
        let info = format!("https://www.twilio.com/docs/errors/{}", error.code);
        json_response(
            error.status,
            &json!({
                "code": error.code, "message": error.message, "more_info": info, "status": error.status,
            }),
        )
    }
}

impl StandInPlatform for TwilioPlatform {
    type Injection = TwilioInjection;
    const NAME: &'static str = "Twilio";
    const EXAMPLE: &'static str = r#"{"do": "message", "text": "TEXT"}"#;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, body: &[u8]) -> Option<CallSubject> {
        if path.starts_with("/storage/") {
            return Some(CallSubject { call: "GET storage".to_owned(), account: None, chat: None });
        }
        let rest = path.strip_prefix("/2010-04-01/Accounts/")?;
        let segments: Vec<&str> = rest.split('/').collect();
        let call = match (head.method.as_str(), &segments[1..]) {
            ("GET", []) => "GET account",
            ("POST", ["Messages.json"]) => "POST Messages",
            ("GET", ["Messages.json"]) => "GET Messages",
            ("GET", ["Messages", _, "Media.json"]) => "GET Media",
            ("GET", ["Messages", _, "Media", _]) => "GET Media content",
            ("GET", ["Messages", _]) => "GET Message",
            ("DELETE", ["Messages", _]) => "DELETE Message",
            _ => return None,
        };
        let fields = crate::harness::form::read_pairs(body);
        let chat = fields.into_iter().find(|(name, _)| name == "To").map(|(_, to)| to);
        let account = Some(segments[0].trim_end_matches(".json").to_owned());
        Some(CallSubject { call: call.to_owned(), account, chat })
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        self.answer(&call).unwrap_or_else(TwilioError::into)
    }

    fn too_many(&self, retry_after: Duration, _global: bool) -> Response<Body> {
        let mut response: Response<Body> = TwilioError::new(429, 20_429, "Too Many Requests").into();
        let seconds = u64::try_from(retry_after.as_millis().div_ceil(1000)).unwrap_or(1);
        response.headers_mut().insert("retry-after", HeaderValue::from(seconds));
        response
    }

    fn not_found(&self) -> Response<Body> {
        TwilioError::not_found("").into()
    }

    fn inject(self: &Arc<Self>, injection: TwilioInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        match (control.method.as_str(), control.path) {
            ("POST", "webhook") => Some(control.read::<IncomingUrl>().map(|incoming| {
                self.world.lock().webhook = incoming.url;
                json!({})
            })),
            _ => None,
        }
    }

    fn reset(&self) {
        let mut world = self.world.lock();
        let webhook = world.webhook.take();
        *world = TwilioWorld { webhook, ..TwilioWorld::default() };
    }
}

impl TwilioPlatform {
    fn answer(self: &Arc<Self>, call: &ApiCall) -> Result<Response<Body>, TwilioError> {
        if call.subject.call == "GET storage" {
            return self.stored(&call.path);
        }
        let account = self.authenticate(call)?;
        let segments: Vec<&str> = call.path.split('/').collect();
        let sid = segments.get(5).map(|sid| sid.trim_end_matches(".json")).unwrap_or_default();
        match call.subject.call.as_str() {
            "GET account" => Ok(json_response(
                200,
                &json!({
                    "sid": account.sid, "friendly_name": "Stand-in", "status": "active", "type": "Full",
                }),
            )),
            "POST Messages" => self.send(account, call),
            "GET Messages" => self.list(account),
            "GET Message" => self.message(account, sid).map(|message| json_response(200, &message)),
            "DELETE Message" => {
                self.message(account, sid)?;
                self.world.lock().messages.remove(sid);
                Ok(respond(204, "", Body::empty()))
            }
            "GET Media" => self.list_media(account, sid),
            _ => self.media(account, sid, segments.get(7).copied().unwrap_or_default()),
        }
    }

    /// The account of the path, if user name and password of the call belong to it.
    fn authenticate(&self, call: &ApiCall) -> Result<&TwilioAccount, TwilioError> {
        let decoded = call.credential("Basic").and_then(|text| BASE64_STANDARD.decode(text).ok());
        let pair = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let (user, password) = pair.split_once(':').unwrap_or_default();
        let sid = call.subject.account.as_deref().unwrap_or_default();
        let account = self.settings.accounts.iter().find(|account| account.sid == sid);
        account.filter(|account| account.accepts(user, password)).ok_or_else(TwilioError::unauthenticated)
    }
}
