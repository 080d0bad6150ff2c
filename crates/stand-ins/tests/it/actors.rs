//! Test actors: a bot that calls, a webhook receiver, and a stand-in with two bots.

use std::{collections::HashMap, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use stand_ins::telegram::{Settings, StandInBot, TelegramStandIn};

pub const POSTY: &str = "42:canary-posty";
pub const OTHER: &str = "43:canary-other";
/// Longer than anything here takes. Only a failing test waits that long.
pub const LONG: Duration = Duration::from_secs(60);

pub fn settings() -> Settings {
    Settings {
        bots: vec![
            StandInBot::new(POSTY, "posty_bot").unwrap(),
            StandInBot::new(OTHER, "other_bot").unwrap(),
        ],
        first_update_id: Some(1),
        retry_first: Duration::from_millis(5),
        retry_most: Duration::from_millis(20),
        ..Settings::default()
    }
}

pub async fn telegram() -> TelegramStandIn {
    TelegramStandIn::start(settings()).await.unwrap()
}

pub fn http() -> reqwest::Client {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap()
}

/// Calls methods with one token.
#[derive(Clone)]
pub struct Caller {
    pub base: String,
    token: String,
    pub http: reqwest::Client,
}

impl Caller {
    pub fn new(telegram: &TelegramStandIn, token: &str) -> Caller {
        Caller { base: telegram.base_url(), token: token.to_owned(), http: http() }
    }

    pub async fn try_call(&self, method: &str, params: Value) -> reqwest::Result<(u16, Value)> {
        let url = format!("{}/bot{}/{method}", self.base, self.token);
        let answer = self.http.post(url).json(&params).send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    }

    pub async fn call(&self, method: &str, params: Value) -> (u16, Value) {
        self.try_call(method, params).await.unwrap()
    }

    /// The result of a call that must succeed.
    pub async fn gets(&self, method: &str, params: Value) -> Value {
        let (status, body) = self.call(method, params).await;
        assert_eq!((status, &body["ok"]), (200, &json!(true)), "{method}: {body}");
        body["result"].clone()
    }

    /// The description of a call that must fail with this code.
    pub async fn is_refused(&self, code: u16, method: &str, params: Value) -> String {
        let (status, body) = self.call(method, params).await;
        assert_eq!((status, &body["ok"], &body["error_code"]), (code, &json!(false), &json!(code)), "{body}");
        body["description"].as_str().unwrap().to_owned()
    }

    pub async fn says(&self, chat: i64, text: &str) -> Value {
        self.gets("sendMessage", json!({"chat_id": chat, "text": text})).await
    }
}

/// A webhook receiver. It answers 200 unless told otherwise for an update.
#[derive(Clone, Default)]
pub struct House {
    pub url: String,
    pub heard: Arc<Mutex<Vec<(HeaderMap, Value)>>>,
    pub answers: Arc<Mutex<HashMap<i64, Vec<u16>>>>,
}

impl House {
    pub async fn open() -> House {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/door", listener.local_addr().unwrap());
        let house = House { url, ..House::default() };
        let routes = Router::new().route("/door", post(receive)).with_state(house.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        house
    }

    pub fn answers(&self, update_id: i64, statuses: &[u16]) {
        self.answers.lock().insert(update_id, statuses.to_vec());
    }

    pub fn heard_ids(&self) -> Vec<i64> {
        self.heard.lock().iter().map(|(_, update)| update["update_id"].as_i64().unwrap()).collect()
    }
}

async fn receive(State(house): State<House>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let update: Value = serde_json::from_slice(&body).unwrap();
    let id = update["update_id"].as_i64().unwrap();
    house.heard.lock().push((headers, update));
    let mut answers = house.answers.lock();
    match answers.get_mut(&id).filter(|left| !left.is_empty()) {
        Some(left) => StatusCode::from_u16(left.remove(0)).unwrap(),
        None => StatusCode::OK,
    }
}
