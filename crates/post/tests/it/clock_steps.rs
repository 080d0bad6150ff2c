//! Tests of wall-clock steps: waits, leases and pauses keep their length when the clock is set by hours.

use std::time::Duration;

use serde_json::json;

use crate::receiver::Receiver;
use crate::test_server::{TestServer, eventually};

/// Long for a wait, short for an access token.
const STEP: Duration = Duration::from_secs(30 * 60);

/// Wires an agent to a receiver of its own.
async fn wired(server: &TestServer, agent: &str) -> Receiver {
    let receiver = Receiver::open().await;
    let url = format!("{}/in", receiver.base);
    server
        .wires("acme", &format!("hook-{agent}"), "webhook", json!({ "agents": { agent: { "url": url } } }))
        .await;
    receiver
}

#[tokio::test]
async fn a_step_of_the_wall_clock_ends_no_question_early_and_keeps_none_open() {
    let server = TestServer::wound().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let start = server.time.now();
    let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "timeout": 60, "wait": 0 });
    let (status, response) = program.posts("/v1/exchange", body).await;
    assert_eq!(status, 202, "{response}");
    server.time.set(start + STEP);
    let (status, response) = program.gets("/v1/exchanges/q-1?wait=0").await;
    assert_eq!(status, 202, "no time has passed: {response}");
    server.time.set(start - STEP);
    let waiting = tokio::spawn({
        let program = program.clone();
        async move { program.gets("/v1/exchanges/q-1?wait=600").await }
    });
    let (status, response) = server.time.wind_until(Duration::from_secs(20), waiting).await.unwrap();
    assert_eq!((status.as_u16(), &response["code"]), (504, &json!("timeout")), "{response}");
    assert!(server.time.now() < start, "by the wall clock its time would not be up");
}

#[tokio::test]
async fn a_wait_for_an_answer_is_not_cut_short_by_a_step_ahead() {
    let server = TestServer::wound().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let body =
        json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "timeout": 600, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", body).await.0, 202);
    let mut waiting = tokio::spawn({
        let program = program.clone();
        async move { program.gets("/v1/exchanges/q-1?wait=60").await }
    });
    // A second question, asked after the step, is the marker: its own wait of nothing is over at once.
    server.time.set(server.time.now() + STEP);
    let marker = json!({ "agent": "heron", "message": "!", "correlation_id": "q-2", "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", marker).await.0, 202);
    tokio::select! {
        biased;
        ended = &mut waiting => panic!("it waited for nothing: {ended:?}"),
        () = std::future::ready(()) => {}
    }
    let (status, _) = server.time.wind_until(Duration::from_secs(20), waiting).await.unwrap();
    assert_eq!(status, 202, "its wait is over, and it is still open");
}

/// Clocks that are slewed are apart by a few milliseconds all the time.
#[tokio::test]
async fn a_wall_clock_that_is_a_few_milliseconds_ahead_keeps_nobody_busy_at_a_deadline() {
    let server = TestServer::wound().await;
    server.enrol("acme", "heron").await;
    let program = server.program("acme").await;
    let body = json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "timeout": 20, "wait": 0 });
    assert_eq!(program.posts("/v1/exchange", body).await.0, 202);
    server.time.set(server.time.now() + Duration::from_millis(15));
    server.time.wind(Duration::from_millis(19_990));
    let before = server.ledger.commits();
    let waiting = tokio::spawn({
        let program = program.clone();
        async move { program.gets("/v1/exchanges/q-1?wait=60").await }
    });
    for _ in 0..50 {
        assert_eq!(program.gets("/v1/exchanges/q-1?wait=0").await.0, 202, "ten milliseconds are left");
    }
    let commits = server.ledger.commits() - before;
    // In memory a read is a commit, too.
    assert!(commits < 150, "{commits} commits while nothing happens");
    let (status, _) = server.time.wind_until(Duration::from_millis(10), waiting).await.unwrap();
    assert_eq!(status, 504);
}

#[tokio::test]
async fn an_attempt_that_failed_is_made_again_in_time_though_the_wall_clock_was_set_back() {
    let server = TestServer::wound().await;
    let desk = wired(&server, "desk").await;
    let program = server.program("acme").await;
    desk.says(503, "");
    program.notifies("desk", "hello").await;
    desk.one();
    desk.says(200, "");
    server.time.set(server.time.now() - STEP);
    let before = server.time.instant();
    let comes = eventually("the second attempt comes", async || !desk.seen().is_empty());
    server.time.wind_until(Duration::from_millis(250), comes).await;
    assert!(server.time.instant().since(before) < Duration::from_secs(60));
}

#[tokio::test]
async fn a_step_ahead_does_not_end_the_lease_of_an_attempt_under_way() {
    let server = TestServer::wound().await;
    let (slow, marker) = (wired(&server, "slow").await, wired(&server, "marker").await);
    let program = server.program("acme").await;
    slow.stalls();
    let hanging = tokio::spawn({
        let program = program.clone();
        async move { program.notifies("slow", "hello").await }
    });
    eventually("the attempt is under way", async || slow.count() == 1).await;
    server.time.set(server.time.now() + STEP);
    // Whatever is due is sent oldest first. The marker's second attempt is due after the lease would be.
    marker.says(503, "");
    program.notifies("marker", "hello").await;
    marker.says(200, "");
    let comes = eventually("the marker comes again", async || marker.count() == 2);
    server.time.wind_until(Duration::from_millis(250), comes).await;
    assert_eq!(slow.count(), 1, "nobody made it a second time");
    hanging.abort();
}
