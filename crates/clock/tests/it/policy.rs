//! Policies of jobs: missed times, windows and jitter.

use std::time::Duration;

use serde_json::json;

use crate::fixtures::{Agent, TestServer, seconds};

/// A job every minute with known next times, and a server that was down for ten and a half minutes.
async fn slept_through(policy: serde_json::Value) -> (TestServer, Agent) {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let mut request = heron.arm_request("job", &server.at(seconds(60)));
    request["policy"] = policy;
    request["then"] = (2..=30).map(|minute| server.at(seconds(60 * minute)).text().to_owned()).collect();
    heron.arm_with(request).await;
    server.advance(seconds(630));
    (server, heron)
}

fn minutes(server: &TestServer) -> Vec<u64> {
    let fires = server.callback.fires();
    let texts = fires.iter().map(|fire| fire.body["fire_at"].as_str().unwrap().to_owned());
    texts
        .map(|text| (1..=30).find(|minute| server.at(seconds(60 * minute)).text() == text).unwrap())
        .collect()
}

#[tokio::test]
async fn once_makes_up_for_the_latest_time_and_records_the_others() {
    let (server, heron) = slept_through(json!({ "missed": "once" })).await;
    server.callback.called(1).await;
    heron.history_begins_with(&["delivered"]).await;
    server.catch_up().await;
    assert_eq!(minutes(&server), [10]);
    assert_eq!(heron.history().await.iter().filter(|what| *what == "missed").count(), 9);
    // It continues with the next known time without a new arm request.
    assert_eq!(heron.list().await[0].1, server.at(seconds(660)).text());
    server.advance(Duration::from_millis(30_100));
    server.callback.called(2).await;
    assert_eq!(minutes(&server), [10, 11]);
}

#[tokio::test]
async fn skip_makes_up_for_nothing_beyond_its_window() {
    let (server, heron) = slept_through(json!({ "missed": "skip", "window": 20 })).await;
    server.catch_up().await;
    assert!(server.callback.fires().is_empty());
    assert_eq!(heron.history().await.iter().filter(|what| *what == "missed").count(), 10);
    assert_eq!(heron.list().await[0].1, server.at(seconds(660)).text());
    server.advance(Duration::from_millis(30_100));
    server.callback.called(1).await;
    assert_eq!(minutes(&server), [11]);
}

#[tokio::test]
async fn all_makes_up_for_every_time_inside_its_window_in_order() {
    let (server, heron) = slept_through(json!({ "missed": "all", "window": 240 })).await;
    server.advance_until(|| server.callback.fires().len() >= 4).await;
    heron.history_begins_with(&["delivered"]).await;
    assert_eq!(minutes(&server)[..4], [7, 8, 9, 10]);
    assert_eq!(heron.history().await.iter().filter(|what| *what == "missed").count(), 6);
}

#[tokio::test]
async fn without_a_wish_a_late_fire_is_made_as_soon_as_it_can_be() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    heron.arm("job", &server.at(seconds(60))).await;
    server.advance(seconds(3 * 24 * 3600));
    server.callback.called(1).await;
    server.catch_up().await;
    assert_eq!(server.callback.fires().len(), 1);
}

#[tokio::test]
async fn jitter_spreads_jobs_and_each_keeps_its_place() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    for job in 0..20 {
        let mut request = heron.arm_request(&format!("j{job}"), &server.at(seconds(10)));
        request["policy"] = json!({ "jitter": 10 });
        heron.arm_with(request).await;
    }
    server.advance(Duration::from_millis(10_099));
    server.catch_up().await;
    assert!(server.callback.fires().is_empty());
    server.advance_until(|| server.callback.fires().len() >= 5).await;
    assert!(server.callback.fires().len() < 20, "not all at once");
    server.advance_until(|| server.callback.fires().len() >= 20).await;
    assert!(server.time.now().since(crate::fixtures::start()) <= seconds(23));
}

#[tokio::test]
async fn an_arm_with_a_known_successor_is_given_up_after_an_hour_for_it() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    server.callback.answers((0..100).map(|_| crate::callback_server::ScriptedAnswer::Status(500, "")));
    let mut request = heron.arm_request("job", &server.at(seconds(0)));
    request["then"] = json!([server.at(seconds(20_000)).text()]);
    heron.arm_with(request).await;
    for _ in 0..100 {
        if heron_dead(&heron).await {
            break;
        }
        let before = server.callback.fires().len();
        server.advance(seconds(340));
        crate::fixtures::eventually(async || {
            heron_dead(&heron).await || server.callback.fires().len() > before
        })
        .await;
        server.catch_up().await;
    }
    assert!(heron_dead(&heron).await);
    let armed = server.clock.jobs().list(clock::JobFilter::default(), 5).await.unwrap();
    assert_eq!(armed[0].fire_at, server.at(seconds(20_000)));
}

async fn heron_dead(heron: &Agent) -> bool {
    heron
        .server
        .clock
        .jobs()
        .history(&heron.instance, None, None, 5)
        .await
        .unwrap()
        .iter()
        .any(|line| line.what == "dead")
}
