//! Slack stand-in: signatures, repetition of events, credentials.

use std::{sync::Arc, time::Duration};

use aws_lc_rs::hmac;
use axum::{Router, body::Bytes, extract::State, http::HeaderMap, routing::post};
use parking_lot::Mutex;
use serde_json::{Value, json};
use stand_ins::{
    harness::{CallFault, CallFaultKind, HarnessSettings, RowFilter},
    slack::{AppUrls, Settings, SlackApp, SlackInjection, SlackStandIn},
};

use crate::{
    actors::{LONG, http},
    vectors::recorded,
};

const SECRET: &str = "canary-secret";

async fn slack() -> SlackStandIn {
    let apps = vec![SlackApp::new("A1", "xoxb-canary", "xapp-canary", SECRET, "posty")];
    let retries = vec![Duration::from_millis(5); 3];
    let harness = HarnessSettings { retries, ..HarnessSettings::default() };
    SlackStandIn::start(Settings { harness, apps, ..Settings::default() }).await.unwrap()
}

/// What a receiver heard: headers and bodies, and the statuses that it still answers before 200.
#[derive(Clone, Default)]
struct EventDoor {
    heard: Arc<Mutex<Vec<(HeaderMap, Bytes)>>>,
    statuses: Arc<Mutex<Vec<(u16, bool)>>>,
}

impl EventDoor {
    async fn open(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let routes = Router::new().route("/events", post(receive)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        url
    }
}

async fn receive(State(door): State<EventDoor>, headers: HeaderMap, body: Bytes) -> axum::response::Response {
    door.heard.lock().push((headers, body.clone()));
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (status, stop) = door.statuses.lock().pop().unwrap_or((200, false));
    let mut answer =
        axum::response::Response::new(said["challenge"].as_str().unwrap_or_default().to_owned().into());
    *answer.status_mut() = status.try_into().unwrap();
    if stop {
        answer.headers_mut().insert("x-slack-no-retry", "1".parse().unwrap());
    }
    answer
}

fn signature(secret: &str, timestamp: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &[b"v0:", timestamp.as_bytes(), b":", body].concat());
    format!("v0={}", hex::encode(tag.as_ref()))
}

#[test]
fn vectors_of_signatures_agree_with_the_check_of_these_tests() {
    let vectors = recorded("platforms/verify_slack.json");
    let secret = vectors["config"]["signing_secret"].as_str().unwrap();
    let case = &vectors["cases"][0];
    let header = |wanted: &str| {
        let headers = case["request"]["headers"].as_array().unwrap();
        headers.iter().find(|pair| pair[0] == wanted).unwrap()[1].as_str().unwrap()
    };
    let body = case["request"]["body_text"].as_str().unwrap();
    let expected = signature(secret, header("X-Slack-Request-Timestamp"), body.as_bytes());
    assert_eq!(expected, header("X-Slack-Signature"));
}

#[tokio::test]
async fn events_are_signed_and_repeated_until_the_receiver_accepts_or_declines() {
    let slack = slack().await;
    let door = EventDoor::default();
    slack.set_urls("A1", AppUrls { events: Some(door.open().await), ..AppUrls::default() });
    slack.wait(&RowFilter::kind("events_url_verified"), 1, LONG).await.unwrap();
    *door.statuses.lock() = vec![(503, false), (500, false)];
    slack.inject(SlackInjection::direct("U77", "héllo")).unwrap();
    slack.wait(&RowFilter::kind("acknowledged"), 1, LONG).await.unwrap();
    {
        let heard = door.heard.lock();
        assert_eq!(heard.len(), 4, "a challenge and three attempts");
        for (headers, body) in heard.iter() {
            let text = |name: &str| headers[name].to_str().unwrap();
            let expected = signature(SECRET, text("x-slack-request-timestamp"), body);
            assert_eq!(text("x-slack-signature"), expected);
        }
        assert_eq!(heard[3].0["x-slack-retry-num"], "2");
    }
    *door.statuses.lock() = vec![(500, true)];
    slack.inject(SlackInjection::direct("U77", "declined")).unwrap();
    slack.wait(&RowFilter::kind("unacknowledged"), 1, LONG).await.unwrap();
    assert_eq!(door.heard.lock().len(), 5, "no retry after X-Slack-No-Retry");
}

#[tokio::test]
async fn events_may_come_twice_and_in_another_order() {
    let slack = slack().await;
    let door = EventDoor::default();
    slack.set_urls("A1", AppUrls { events: Some(door.open().await), ..AppUrls::default() });
    slack.wait(&RowFilter::kind("events_url_verified"), 1, LONG).await.unwrap();
    slack.fault(CallFault::new(CallFaultKind::ReorderDeliveries { of: 2 }));
    slack.inject(SlackInjection::direct("U77", "one")).unwrap();
    slack.inject(SlackInjection::direct("U77", "two")).unwrap();
    slack.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    slack.fault(CallFault::new(CallFaultKind::DuplicateDelivery));
    slack.inject(SlackInjection::direct("U77", "three")).unwrap();
    slack.wait(&RowFilter::kind("acknowledged"), 4, LONG).await.unwrap();
    let heard = door.heard.lock();
    let texts: Vec<Value> = heard
        .iter()
        .skip(1)
        .map(|(_, body)| serde_json::from_slice::<Value>(body).unwrap()["event"]["text"].clone())
        .collect();
    assert_eq!(texts, ["two", "one", "three", "three"]);
}

#[tokio::test]
async fn a_ticket_opens_one_socket_and_no_credential_is_reported() {
    let slack = slack().await;
    let open = http().post(format!("{}/apps.connections.open", slack.api_url())).bearer_auth("xapp-canary");
    let answer: Value = open.send().await.unwrap().json().await.unwrap();
    let url = answer["url"].as_str().unwrap();
    let first = tokio_tungstenite::connect_async(url).await;
    assert!(first.is_ok());
    assert!(tokio_tungstenite::connect_async(url).await.is_err(), "a ticket is good for one connection");
    slack.inject(SlackInjection::direct("U77", "hi")).unwrap();
    let refused = http().post(format!("{}/chat.postMessage", slack.api_url())).bearer_auth("xoxb-canary");
    let refused: Value =
        refused.json(&json!({"channel": "C0", "text": "x"})).send().await.unwrap().json().await.unwrap();
    assert_eq!(refused["error"], "channel_not_found");
    let told =
        format!("{:?}{:?}", slack.transcript(&RowFilter::default()), slack.refusals(&RowFilter::default()));
    assert!(told.contains("channel_not_found") && !told.contains("canary"));
}
