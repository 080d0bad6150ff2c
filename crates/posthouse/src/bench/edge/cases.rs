//! Cases of `bench edge`: one delivery per platform and kind. A platform adds its cases to [`all`].

use axum::body::Bytes;
use edge::OpenedBot;
use edge::platform::{Platform, UnverifiedRequest};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use posthouse_time::Moment;
use serde_json::{Map, Value};

use super::{discord, feishu, matrix, signed, telegram, wecom};

/// All cases. A platform has a file of its own beside this one, which builds its bot, its signed delivery and the bare
/// check of the same proof.
pub fn all() -> Vec<EdgeCase> {
    let cases = [
        discord::cases(),
        feishu::cases(),
        matrix::cases(),
        signed::cases(),
        telegram::cases(),
        wecom::cases(),
    ];
    cases.into_iter().flatten().collect()
}

/// One delivery of a platform.
pub struct EdgeCase {
    pub name: &'static str,
    pub platform: Box<dyn Platform>,
    pub bot: OpenedBot,
    pub delivered: Delivered,
    /// The payload as JSON. It differs from the body where a platform encrypts or sends forms.
    pub json: Bytes,
    /// Checks the same proof with nothing but the cryptographic primitive. Always true if there is no proof.
    pub bare_proof: Box<dyn Fn() -> bool>,
}

#[derive(Clone)]
pub enum Delivered {
    Webhook(UnverifiedRequest),
    /// Fetched by polling or over a socket.
    Fetched(Bytes, Moment),
}

/// The time at which all deliveries arrive.
pub fn now() -> Moment {
    Moment::from_seconds(1_765_000_000)
}

/// A bot with these settings and no secret.
pub fn bot(platform: &str, id: &str, settings: Value) -> OpenedBot {
    let settings = match settings {
        Value::Object(settings) => settings,
        _ => Map::new(),
    };
    OpenedBot {
        platform: platform.into(),
        id: id.into(),
        shared: false,
        settings,
        credentials: edge::Credentials::default(),
    }
}

/// A POST at a door of the bot.
pub fn webhook(door: &str, headers: &[(&'static str, &str)], body: &Bytes) -> UnverifiedRequest {
    let mut all = HeaderMap::new();
    for (name, value) in [("content-type", "application/json")].iter().chain(headers) {
        let value = HeaderValue::from_str(value).expect("cases have plain headers");
        all.insert(HeaderName::from_static(name), value);
    }
    UnverifiedRequest {
        method: Method::POST,
        door: door.to_owned(),
        query: String::new(),
        headers: all,
        body: body.clone(),
        received: now(),
        server_url: "https://posthouse.example".into(),
    }
}
