//! The sleep door: an agent asks to be stopped (section 16.6).

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use errand::{Errand, OutgoingCall};
use tokio::sync::Semaphore;

use crate::test_server::{Agent, TestServer, eventually, seconds};
use crate::wake::asleep;

/// An operator's stop URL.
#[derive(Clone)]
struct StopUrl {
    url: String,
    state: Arc<StopState>,
}

struct StopState {
    called: AtomicUsize,
    status: AtomicU16,
    /// Each call waits for one permit.
    answers: Semaphore,
}

impl StopUrl {
    async fn answering(status: u16) -> Self {
        let state = Arc::new(StopState {
            called: AtomicUsize::new(0),
            status: AtomicU16::new(status),
            answers: Semaphore::new(100),
        });
        let door = Router::new().fallback(stop).with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/stop", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, door).await });
        Self { url, state }
    }

    async fn hanging() -> Self {
        let stop = Self::answering(200).await;
        stop.state.answers.forget_permits(100);
        stop
    }

    fn called(&self) -> usize {
        self.state.called.load(Ordering::SeqCst)
    }
}

async fn stop(
    State(state): State<Arc<StopState>>,
    method: Method,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    assert_eq!((method, body.as_str()), (Method::POST, ""));
    assert!(!headers.contains_key("authorization") && !headers.contains_key("cookie"));
    state.called.fetch_add(1, Ordering::SeqCst);
    state.answers.acquire().await.unwrap().forget();
    StatusCode::from_u16(state.status.load(Ordering::SeqCst)).unwrap()
}

async fn token(server: &TestServer, agent: &Agent, url: &str) -> String {
    let urls = &server.identity.sleep_urls;
    urls.set_stop_url(&agent.instance, Some(url)).await.unwrap();
    urls.make_token(&agent.instance).await.unwrap().unwrap().expose().to_owned()
}

/// Asks to be stopped. Returns the status and the body.
async fn asks(server: &TestServer, token: &str) -> (u16, String) {
    let url = format!("http://{}/relay/sleep?t={token}", server.address);
    let call = OutgoingCall::post(url, Vec::new()).timeout(seconds(60));
    let answer = Errand::new(errand::Config::loopback()).run(call).await.unwrap();
    (answer.status.as_u16(), String::from_utf8(answer.body.to_vec()).unwrap())
}

#[tokio::test]
async fn an_agent_that_nobody_needs_is_stopped_and_counts_as_idle() {
    let (server, heron, _) = asleep().await;
    let stop = StopUrl::answering(204).await;
    let token = token(&server, &heron, &stop.url).await;
    assert!(token.starts_with("phz_"));
    assert_eq!(asks(&server, &token).await, (202, r#"{"ok":true}"#.to_owned()));
    assert_eq!(stop.called(), 1);
    let agent = server.ledger.roster().instance(&heron.instance).await.unwrap().unwrap();
    assert!(agent.idle);
}

#[tokio::test]
async fn an_agent_with_unread_messages_or_a_live_socket_is_not_stopped() {
    let (server, heron, _) = asleep().await;
    let stop = StopUrl::answering(200).await;
    let token = token(&server, &heron, &stop.url).await;
    heron.hears_from("waits").await;
    assert_eq!(asks(&server, &token).await.0, 409);
    let mut gateway = heron.sits_settled().await;
    gateway.takes("waits").await;
    heron.has_unread(0).await;
    assert_eq!(asks(&server, &token).await.0, 409);
    assert_eq!(stop.called(), 0);
    gateway.says_goodbye().await;
    eventually(|| !server.relay.connections().presence(&heron.instance).connected).await;
    assert_eq!(asks(&server, &token).await.0, 202);
}

#[tokio::test]
async fn a_token_that_is_wrong_ended_or_of_a_revoked_agent_is_answered_like_an_unknown_one() {
    let (server, heron, _) = asleep().await;
    let stop = StopUrl::answering(200).await;
    let first = token(&server, &heron, &stop.url).await;
    let second = token(&server, &heron, &stop.url).await;
    assert_eq!(asks(&server, &first).await.0, 202, "it stays valid for a day");
    server.winds(seconds(24 * 3600));
    let unknown = (404, r#"{"error":"not found"}"#.to_owned());
    for wrong in [&first, "", "phz_", "phz_unknown", "%00", &format!("phz_{}", "x".repeat(1000))] {
        assert_eq!(asks(&server, wrong).await, unknown, "{wrong}");
    }
    assert_eq!(asks(&server, &second).await.0, 202);
    let called = stop.called();
    assert!(server.keyring.revoke(&heron.gateway).await.unwrap());
    assert_eq!(asks(&server, &second).await, unknown);
    server.identity.sleep_urls.set_stop_url(&heron.instance, None).await.unwrap();
    assert_eq!(asks(&server, &second).await, unknown);
    assert_eq!(stop.called(), called);
}

#[tokio::test]
async fn a_stop_url_that_refuses_or_is_private_leaves_the_agent_awake() {
    let (server, heron, _) = asleep().await;
    let stop = StopUrl::answering(500).await;
    let refusing = token(&server, &heron, &stop.url).await;
    assert_eq!(asks(&server, &refusing).await.0, 502);
    for private in ["http://10.0.0.1/stop", "http://[::ffff:10.0.0.1]/stop", "http://0x0a000001/stop"] {
        let token = token(&server, &heron, private).await;
        assert_eq!(asks(&server, &token).await.0, 502, "{private}");
    }
}

#[tokio::test]
async fn an_agent_gets_its_answer_in_time_even_if_the_stop_url_hangs() {
    let (server, heron, _) = asleep().await;
    let stop = StopUrl::hanging().await;
    let token = token(&server, &heron, &stop.url).await;
    let asking = asks(&server, &token);
    tokio::pin!(asking);
    tokio::select! {
        early = &mut asking => panic!("{early:?}"),
        () = eventually(|| stop.called() == 1) => {}
    }
    assert_eq!(asks(&server, &token).await.0, 409, "one call at a time");
    server.winds(seconds(25));
    assert_eq!(asking.await.0, 502);
}

#[tokio::test]
async fn a_message_that_comes_while_the_agent_is_being_stopped_wakes_it_at_once() {
    let (server, heron, alarm) = asleep().await;
    let stop = StopUrl::hanging().await;
    let token = token(&server, &heron, &stop.url).await;
    let asking = asks(&server, &token);
    tokio::pin!(asking);
    tokio::select! {
        early = &mut asking => panic!("{early:?}"),
        () = eventually(|| stop.called() == 1) => {}
    }
    heron.hears_from("too late to stay awake").await;
    alarm.has_rung(1).await;
    stop.state.answers.add_permits(1);
    assert_eq!(asking.await.0, 202);
    // The first call may have found the agent still running.
    alarm.has_rung(2).await;
}
