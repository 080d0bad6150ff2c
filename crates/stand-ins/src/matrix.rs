//! Stand-in for a Matrix homeserver: rooms, transactions to application services, sync, media and limits.
//!
//! It is for faults and for tests without other software. A real homeserver runs on any machine, and judges the rest.
//! [`MatrixStandIn`] starts it in the process. [`MatrixInjection`] scripts what people do. Transactions go to the URL that
//! [`set_url`](MatrixStandIn::set_url) gave.

mod api;
mod inject;
mod rooms;
mod settings;
mod sync;

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use http::{Response, request::Parts};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use self::{api::HomeserverError, rooms::HomeRoom};
pub use self::{
    inject::MatrixInjection,
    settings::{MatrixAccount, MatrixLimits, Settings},
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, Recent, SlidingWindow, StandIn, StandInPlatform,
};

/// State and behaviour of a homeserver, run by [`MatrixStandIn`].
pub struct MatrixPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<Homeserver>,
}

/// State of the homeserver.
#[derive(Default)]
struct Homeserver {
    /// URLs of application services, by user.
    urls: HashMap<String, String>,
    rooms: BTreeMap<String, HomeRoom>,
    /// All events in their order, each with its room.
    log: VecDeque<(String, Value)>,
    /// Number of events that made room for new ones.
    log_start: usize,
    /// Event ids by user and transaction.
    transactions: Recent<String>,
    /// Type and content of files, by id.
    media: Recent<(String, Bytes)>,
    windows: HashMap<String, SlidingWindow>,
    /// Users whose token no longer works.
    revoked: Vec<String>,
}

/// A running stand-in for a homeserver.
pub type MatrixStandIn = StandIn<MatrixPlatform>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceUrl {
    user: String,
    url: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RevokedUser {
    user: String,
}

impl StandIn<MatrixPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<MatrixStandIn> {
        StandIn::run(settings.harness.clone(), |harness| MatrixPlatform {
            harness,
            settings,
            world: Mutex::default(),
        })
        .await
    }

    /// Sends the transactions of this user's application service to this URL, the `url` of its registration.
    pub fn set_url(&self, user: &str, url: Option<String>) {
        self.platform.set_url(user, url);
    }

    /// Makes the token of a user unknown.
    pub fn revoke(&self, user: &str) {
        self.platform.world.lock().revoked.push(user.to_owned());
    }
}

impl StandInPlatform for MatrixPlatform {
    type Injection = MatrixInjection;
    const NAME: &'static str = "Matrix";
    const EXAMPLE: &'static str = r#"{"do": "message", "room": "!r1:hs.test", "text": "TEXT"}"#;
    const MOST_BODY: usize = 51 << 20;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, _body: &[u8]) -> Option<CallSubject> {
        let segments: Vec<&str> = path.split('/').skip(2).collect();
        if !path.starts_with("/_matrix/") {
            return None;
        }
        let (call, room) = match (head.method.as_str(), &segments[..]) {
            ("GET", ["client", "v3", "account", "whoami"]) => ("GET whoami", None),
            ("POST", ["client", "v3", "register"]) => ("POST register", None),
            ("GET", ["client", "v3", "profile", _]) => ("GET profile", None),
            ("GET", ["client", "v3", "sync"]) => ("GET sync", None),
            ("POST", ["client", "v3", "rooms", room, "join"]) => ("POST join", Some(room)),
            ("POST", ["client", "v3", "rooms", room, "leave"]) => ("POST leave", Some(room)),
            ("PUT", ["client", "v3", "rooms", room, "send", _, _]) => ("PUT send", Some(room)),
            ("PUT", ["client", "v3", "rooms", room, "redact", _, _]) => ("PUT redact", Some(room)),
            ("PUT", ["client", "v3", "rooms", room, "typing", _]) => ("PUT typing", Some(room)),
            ("GET", ["client", "v3", "rooms", room, "state", ..]) => ("GET state", Some(room)),
            ("GET", ["client", "v3", "rooms", room, "joined_members"]) => ("GET joined_members", Some(room)),
            ("GET", ["client", "v3", "rooms", room, "messages"]) => ("GET messages", Some(room)),
            ("GET", ["client", "v1", "rooms", room, "relations", ..]) => ("GET relations", Some(room)),
            ("POST", ["media", "v3", "upload"]) => ("POST upload", None),
            ("GET", ["client", "v1", "media", "download", _, _]) => ("GET media", None),
            _ => return None,
        };
        let token =
            head.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let account = self.settings.accounts.iter().find(|account| token.ends_with(&account.token));
        Some(CallSubject {
            call: call.to_owned(),
            account: account.map(|account| account.user.clone()),
            chat: room.map(|room| (*room).to_owned()),
        })
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        match call.subject.call.as_str() {
            "GET sync" => self.sync(&call).await.unwrap_or_else(HomeserverError::into),
            _ => self.client_api(&call).unwrap_or_else(HomeserverError::into),
        }
    }

    fn too_many(&self, retry_after: Duration, _global: bool) -> Response<Body> {
        HomeserverError::too_many(retry_after).into()
    }

    fn not_found(&self) -> Response<Body> {
        HomeserverError::new(404, "M_UNRECOGNIZED", "Unrecognized request").into()
    }

    fn inject(self: &Arc<Self>, injection: MatrixInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        match (control.method.as_str(), control.path) {
            ("POST", "url") => Some(control.read::<ServiceUrl>().map(|setup| {
                self.set_url(&setup.user, setup.url);
                json!({})
            })),
            ("POST", "revoke") => Some(control.read::<RevokedUser>().map(|revoked| {
                self.world.lock().revoked.push(revoked.user);
                json!({})
            })),
            _ => None,
        }
    }

    fn reset(&self) {
        let mut world = self.world.lock();
        let urls = std::mem::take(&mut world.urls);
        *world = Homeserver { urls, ..Homeserver::default() };
    }
}

impl MatrixPlatform {
    fn set_url(&self, user: &str, url: Option<String>) {
        let mut world = self.world.lock();
        match url {
            Some(url) => world.urls.insert(user.to_owned(), url),
            None => world.urls.remove(user),
        };
    }
}
