//! Tests of retries: which failures are retried, when, and which replies end a question at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ledger::{Location, Receipt, ReceiptState};
use parking_lot::Mutex;
use posthouse_time::{Moment, Timepiece};
use serde_json::{Value, json};

use crate::receiver::Receiver;
use crate::test_server::{Program, TestServer, eventually};

/// 2026-01-01T00:00:00Z
const START: Moment = Moment::from_seconds(1_767_225_600);
/// The longest pause, even if the receiver asks for more.
const CAP: Duration = Duration::from_secs(5);

/// A receiver that refuses everything, optionally with `Retry-After`.
#[derive(Clone)]
struct Refusing {
    says: Arc<Mutex<(u16, Option<String>)>>,
    calls: Arc<Mutex<usize>>,
}

struct RetryFixture {
    server: TestServer,
    program: Program,
    receiver: Refusing,
}

impl RetryFixture {
    async fn open() -> Self {
        let server =
            TestServer::build(Location::Memory, post::Config::default(), Timepiece::wound(START)).await;
        let receiver = Refusing { says: Arc::new(Mutex::new((503, None))), calls: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/in", listener.local_addr().unwrap());
        let this = receiver.clone();
        let doors = axum::Router::new().fallback(move || async move { this.answers() });
        tokio::spawn(async move { axum::serve(listener, doors).await });
        server.wires("acme", "hook", "webhook", json!({ "agents": { "desk": { "url": url } } })).await;
        let program = server.program("acme").await;
        Self { server, program, receiver }
    }

    /// One whose post has closed: it makes the first attempt at what it is handed, and no other.
    async fn open_without_seconds() -> Self {
        let fixture = Self::open().await;
        fixture.server.post.close().await;
        fixture
    }

    fn says(&self, status: u16, retry_after: Option<&str>) {
        *self.receiver.says.lock() = (status, retry_after.map(str::to_owned));
    }

    async fn receipt(&self, dispatch: &Value) -> Receipt {
        let dispatch = dispatch.as_str().unwrap().into();
        let mut found = self.server.ledger.receipts().receipts_of(None, None, &dispatch).await.unwrap();
        assert_eq!(found.len(), 1);
        found.remove(0)
    }

    /// The pause after a failed first attempt.
    async fn first_pause(&self) -> Duration {
        let sent = self.program.notifies("desk", "hello").await;
        let receipt = self.receipt(&sent["dispatch_id"]).await;
        assert_eq!((receipt.state, receipt.attempts), (ReceiptState::Queued, 1));
        receipt.due.unwrap().since(START)
    }
}

impl Refusing {
    fn answers(&self) -> Response {
        *self.calls.lock() += 1;
        let (status, later) = self.says.lock().clone();
        let status = StatusCode::from_u16(status).unwrap();
        match later {
            Some(later) => (status, [("retry-after", later)]).into_response(),
            None => status.into_response(),
        }
    }
}

#[tokio::test]
async fn too_many_requests_and_faults_of_the_receivers_own_are_tried_again_and_other_refusals_are_final() {
    let fixture = RetryFixture::open_without_seconds().await;
    for (status, state) in [
        (429, ReceiptState::Queued),
        (500, ReceiptState::Queued),
        (502, ReceiptState::Queued),
        (503, ReceiptState::Queued),
        (400, ReceiptState::Failed),
        (401, ReceiptState::Failed),
        (403, ReceiptState::Failed),
        (404, ReceiptState::Failed),
        (408, ReceiptState::Failed),
        (409, ReceiptState::Failed),
        (410, ReceiptState::Failed),
        (422, ReceiptState::Failed),
        (302, ReceiptState::Failed),
    ] {
        // A permanent failure is not retried, even with `Retry-After`.
        fixture.says(status, Some("1"));
        let sent = fixture.program.notifies("desk", "hello").await;
        assert_eq!(fixture.receipt(&sent["dispatch_id"]).await.state, state, "{status}: {sent}");
        assert_eq!(sent["dispatched"][0]["ok"], state == ReceiptState::Queued, "{status}: {sent}");
    }
}

#[tokio::test]
async fn what_the_receiver_asks_for_is_honoured_up_to_the_cap() {
    let fixture = RetryFixture::open_without_seconds().await;
    for (later, pause) in [
        ("1", Duration::from_secs(1)),
        ("3", Duration::from_secs(3)),
        ("60", CAP),
        ("Thu, 01 Jan 2026 00:00:02 GMT", Duration::from_secs(2)),
        ("Thu, 01 Jan 2026 10:00:00 GMT", CAP),
    ] {
        for status in [429, 503] {
            fixture.says(status, Some(later));
            assert_eq!(fixture.first_pause().await, pause, "{status} {later}");
        }
    }
    // A past or invalid date is ignored.
    for later in ["0", "soon", "Wed, 31 Dec 2025 23:00:00 GMT"] {
        fixture.says(503, Some(later));
        assert!(fixture.first_pause().await <= Duration::from_millis(250), "{later}");
    }
}

#[tokio::test]
async fn the_pause_before_the_second_attempt_is_anything_up_to_a_quarter_of_a_second() {
    let fixture = RetryFixture::open_without_seconds().await;
    let mut pauses = BTreeSet::new();
    for _ in 0..40 {
        pauses.insert(fixture.first_pause().await);
    }
    assert!(pauses.last().unwrap() <= &Duration::from_millis(250), "{pauses:?}");
    assert!(pauses.len() > 1, "those that failed together would come back together: {pauses:?}");
}

#[tokio::test]
async fn the_pause_doubles_and_the_third_attempt_is_the_last() {
    let fixture = RetryFixture::open().await;
    // The first pause is set by `Retry-After`, so that its end is known.
    fixture.says(503, Some("1"));
    let sent = fixture.program.notifies("desk", "hello").await;
    let dispatch = &sent["dispatch_id"];
    assert_eq!(fixture.receipt(dispatch).await.due, Some(START + Duration::from_secs(1)));
    fixture.says(503, None);
    fixture.server.time.wind(Duration::from_secs(1));
    let latest = START + Duration::from_millis(1500);
    eventually("it was tried again and waits for half a second at most", async || {
        let receipt = fixture.receipt(dispatch).await;
        let waits = receipt.attempts == 2 && receipt.due.is_some_and(|due| due <= latest);
        // A random part of the pause may be zero.
        waits || receipt.state == ReceiptState::Failed
    })
    .await;
    fixture.server.time.wind(Duration::from_millis(500));
    eventually("it has failed", async || fixture.receipt(dispatch).await.state == ReceiptState::Failed).await;
    assert_eq!(*fixture.receiver.calls.lock(), 3);
}

#[tokio::test]
async fn a_reply_that_cannot_be_read_ends_the_question_at_once_and_is_not_asked_for_again() {
    let server = TestServer::open().await;
    let receiver = Receiver::open().await;
    let settings = json!({ "agents": { "desk": { "url": format!("{}/in", receiver.base) } } });
    server.wires("acme", "hook", "webhook", settings).await;
    let program = server.program("acme").await;
    let ask = json!({ "agent": "desk", "message": "?", "timeout": 600, "wait": 60 });
    let too_long = json!({ "reply": { "content": "x".repeat(256 * 1024 + 1) } }).to_string();
    for body in [
        br#"{"reply":{"content":"\ud800"}}"#.as_slice(),
        br#"{"reply":{"content":7}}"#,
        br#"{"reply":[]}"#,
        b"{\"reply\":{\"content\":\"\xff\"}}",
        too_long.as_bytes(),
    ] {
        receiver.says(200, body);
        let (status, response) = program.posts("/v1/exchange", ask.clone()).await;
        assert_eq!((status.as_u16(), &response["code"]), (502, &json!("delivery_failed")), "{response}");
        assert_eq!(response["cause_kind"], "malformed_response", "{response}");
        receiver.one();
    }
    // The question ends before its delivery is recorded as failed.
    let failed = async || program.gets("/v1/receipts").await.1["items"][0]["state"] == "failed";
    eventually("the delivery has failed", failed).await;
    // Without a valid reply in the response, the answer may still come later.
    for body in ["", "<html>{\"reply\":", r#"{"note":"\ud800"}"#, r#"{"reply":null}"#] {
        receiver.says(200, body);
        let ask = json!({ "agent": "desk", "message": "?", "wait": 0 });
        let (status, response) = program.posts("/v1/exchange", ask).await;
        assert_eq!(status, 202, "{response}");
        let asked = response["correlation_id"].as_str().unwrap();
        let arrived = async || {
            let (_, response) = program.gets("/v1/receipts").await;
            response["items"][0]["state"] == "delivered"
        };
        eventually("the question has arrived", arrived).await;
        assert_eq!(program.gets(&format!("/v1/exchanges/{asked}")).await.0, 202, "{body}");
    }
}
