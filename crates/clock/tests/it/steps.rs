//! Steps of the wall clock, forward and back, and suspended machines: contract sections 3.2 and 8.

use std::time::Duration;

use crate::callback_server::ScriptedAnswer;
use crate::fixtures::{TestServer, seconds, start};

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

#[tokio::test]
async fn a_step_forward_fires_what_became_due_once() {
    for step in [HOUR, DAY] {
        let server = TestServer::open().await;
        let heron = server.create_agent("acme", "heron").await;
        heron.arm("soon", &server.at(seconds(step / 2))).await;
        heron.arm("later", &server.at(seconds(step + 60))).await;
        server.catch_up().await;
        server.time.set(start() + seconds(step));
        server.callback.called(1).await;
        server.catch_up().await;
        assert_eq!(server.callback.jobs(), ["soon"]);
        server.advance(Duration::from_millis(60_100));
        server.callback.called(2).await;
        server.catch_up().await;
        assert_eq!(server.callback.jobs(), ["soon", "later"]);
    }
}

#[tokio::test]
async fn a_step_back_fires_nothing_early_and_nothing_twice() {
    for step in [HOUR, DAY] {
        let server = TestServer::open().await;
        let heron = server.create_agent("acme", "heron").await;
        heron.arm("before", &server.at(seconds(10))).await;
        heron.arm("after", &server.at(seconds(20))).await;
        server.advance(Duration::from_millis(10_100));
        server.callback.called(1).await;
        heron.history_begins_with(&["delivered"]).await;
        // Set back while "after" may already be held.
        server.advance(Duration::from_millis(9_950));
        server.catch_up().await;
        server.time.set(start() - seconds(step));
        server.catch_up().await;
        server.advance(seconds(step + 19));
        server.catch_up().await;
        assert_eq!(server.callback.jobs(), ["before"]);
        server.advance(Duration::from_millis(1_200));
        server.callback.called(2).await;
        server.advance(seconds(2 * step));
        server.catch_up().await;
        assert_eq!(server.callback.jobs(), ["before", "after"]);
    }
}

#[tokio::test]
async fn a_step_back_does_not_stretch_the_pause_before_a_retry() {
    for step in [HOUR, DAY] {
        let server = TestServer::open().await;
        let heron = server.create_agent("acme", "heron").await;
        server.callback.answers([ScriptedAnswer::RetryAfter(503, 60)]);
        heron.arm("job", &server.at(seconds(10))).await;
        // So late that the job is due even after the step back.
        server.time.set(start() + seconds(2 * DAY));
        server.callback.called(1).await;
        heron.history_begins_with(&["attempt"]).await;
        server.time.set(start() + seconds(2 * DAY - step));
        let failed = server.time.instant();
        server.advance_until(|| server.callback.fires().len() == 2).await;
        assert!(server.time.instant().since(failed) < seconds(90));
        heron.history_begins_with(&["delivered", "attempt"]).await;
    }
}

#[tokio::test]
async fn a_step_neither_ends_nor_stretches_the_pause_before_a_retry() {
    for to in [2 * DAY + HOUR, 2 * DAY - 200, DAY] {
        let server = TestServer::open().await;
        let heron = server.create_agent("acme", "heron").await;
        server.callback.answers([ScriptedAnswer::RetryAfter(503, 60)]);
        heron.arm("job", &server.at(seconds(10))).await;
        server.time.set(start() + seconds(2 * DAY));
        server.callback.called(1).await;
        heron.history_begins_with(&["attempt"]).await;
        server.time.set(start() + seconds(to));
        let failed = server.time.instant();
        for _ in 0..50 {
            server.advance(seconds(1));
            server.catch_up().await;
        }
        assert_eq!(server.callback.fires().len(), 1, "the agent asked for a minute, give or take a tenth");
        server.advance_until(|| server.callback.fires().len() == 2).await;
        assert!(server.time.instant().since(failed) < seconds(75));
        heron.history_begins_with(&["delivered", "attempt"]).await;
    }
}

/// The agent would compute that very time as the job's next run, and the job would never fire again.
#[tokio::test]
async fn a_retry_is_never_made_before_its_time_though_the_clock_was_set_back() {
    for (answer, dials) in [
        (ScriptedAnswer::RetryAfter(503, 60), false),
        (ScriptedAnswer::RetryAfter(503, 0), false),
        (ScriptedAnswer::RetryAfter(503, 60), true),
    ] {
        let server = TestServer::open().await;
        let (heron, otter) =
            (server.create_agent("acme", "heron").await, server.create_agent("globex", "otter").await);
        // The wall clock is an hour ahead when the job is tried, and is then set right.
        heron.arm("job", &server.at(seconds(40 * 60))).await;
        otter.arm("marker", &server.at(seconds(40 * 60 - 1))).await;
        server.callback.answers([answer.clone(), answer]);
        server.time.set(start() + seconds(HOUR));
        server.callback.called(2).await;
        heron.history_begins_with(&["attempt"]).await;
        otter.history_begins_with(&["attempt"]).await;
        server.time.set(start());
        if dials {
            // Asking for the list is a sign of life too.
            heron.list().await;
        }
        for _ in 0..40 {
            server.catch_up().await;
            assert_eq!(server.callback.fires().len(), 2, "at {}", server.time.now().millis());
            server.advance(seconds(60) - Duration::from_millis(25));
        }
        server.advance(Duration::from_millis(200));
        // A second before the job's due time only the other job fires.
        server.callback.called(3).await;
        server.catch_up().await;
        assert_eq!(server.callback.jobs()[2..], ["marker"]);
        server.advance_until(|| server.callback.fires().len() == 4).await;
        assert!(server.time.now() >= start() + seconds(40 * 60));
        assert_eq!(server.callback.jobs()[2..], ["marker", "job"]);
    }
}

#[tokio::test]
async fn a_step_ahead_by_weeks_gives_no_failing_fire_up() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    server.callback.answers([ScriptedAnswer::Status(503, ""), ScriptedAnswer::Status(503, "")]);
    heron.arm("job", &server.at(seconds(10))).await;
    server.advance(Duration::from_millis(10_100));
    server.callback.called(1).await;
    heron.history_begins_with(&["attempt"]).await;
    server.time.set(start() + seconds(30 * DAY));
    server.advance_until(|| server.callback.fires().len() == 2).await;
    heron.history_begins_with(&["attempt", "attempt"]).await;
    server.advance_until(|| server.callback.fires().len() == 3).await;
    heron.history_begins_with(&["delivered", "attempt", "attempt"]).await;
}

#[tokio::test]
async fn after_eight_hours_of_suspension_each_due_job_fires_once() {
    let server = TestServer::open_with(crate::firing::one_at_a_time()).await;
    let heron = server.create_agent("acme", "heron").await;
    for hour in 1..=10 {
        heron.arm(&format!("h{hour:02}"), &server.at(seconds(hour * HOUR))).await;
    }
    server.catch_up().await;
    server.time.set(start() + seconds(8 * HOUR + 1));
    server.advance_until(|| server.callback.fires().len() >= 8).await;
    server.catch_up().await;
    let expected: Vec<String> = (1..=8).map(|hour| format!("h{hour:02}")).collect();
    assert_eq!(server.callback.jobs(), expected);
}

#[tokio::test]
async fn an_arm_beyond_the_horizon_is_fetched_in_time() {
    let server = TestServer::open().await;
    let heron = server.create_agent("acme", "heron").await;
    heron.arm("far", &server.at(seconds(40 * 60))).await;
    for _ in 0..40 {
        server.catch_up().await;
        assert!(server.callback.fires().is_empty());
        server.advance(seconds(60));
    }
    server.advance(Duration::from_millis(100));
    server.callback.called(1).await;
}
