//! Provision, cancel, list: contract sections 2.1 to 2.3 and 8.

use http::StatusCode;
use posthouse_wire::cron::FireAt;
use serde_json::json;

use crate::town::{Town, seconds};

#[tokio::test]
async fn a_listed_time_is_the_text_that_was_sent() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    for (job, text) in [
        ("a", "2027-02-01T00:00:00.120000+00:00"),
        ("b", "2027-02-01T01:00:00Z"),
        ("c", "2027-02-01T09:30:00+05:30"),
    ] {
        heron.arms(job, &FireAt::parse(text).unwrap()).await;
    }
    let listed = heron.lists().await;
    assert_eq!(
        listed.iter().map(|(_, time)| time.as_str()).collect::<Vec<_>>(),
        ["2027-02-01T00:00:00.120000+00:00", "2027-02-01T01:00:00Z", "2027-02-01T09:30:00+05:30"]
    );
}

#[tokio::test]
async fn the_same_key_again_is_the_same_schedule_and_one_fire() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let due = town.at(seconds(10));
    let schedule = heron.arms("job", &due).await;
    assert_eq!(heron.arms("job", &due).await, schedule);
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    heron.history_begins(&["delivered"]).await;
    // A repeat gets the same schedule also after delivery, for a day.
    assert_eq!(heron.arms("job", &due).await, schedule);
    town.time.wind(seconds(3000));
    town.settles().await;
    assert_eq!(town.callback.fires().len(), 1);
    assert!(heron.lists().await.is_empty());
}

#[tokio::test]
async fn another_time_replaces_the_pending_one() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let first = heron.arms("job", &town.at(seconds(10))).await;
    let second = heron.arms("job", &town.at(seconds(20))).await;
    assert_ne!(first, second);
    assert_eq!(heron.lists().await.len(), 1);
    town.time.wind(seconds(15));
    town.settles().await;
    assert!(town.callback.fires().is_empty());
    town.winds_until(|| !town.callback.fires().is_empty()).await;
    assert_eq!(town.callback.fires()[0].body["fire_at"], town.at(seconds(20)).text());
}

#[tokio::test]
async fn a_cancel_means_silence_and_arming_after_it_always_works() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let due = town.at(seconds(10));
    heron.arms("job", &due).await;
    heron.cancels("job").await;
    heron.cancels("never-armed").await;
    town.time.wind(seconds(60));
    town.settles().await;
    assert!(town.callback.fires().is_empty());
    // Delivered, cancelled, armed again with the same key: it fires again.
    heron.arms("job", &due).await;
    town.callback.called(1).await;
    heron.history_begins(&["delivered", "cancelled"]).await;
    heron.cancels("job").await;
    heron.arms("job", &due).await;
    town.callback.called(2).await;
}

#[tokio::test]
async fn a_past_time_fires_at_once() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    heron.arms("job", &FireAt::parse("2020-01-01T00:00:00Z").unwrap()).await;
    town.callback.called(1).await;
}

#[tokio::test]
async fn two_agents_with_one_job_id_have_an_arm_each_and_see_only_their_own() {
    let town = Town::open().await;
    let (heron, wren) = (town.agent("acme", "heron").await, town.agent("bolt", "wren").await);
    heron.arms("job", &town.at(seconds(10))).await;
    wren.arms("job", &town.at(seconds(20))).await;
    assert_eq!(heron.lists().await, [("job".to_owned(), town.at(seconds(10)).text().to_owned())]);
    heron.cancels("job").await;
    assert_eq!(wren.lists().await.len(), 1);
    assert!(!wren.told().await.contains(&"cancelled".to_owned()));
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_named() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let due = town.at(seconds(10));
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
        ("then", json!([town.at(seconds(5))])),
        ("policy", json!({"jitter": 4000})),
        ("policy", json!({"missed": "maybe"})),
    ] {
        let mut wish = heron.wish("job", &due);
        wish[field] = value;
        let (status, answer) = heron.posts("provision", wish.clone()).await;
        assert_eq!(status, 400, "{wish}: {answer}");
        assert_eq!(
            (answer["error"].as_str(), answer["field"].as_str()),
            (Some("invalid_request"), Some(field)),
            "{wish}"
        );
    }
    let (status, answer) = heron.posts("provision", json!([])).await;
    assert_eq!((status.as_u16(), answer["field"].as_str()), (400, Some("body")));
    let huge = json!({ "job_id": "x".repeat(20_000) });
    assert_eq!(heron.posts("provision", huge).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(heron.lists().await.is_empty());
}

#[tokio::test]
async fn a_callback_that_may_not_be_called_is_refused_when_it_is_named() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
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
        let mut wish = heron.wish("job", &town.at(seconds(10)));
        wish["agent_callback_url"] = json!(url);
        let (status, answer) = heron.posts("provision", wish).await;
        assert_eq!((status.as_u16(), answer["error"].as_str()), (422, Some("callback_not_allowed")), "{url}");
    }
}

#[tokio::test]
async fn past_its_quota_an_agent_hears_429_and_a_replacement_is_not_one_more() {
    let config = clock::Config { arms_per_agent: 2, ..clock::Config::default() };
    let town = Town::open_with(config).await;
    let heron = town.agent("acme", "heron").await;
    heron.arms("a", &town.at(seconds(100))).await;
    heron.arms("b", &town.at(seconds(100))).await;
    let (status, answer) = heron.posts("provision", heron.wish("c", &town.at(seconds(100)))).await;
    assert_eq!((status.as_u16(), answer["error"].as_str()), (429, Some("quota_exceeded")));
    heron.arms("a", &town.at(seconds(200))).await;
    heron.cancels("b").await;
    heron.arms("c", &town.at(seconds(100))).await;
}

#[tokio::test]
async fn an_agent_that_asks_too_often_hears_429_and_others_do_not() {
    let config = clock::Config { requests_per_second: 5, requests_at_once: 5, ..clock::Config::default() };
    let town = Town::open_with(config).await;
    let (heron, wren) = (town.agent("acme", "heron").await, town.agent("bolt", "wren").await);
    let mut refused = 0;
    for _ in 0..8 {
        refused += usize::from(heron.gets("list").await.0 == StatusCode::TOO_MANY_REQUESTS);
    }
    assert_eq!(refused, 3);
    assert_eq!(wren.gets("list").await.0, StatusCode::OK);
    town.time.wind(seconds(1));
    assert_eq!(heron.gets("list").await.0, StatusCode::OK);
}
