//! Policies of jobs: missed times, windows and jitter.

use std::time::Duration;

use serde_json::json;

use crate::town::{Agent, Town, seconds};

/// A job every minute with known next times, and a server that was down for ten and a half minutes.
async fn slept_through(policy: serde_json::Value) -> (Town, Agent) {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    let mut wish = heron.wish("job", &town.at(seconds(60)));
    wish["policy"] = policy;
    wish["then"] = (2..=30).map(|minute| town.at(seconds(60 * minute)).text().to_owned()).collect();
    heron.arms_with(wish).await;
    town.time.wind(seconds(630));
    (town, heron)
}

fn minutes(town: &Town) -> Vec<u64> {
    let fires = town.callback.fires();
    let texts = fires.iter().map(|fire| fire.body["fire_at"].as_str().unwrap().to_owned());
    texts.map(|text| (1..=30).find(|minute| town.at(seconds(60 * minute)).text() == text).unwrap()).collect()
}

#[tokio::test]
async fn once_makes_up_for_the_latest_time_and_records_the_others() {
    let (town, heron) = slept_through(json!({ "missed": "once" })).await;
    town.callback.called(1).await;
    heron.history_begins(&["delivered"]).await;
    town.settles().await;
    assert_eq!(minutes(&town), [10]);
    assert_eq!(heron.told().await.iter().filter(|what| *what == "missed").count(), 9);
    // It continues with the next known time without a new arm request.
    assert_eq!(heron.lists().await[0].1, town.at(seconds(660)).text());
    town.time.wind(Duration::from_millis(30_100));
    town.callback.called(2).await;
    assert_eq!(minutes(&town), [10, 11]);
}

#[tokio::test]
async fn skip_makes_up_for_nothing_beyond_its_window() {
    let (town, heron) = slept_through(json!({ "missed": "skip", "window": 20 })).await;
    town.settles().await;
    assert!(town.callback.fires().is_empty());
    assert_eq!(heron.told().await.iter().filter(|what| *what == "missed").count(), 10);
    assert_eq!(heron.lists().await[0].1, town.at(seconds(660)).text());
    town.time.wind(Duration::from_millis(30_100));
    town.callback.called(1).await;
    assert_eq!(minutes(&town), [11]);
}

#[tokio::test]
async fn all_makes_up_for_every_time_inside_its_window_in_order() {
    let (town, heron) = slept_through(json!({ "missed": "all", "window": 240 })).await;
    town.winds_until(|| town.callback.fires().len() >= 4).await;
    heron.history_begins(&["delivered"]).await;
    assert_eq!(minutes(&town)[..4], [7, 8, 9, 10]);
    assert_eq!(heron.told().await.iter().filter(|what| *what == "missed").count(), 6);
}

#[tokio::test]
async fn without_a_wish_a_late_fire_is_made_as_soon_as_it_can_be() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    heron.arms("job", &town.at(seconds(60))).await;
    town.time.wind(seconds(3 * 24 * 3600));
    town.callback.called(1).await;
    town.settles().await;
    assert_eq!(town.callback.fires().len(), 1);
}

#[tokio::test]
async fn jitter_spreads_jobs_and_each_keeps_its_place() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    for job in 0..20 {
        let mut wish = heron.wish(&format!("j{job}"), &town.at(seconds(10)));
        wish["policy"] = json!({ "jitter": 10 });
        heron.arms_with(wish).await;
    }
    town.time.wind(Duration::from_millis(10_099));
    town.settles().await;
    assert!(town.callback.fires().is_empty());
    town.winds_until(|| town.callback.fires().len() >= 5).await;
    assert!(town.callback.fires().len() < 20, "not all at once");
    town.winds_until(|| town.callback.fires().len() >= 20).await;
    assert!(town.time.now().since(crate::town::start()) <= seconds(23));
}

#[tokio::test]
async fn an_arm_with_a_known_successor_is_given_up_after_an_hour_for_it() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    town.callback.answers((0..100).map(|_| crate::agent::Answer::Status(500, "")));
    let mut wish = heron.wish("job", &town.at(seconds(0)));
    wish["then"] = json!([town.at(seconds(20_000)).text()]);
    heron.arms_with(wish).await;
    for _ in 0..100 {
        if heron_dead(&heron).await {
            break;
        }
        let before = town.callback.fires().len();
        town.time.wind(seconds(340));
        crate::town::eventually(async || heron_dead(&heron).await || town.callback.fires().len() > before)
            .await;
        town.settles().await;
    }
    assert!(heron_dead(&heron).await);
    let armed = town.clock.jobs(clock::JobFilter::default(), 5).await.unwrap();
    assert_eq!(armed[0].fire_at, town.at(seconds(20_000)));
}

async fn heron_dead(heron: &Agent) -> bool {
    heron
        .town
        .clock
        .job_history(&heron.instance, None, None, 5)
        .await
        .unwrap()
        .iter()
        .any(|line| line.what == "dead")
}
