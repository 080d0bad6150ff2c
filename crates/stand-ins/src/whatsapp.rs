//! Stand-in for the WhatsApp Cloud API: messages, media, webhooks with signatures, delivery states.
//!
//! [`WhatsAppStandIn`] starts it in the process. [`WhatsAppInjection`] scripts what people do. Webhooks go to the URL
//! that [`set_webhook`](WhatsAppStandIn::set_webhook) gave. The base URL, without a version, is that of the Graph API.

mod graph;
mod inject;
mod media;
mod send;
mod settings;
mod webhook;

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use axum::body::Body;
use http::{Response, request::Parts};
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};

use self::{graph::GraphError, media::WhatsAppFile};
pub use self::{
    inject::{WhatsAppInjection, WhatsAppPerson},
    settings::{Settings, WhatsAppLimits, WhatsAppNumber},
};
use crate::harness::{
    ApiCall, CallSubject, Control, ControlAnswer, Harness, Recent, SlidingWindow, StandIn, StandInPlatform,
};

/// State and behaviour of WhatsApp, run by [`WhatsAppStandIn`].
pub struct WhatsAppPlatform {
    harness: Arc<Harness>,
    settings: Settings,
    world: Mutex<WhatsAppWorld>,
}

/// State of WhatsApp.
#[derive(Default)]
struct WhatsAppWorld {
    webhook: Option<String>,
    /// URLs of numbers that have one of their own.
    overrides: HashMap<String, String>,
    media: Recent<WhatsAppFile>,
    /// Messages by id, of people and of the business.
    messages: Recent<Value>,
    /// When a person last wrote, with the contact object, by number and business-scoped id.
    last_contact: Recent<(i64, Value)>,
    windows: HashMap<String, SlidingWindow>,
}

/// A running stand-in for WhatsApp.
pub type WhatsAppStandIn = StandIn<WhatsAppPlatform>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WebhookSetup {
    url: Option<String>,
}

impl StandIn<WhatsAppPlatform> {
    /// Binds `settings.harness.listen` and starts to answer.
    ///
    /// # Errors
    /// When the address cannot be bound, or is not on loopback.
    pub async fn start(settings: Settings) -> io::Result<WhatsAppStandIn> {
        StandIn::run(settings.harness.clone(), |harness| WhatsAppPlatform {
            harness,
            settings,
            world: Mutex::default(),
        })
        .await
    }

    /// Sends webhooks to this URL. It must echo a challenge; the transcript says `webhook_verified` or
    /// `webhook_refused`.
    pub fn set_webhook(&self, url: Option<String>) {
        self.platform.set_webhook(url);
    }
}

impl StandInPlatform for WhatsAppPlatform {
    type Injection = WhatsAppInjection;
    const NAME: &'static str = "WhatsApp";
    const EXAMPLE: &'static str = r#"{"do": "message", "text": "TEXT"}"#;
    const MOST_BODY: usize = 101 << 20;

    fn harness(&self) -> &Arc<Harness> {
        &self.harness
    }

    fn subject(&self, head: &Parts, path: &str, body: &[u8]) -> Option<CallSubject> {
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let call = match (head.method.as_str(), &segments[..]) {
            ("GET", ["media-content", _]) => "GET media content",
            ("POST", [version, _, "messages"]) if version.starts_with('v') => "POST messages",
            ("POST", [version, _, "media"]) if version.starts_with('v') => "POST media",
            ("GET", [version, _]) if version.starts_with('v') => "GET object",
            ("POST", [version, _] | [version, _, ""]) if version.starts_with('v') => "POST number",
            ("DELETE", [version, _]) if version.starts_with('v') => "DELETE media",
            _ => return None,
        };
        let number = segments.get(1).and_then(|id| self.number(id));
        let fields: Value = serde_json::from_slice(body).unwrap_or_default();
        let chat = fields["to"].as_str().or_else(|| fields["recipient"].as_str());
        Some(CallSubject {
            call: call.to_owned(),
            account: number.map(|number| number.id.clone()),
            chat: chat.map(|chat| chat.trim_start_matches('+').to_owned()),
        })
    }

    async fn perform(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        match call.subject.call.as_str() {
            "POST number" => self.configure(&call).await.unwrap_or_else(GraphError::into),
            _ => self.graph(&call).unwrap_or_else(GraphError::into),
        }
    }

    fn too_many(&self, _retry_after: Duration, global: bool) -> Response<Body> {
        GraphError::too_many(global).into()
    }

    fn not_found(&self) -> Response<Body> {
        GraphError::unknown_object("/").into()
    }

    fn inject(self: &Arc<Self>, injection: WhatsAppInjection) -> Result<Value, String> {
        self.act(injection)
    }

    fn control<'a>(self: &'a Arc<Self>, control: &'a Control<'a>) -> Option<ControlAnswer> {
        match (control.method.as_str(), control.path) {
            ("POST", "webhook") => Some(control.read::<WebhookSetup>().map(|setup| {
                self.set_webhook(setup.url);
                json!({})
            })),
            _ => None,
        }
    }

    fn reset(&self) {
        let mut world = self.world.lock();
        let (webhook, overrides) = (world.webhook.take(), std::mem::take(&mut world.overrides));
        *world = WhatsAppWorld { webhook, overrides, ..WhatsAppWorld::default() };
    }
}

impl WhatsAppPlatform {
    fn number(&self, id: &str) -> Option<&WhatsAppNumber> {
        self.settings.numbers.iter().find(|number| number.id == id)
    }
}
