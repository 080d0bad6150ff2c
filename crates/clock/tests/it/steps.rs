//! Steps of the wall clock, forward and back, and suspended machines: contract sections 3.2 and 8.

use std::time::Duration;

use crate::agent::Answer;
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
        // Set back while "after" may already be held.
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
async fn a_step_back_does_not_stretch_the_pause_before_a_retry() {
    for step in [HOUR, DAY] {
        let town = Town::open().await;
        let heron = town.agent("acme", "heron").await;
        town.callback.answers([Answer::RetryAfter(503, 60)]);
        heron.arms("job", &town.at(seconds(10))).await;
        // So late that the job is due even after the step back.
        town.time.set(start() + seconds(2 * DAY));
        town.callback.called(1).await;
        heron.history_begins(&["attempt"]).await;
        town.time.set(start() + seconds(2 * DAY - step));
        let failed = town.time.instant();
        town.winds_until(|| town.callback.fires().len() == 2).await;
        assert!(town.time.instant().since(failed) < seconds(90));
        heron.history_begins(&["delivered", "attempt"]).await;
    }
}

#[tokio::test]
async fn a_step_neither_ends_nor_stretches_the_pause_before_a_retry() {
    for to in [2 * DAY + HOUR, 2 * DAY - 200, DAY] {
        let town = Town::open().await;
        let heron = town.agent("acme", "heron").await;
        town.callback.answers([Answer::RetryAfter(503, 60)]);
        heron.arms("job", &town.at(seconds(10))).await;
        town.time.set(start() + seconds(2 * DAY));
        town.callback.called(1).await;
        heron.history_begins(&["attempt"]).await;
        town.time.set(start() + seconds(to));
        let failed = town.time.instant();
        for _ in 0..50 {
            town.time.wind(seconds(1));
            town.settles().await;
        }
        assert_eq!(town.callback.fires().len(), 1, "the agent asked for a minute, give or take a tenth");
        town.winds_until(|| town.callback.fires().len() == 2).await;
        assert!(town.time.instant().since(failed) < seconds(75));
        heron.history_begins(&["delivered", "attempt"]).await;
    }
}

/// The agent would compute that very time as the job's next run, and the job would never fire again.
#[tokio::test]
async fn a_retry_is_never_made_before_its_time_though_the_clock_was_set_back() {
    for (answer, dials) in [
        (Answer::RetryAfter(503, 60), false),
        (Answer::RetryAfter(503, 0), false),
        (Answer::RetryAfter(503, 60), true),
    ] {
        let town = Town::open().await;
        let (heron, otter) = (town.agent("acme", "heron").await, town.agent("globex", "otter").await);
        // The wall clock is an hour ahead when the job is tried, and is then set right.
        heron.arms("job", &town.at(seconds(40 * 60))).await;
        otter.arms("marker", &town.at(seconds(40 * 60 - 1))).await;
        town.callback.answers([answer.clone(), answer]);
        town.time.set(start() + seconds(HOUR));
        town.callback.called(2).await;
        heron.history_begins(&["attempt"]).await;
        otter.history_begins(&["attempt"]).await;
        town.time.set(start());
        if dials {
            // Asking for the list is a sign of life too.
            heron.lists().await;
        }
        for _ in 0..40 {
            town.settles().await;
            assert_eq!(town.callback.fires().len(), 2, "at {}", town.time.now().millis());
            town.time.wind(seconds(60) - Duration::from_millis(25));
        }
        town.time.wind(Duration::from_millis(200));
        // A second before the job's due time only the other job fires.
        town.callback.called(3).await;
        town.settles().await;
        assert_eq!(town.callback.jobs()[2..], ["marker"]);
        town.winds_until(|| town.callback.fires().len() == 4).await;
        assert!(town.time.now() >= start() + seconds(40 * 60));
        assert_eq!(town.callback.jobs()[2..], ["marker", "job"]);
    }
}

#[tokio::test]
async fn a_step_ahead_by_weeks_gives_no_failing_fire_up() {
    let town = Town::open().await;
    let heron = town.agent("acme", "heron").await;
    town.callback.answers([Answer::Status(503, ""), Answer::Status(503, "")]);
    heron.arms("job", &town.at(seconds(10))).await;
    town.time.wind(Duration::from_millis(10_100));
    town.callback.called(1).await;
    heron.history_begins(&["attempt"]).await;
    town.time.set(start() + seconds(30 * DAY));
    town.winds_until(|| town.callback.fires().len() == 2).await;
    heron.history_begins(&["attempt", "attempt"]).await;
    town.winds_until(|| town.callback.fires().len() == 3).await;
    heron.history_begins(&["delivered", "attempt", "attempt"]).await;
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
