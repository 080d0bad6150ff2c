//! Test fixture: a WhatsApp bot whose number is played by the stand-in.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use edge::platform::{Platform, UnverifiedRequest};
use edge::whatsapp::WhatsApp;
use edge::{DeliveryResult, OpenedBot};
use http::{HeaderMap, HeaderValue, Method};
use ledger::Seq;
use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Event, Outcome, Secret};
use relay::PermittedAction;
use serde_json::{Value, json};
use stand_ins::whatsapp as played;
use vault::Credentials;

use crate::telegram::test_server::TestServer;

pub const NUMBER: &str = "106";
pub const TOKEN: &str = "canary-token";
pub const APP_SECRET: &str = "canary-app-secret";
pub const VERIFY_TOKEN: &str = "canary-verify-token";
pub const ANA: &str = "15550177";

pub fn bot() -> OpenedBot {
    let mut credentials = Credentials::default();
    credentials.insert("token", Secret::new(TOKEN));
    credentials.insert("app_secret", Secret::new(APP_SECRET));
    credentials.insert("verify_token", Secret::new(VERIFY_TOKEN));
    let settings = json!({ "phone_number_id": NUMBER });
    OpenedBot {
        platform: "whatsapp_cloud".into(),
        id: NUMBER.into(),
        shared: false,
        settings: settings.as_object().unwrap().clone(),
        credentials,
    }
}

pub fn whatsapp(api_base: &str) -> WhatsApp {
    // Already installed by another test of this process, or by this line.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    WhatsApp::new(api_base, WhatsApp::GRAPH_VERSION, Timepiece::wall())
}

pub struct Fixture {
    pub stand_in: played::WhatsAppStandIn,
    pub whatsapp: WhatsApp,
    pub bot: OpenedBot,
    pub clock: Timepiece,
    pub server: TestServer,
}

pub async fn open() -> Fixture {
    open_with(None).await
}

pub async fn open_with(limits: Option<played::WhatsAppLimits>) -> Fixture {
    let number = format!("{NUMBER}:{TOKEN}:{APP_SECRET}:{VERIFY_TOKEN}").parse().unwrap();
    let settings = played::Settings { numbers: vec![number], limits, ..played::Settings::default() };
    let stand_in = played::WhatsAppStandIn::start(settings).await.unwrap();
    let (whatsapp, bot, clock) = (whatsapp(&stand_in.base_url()), bot(), Timepiece::wall());
    let server = TestServer::with_platform(&bot, &clock, Arc::new(whatsapp.clone())).await;
    Fixture { stand_in, whatsapp, bot, clock, server }
}

/// A signed notification.
pub fn signed(body: &Value) -> UnverifiedRequest {
    let body = body.to_string();
    let key = hmac::Key::new(hmac::HMAC_SHA256, APP_SECRET.as_bytes());
    let signature = format!("sha256={}", hex::encode(hmac::sign(&key, body.as_bytes()).as_ref()));
    let mut headers = HeaderMap::new();
    headers.insert("x-hub-signature-256", HeaderValue::from_str(&signature).unwrap());
    UnverifiedRequest {
        method: Method::POST,
        door: String::new(),
        query: String::new(),
        headers,
        body: body.into(),
        received: Timepiece::wall().now(),
        server_url: "http://127.0.0.1:7678".into(),
    }
}

/// A notification about messages of one number.
pub fn notification(number: &str, value: &Value) -> Value {
    let mut value = value.clone();
    value["messaging_product"] = json!("whatsapp");
    value["metadata"] = json!({ "display_phone_number": "+1 555-106", "phone_number_id": number });
    json!({ "object": "whatsapp_business_account",
        "entry": [{ "id": "W1", "changes": [{ "field": "messages", "value": value }] }] })
}

/// A text message of a person with these ids.
pub fn text(id: &str, number: Option<&str>, user_id: Option<&str>, text: &str) -> Value {
    let mut message = json!({ "id": id, "timestamp": "1", "type": "text", "text": { "body": text } });
    if let Some(number) = number {
        message["from"] = json!(number);
    }
    if let Some(user_id) = user_id {
        message["from_user_id"] = json!(user_id);
    }
    message
}

impl Fixture {
    /// Delivers these messages as WhatsApp would.
    pub async fn receives(&self, messages: &[Value]) -> DeliveryResult {
        let raw = signed(&notification(NUMBER, &json!({ "messages": messages })));
        let platform: Arc<dyn Platform> = Arc::new(self.whatsapp.clone());
        self.server.intake().receive(&platform, &Arc::new(self.bot.clone()), raw).await.unwrap()
    }

    /// Everything that the agent has.
    pub async fn heard(&self) -> Vec<Event> {
        let unread = self.server.ledger.inbox().unread(&self.server.agent, Seq(0), 1000).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice(&entry.event).unwrap()).collect()
    }

    pub fn order(&self, action: Action) -> PermittedAction {
        PermittedAction {
            may_redeem: true,
            ends_turn: false,
            id: "act_1".into(),
            tenant: "ten_1".into(),
            instance: self.server.agent.clone(),
            on: self.bot.bot_ref(),
            action,
            stream_cursor: String::new(),
            deadline: self.clock.instant() + Duration::from_secs(25),
        }
    }

    pub async fn outcome(&self, action: Action) -> Outcome {
        self.whatsapp.perform(&self.bot, self.order(action)).await.outcome
    }

    /// A person writes at the stand-in, so that its window is open.
    pub fn says(&self, what: Value) -> Value {
        self.stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
    }

    /// What the bot has sent to a chat.
    pub fn sent(&self, chat: &str) -> Vec<Value> {
        let filter = serde_json::from_value(json!({ "chat": chat, "kind": "sent" })).unwrap();
        self.stand_in.transcript(&filter).into_iter().map(|row| row.raw).collect()
    }
}

pub fn send(chat: &str, content: &str) -> Action {
    Action::Send {
        chat_id: chat.into(),
        content: content.to_owned(),
        reply_to: None,
        metadata: Metadata::default(),
    }
}

/// The error of an outcome that must be a failure.
pub fn error(outcome: &Outcome) -> &str {
    assert!(!outcome.success, "{outcome:?}");
    let error = outcome.error.as_deref().unwrap();
    assert!(!error.contains("canary"), "{error}");
    error
}
