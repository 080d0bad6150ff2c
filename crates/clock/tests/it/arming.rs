//! Provision, cancel, list: contract sections 2.1 to 2.3 and 8.

use http::StatusCode;
use posthouse_wire::cron::FireAt;
use serde_json::json;

use crate::fixtures::{TestServer, seconds};

#[tokio::test]
async fn a_listed_time_is_the_text_that_was_sent() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    for (job, text) in [
        ("a", "2027-02-01T00:00:00.120000+00:00"),
        ("b", "2027-02-01T01:00:00Z"),
        ("c", "2027-02-01T09:30:00+05:30"),
    ] {
        heron.arm(job, &FireAt::parse(text).unwrap()).await;
    }
    let listed = heron.list().await;
    assert_eq!(
        listed.iter().map(|(_, time)| time.as_str()).collect::<Vec<_>>(),
        ["2027-02-01T00:00:00.120000+00:00", "2027-02-01T01:00:00Z", "2027-02-01T09:30:00+05:30"]
    );
}

#[tokio::test]
async fn the_same_key_again_is_the_same_schedule_and_one_fire() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let due = server.at(seconds(10));
    let schedule = heron.arm("job", &due).await;
    assert_eq!(heron.arm("job", &due).await, schedule);
    server.advance_until(|| !server.callback.fires().is_empty()).await;
    heron.history_begins_with(&["delivered"]).await;
    // A repeat gets the same schedule also after delivery, for a day.
    assert_eq!(heron.arm("job", &due).await, schedule);
    server.advance(seconds(3000));
    server.catch_up().await;
    assert_eq!(server.callback.fires().len(), 1);
    assert!(heron.list().await.is_empty());
}

#[tokio::test]
async fn another_time_replaces_the_pending_one() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let first = heron.arm("job", &server.at(seconds(10))).await;
    let second = heron.arm("job", &server.at(seconds(20))).await;
    assert_ne!(first, second);
    assert_eq!(heron.list().await.len(), 1);
    server.advance(seconds(15));
    server.catch_up().await;
    assert!(server.callback.fires().is_empty());
    server.advance_until(|| !server.callback.fires().is_empty()).await;
    assert_eq!(server.callback.fires()[0].body["fire_at"], server.at(seconds(20)).text());
}

#[tokio::test]
async fn a_cancel_means_silence_and_arming_after_it_always_works() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let due = server.at(seconds(10));
    heron.arm("job", &due).await;
    heron.cancel("job").await;
    heron.cancel("never-armed").await;
    server.advance(seconds(60));
    server.catch_up().await;
    assert!(server.callback.fires().is_empty());
    // Delivered, cancelled, armed again with the same key: it fires again.
    heron.arm("job", &due).await;
    server.callback.called(1).await;
    heron.history_begins_with(&["delivered", "cancelled"]).await;
    heron.cancel("job").await;
    heron.arm("job", &due).await;
    server.callback.called(2).await;
}

#[tokio::test]
async fn a_past_time_fires_at_once() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    heron.arm("job", &FireAt::parse("2020-01-01T00:00:00Z").unwrap()).await;
    server.callback.called(1).await;
}

#[tokio::test]
async fn two_agents_with_one_job_id_have_an_arm_each_and_see_only_their_own() {
    let server = TestServer::open().await;
    let (heron, wren) =
        (server.create_agent("acme", "heron").await, server.create_agent("bolt", "wren").await);
    heron.arm("job", &server.at(seconds(10))).await;
    wren.arm("job", &server.at(seconds(20))).await;
    assert_eq!(heron.list().await, [("job".to_owned(), server.at(seconds(10)).text().to_owned())]);
    heron.cancel("job").await;
    assert_eq!(wren.list().await.len(), 1);
    assert!(!wren.history().await.contains(&"cancelled".to_owned()));
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    let due = server.at(seconds(10));
    for (field, value) in [
        ("job_id", json!("")),
        ("job_id", json!("x".repeat(129))),
        ("job_id", json!("a\nb")),
        ("fire_at", json!("2027-02-01T00:00:00")),
        ("fire_at", json!("2047-02-01T00:00:00Z")),
        ("fire_at", json!(1_800_000_000)),
        ("agent_callback_url", json!("not a url")),
        ("agent_callback_url", json!(format!("https://a.example/{}", "x".repeat(2048)))),
        ("dedup_key", json!(null)),
        ("then", json!([server.at(seconds(5))])),
        ("policy", json!({"jitter": 4000})),
        ("policy", json!({"missed": "maybe"})),
    ] {
        let mut request = heron.arm_request("job", &due);
        request[field] = value;
        let (status, answer) = heron.post("provision", request.clone()).await;
        assert_eq!(status, 400, "{request}: {answer}");
        assert_eq!(
            (answer["error"].as_str(), answer["field"].as_str()),
            (Some("invalid_request"), Some(field)),
            "{request}"
        );
    }
    let (status, answer) = heron.post("provision", json!([])).await;
    assert_eq!((status.as_u16(), answer["field"].as_str()), (400, Some("body")));
    let huge = json!({ "job_id": "x".repeat(20_000) });
    assert_eq!(heron.post("provision", huge).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(heron.list().await.is_empty());
}

#[tokio::test]
async fn a_callback_that_may_not_be_called_is_refused_when_it_is_named() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    for url in [
        "https://169.254.169.254/",
        "https://10.0.0.1/",
        "https://[::ffff:10.0.0.1]/",
        "https://0xa9fea9fe/",
        "https://user:pass@agent.example/",
        "https://agent.example/?x=1",
        "https://agent.example/#x",
        "ftp://agent.example/",
        "file:///etc/passwd",
    ] {
        let mut request = heron.arm_request("job", &server.at(seconds(10)));
        request["agent_callback_url"] = json!(url);
        let (status, answer) = heron.post("provision", request).await;
        assert_eq!((status.as_u16(), answer["error"].as_str()), (422, Some("callback_not_allowed")), "{url}");
    }
}

#[tokio::test]
async fn past_its_quota_an_agent_hears_429_and_a_replacement_is_not_one_more() {
    let config = clock::Config { arms_per_agent: 2, ..clock::Config::default() };
    let server = TestServer::open_with(config).await;
    let heron = server.create_agent("acme", "heron").await;
    heron.arm("a", &server.at(seconds(100))).await;
    heron.arm("b", &server.at(seconds(100))).await;
    let (status, answer) = heron.post("provision", heron.arm_request("c", &server.at(seconds(100)))).await;
    assert_eq!((status.as_u16(), answer["error"].as_str()), (429, Some("quota_exceeded")));
    heron.arm("a", &server.at(seconds(200))).await;
    heron.cancel("b").await;
    heron.arm("c", &server.at(seconds(100))).await;
}

#[tokio::test]
async fn an_agent_that_asks_too_often_hears_429_and_others_do_not() {
    let config = clock::Config { requests_per_second: 5, requests_at_once: 5, ..clock::Config::default() };
    let server = TestServer::open_with(config).await;
    let (heron, wren) =
        (server.create_agent("acme", "heron").await, server.create_agent("bolt", "wren").await);
    let mut refused = 0;
    for _ in 0..8 {
        refused += usize::from(heron.get("list").await.0 == StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(refused, 3);
    assert_eq!(wren.get("list").await.0, StatusCode::OK);
    server.advance(seconds(1));
    assert_eq!(heron.get("list").await.0, StatusCode::OK);
}
