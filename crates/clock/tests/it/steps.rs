//! The wall clock is set, forward and back, and machines are suspended: contract sections 3.2 and 8.

use std::time::Duration;

use crate::town::{Town, seconds, start};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

#[tokio::test]
async fn a_step_forward_fires_what_became_due_once() {
    for step in [HOUR, DAY] {
        let town = Town::open().await;
        let heron = town.agent("acme", "heron").await;
        heron.arms("soon", &town.at(seconds(step / 2))).await;
        heron.arms("later", &town.at(seconds(step + 60))).await;
        town.settles().await;
        town.time.set(start() + seconds(step));
        town.callback.called(1).await;
        town.settles().await;
        assert_eq!(town.callback.jobs(), ["soon"]);
        town.time.wind(Duration::from_millis(60_100));
        town.callback.called(2).await;
        town.settles().await;
        assert_eq!(town.callback.jobs(), ["soon", "later"]);
    }
}

#[tokio::test]
async fn a_step_back_fires_nothing_early_and_nothing_twice() {
    for step in [HOUR, DAY] {
        let town = Town::open().await;
        let heron = town.agent("acme", "heron").await;
        heron.arms("before", &town.at(seconds(10))).await;
        heron.arms("after", &town.at(seconds(20))).await;
        town.time.wind(Duration::from_millis(10_100));
        town.callback.called(1).await;
        heron.history_begins(&["delivered"]).await;
        // Set back while "after" may already be held for its instant.
        town.time.wind(Duration::from_millis(9_950));
        town.settles().await;
        town.time.set(start() - seconds(step));
        town.settles().await;
        town.time.wind(seconds(step + 19));
        town.settles().await;
        assert_eq!(town.callback.jobs(), ["before"]);
        town.time.wind(Duration::from_millis(1_200));
        town.callback.called(2).await;
        town.time.wind(seconds(2 * step));
        town.settles().await;
        assert_eq!(town.callback.jobs(), ["before", "after"]);
    }
}

#[tokio::test]
async fn after_eight_hours_of_suspension_each_due_job_fires_once() {
    let town = Town::open_with(crate::firing::one_at_a_time()).await;
    let heron = town.agent("acme", "heron").await;
    for hour in 1..=10 {
        heron.arms(&format!("h{hour:02}"), &town.at(seconds(hour * HOUR))).await;
    }
    town.settles().await;
    town.time.set(start() + seconds(8 * HOUR + 1));
    town.winds_until(|| town.callback.fires().len() >= 8).await;
    town.settles().await;
    let expected: Vec<String> = (1..=8).map(|hour| format!("h{hour:02}")).collect();
    assert_eq!(town.callback.jobs(), expected);
}

#[tokio::test]
async fn an_arm_beyond_the_horizon_is_fetched_in_time() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    heron.arms("far", &town.at(seconds(40 * 60))).await;
    for _ in 0..40 {
        town.settles().await;
        assert!(town.callback.fires().is_empty());
        town.time.wind(seconds(60));
    }
    town.time.wind(Duration::from_millis(100));
    town.callback.called(1).await;
}
