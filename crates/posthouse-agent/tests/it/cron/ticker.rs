//! Local ticker (6.4, end).

use std::sync::Arc;

use posthouse_agent::cron::{CronState, Trigger};
use posthouse_agent::jobs::{Missed, NewJob, Policy};

use super::{Fixture, until, until_job};
use crate::jobs::at;

#[tokio::test]
async fn cron_the_ticker_sleeps_until_the_next_due_time_and_runs_it_then() {
    for fixture in Fixture::each() {
        let job = fixture.job(NewJob::new("every 5m")).await;
        let cron = fixture.cron(fixture.builder());
        cron.start();
        fixture.winds_until_runs(2).await;
        assert_eq!(fixture.diary.times(), [Some(at(300)), Some(at(600))]);
        until_job(&fixture, &job.id(), |job| job.unwrap().repeat().completed == 2).await;
        cron.stop().await;
    }
}

#[tokio::test]
async fn cron_the_ticker_hears_of_changes_while_it_sleeps() {
    let fixture = Fixture::open();
    let cron = fixture.cron(fixture.builder());
    cron.start();
    let job = cron.create(NewJob::new("every 60m")).await.unwrap();
    cron.run_now(&job.id()).await.unwrap();
    // Without any time passing.
    until(|| fixture.diary.len() == 1).await;
    cron.stop().await;
}

#[tokio::test]
async fn cron_two_agents_over_one_store_run_each_fire_once() {
    for fixture in Fixture::each() {
        let job = fixture.job(NewJob::new("every 5m").repeat(5)).await;
        let crons = ["here", "there"].map(|owner| fixture.cron(fixture.builder().owner(owner)));
        crons.iter().for_each(|cron| cron.start());
        fixture.winds_until_runs(5).await;
        until_job(&fixture, &job.id(), |job| job.is_none()).await;
        let mut times = fixture.diary.times();
        times.dedup();
        assert_eq!(times.len(), 5, "{}", fixture.shelf.name);
        for cron in crons {
            cron.stop().await;
        }
    }
}

#[tokio::test]
async fn cron_a_job_stops_at_its_repeats_and_a_failed_run_is_told_in_its_record() {
    let fixture = Fixture::open();
    let job = fixture.job(NewJob::new("every 1m").repeat(3).prompt("fail")).await;
    let cron = fixture.cron(fixture.builder());
    cron.start();
    fixture.winds_until_runs(1).await;
    assert_eq!(fixture.shelf.job(&job.id()).await.last_error(), Some("as it was told"));
    fixture.winds_until_runs(3).await;
    until_job(&fixture, &job.id(), |job| job.is_none()).await;
    fixture.winds(600);
    cron.stop().await;
    assert_eq!(fixture.diary.len(), 3);
}

#[tokio::test]
async fn cron_what_was_missed_is_made_up_for_as_the_policy_says() {
    let wish = |missed| Policy { missed, window: Some(1800), ..Policy::default() };
    let all = vec![Some(at(5400)), Some(at(6000)), Some(at(6600))];
    for (missed, expected) in [(Missed::Once, vec![Some(at(600))]), (Missed::All, all)] {
        let fixture = Fixture::open();
        fixture.job(NewJob::new("*/10 * * * *").policy(wish(missed))).await;
        fixture.winds(7000);
        let cron = fixture.cron(fixture.builder());
        cron.start();
        until(|| fixture.diary.len() == expected.len()).await;
        cron.stop().await;
        assert_eq!(fixture.diary.times(), expected, "{missed:?}");
    }
}

#[tokio::test]
async fn cron_a_run_that_is_too_late_for_its_policy_waits_for_the_next_time() {
    let fixture = Fixture::open();
    let skip = Policy { missed: Missed::Skip, window: Some(60), ..Policy::default() };
    let hourly = fixture.job(NewJob::new("0 * * * *").policy(skip.clone())).await;
    let once = fixture.job(NewJob::new("30m").policy(skip)).await;
    fixture.winds(3600 + 90);
    let cron = fixture.cron(fixture.builder());
    cron.start();
    until_job(&fixture, &hourly.id(), |job| job.unwrap().next_run_at() == Some(at(7200))).await;
    until_job(&fixture, &once.id(), |job| !job.unwrap().enabled()).await;
    fixture.winds_until_runs(1).await;
    assert_eq!(fixture.diary.times(), [Some(at(7200))]);
    cron.stop().await;
}

#[tokio::test]
async fn cron_no_more_runs_go_on_at_a_time_than_allowed() {
    let fixture = Fixture::open().with_slow_runs();
    for _ in 0..5 {
        fixture.job(NewJob::new("every 5m").repeat(1)).await;
    }
    let cron = fixture.cron(fixture.builder().max_parallel(2));
    cron.start();
    fixture.winds(300);
    for ended in 1..=5 {
        let held = (ended + 1).min(5);
        until(|| fixture.diary.len() == held).await;
        fixture.lets_a_run_end();
    }
    cron.stop().await;
    assert!(fixture.shelf.store.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn cron_a_stop_lets_runs_finish_and_cuts_short_what_outlasts_its_grace() {
    let fixture = Fixture::open().with_slow_runs();
    let (short, long) =
        (fixture.job(NewJob::new("every 5m")).await, fixture.job(NewJob::new("every 5m")).await);
    let cron = fixture.cron(fixture.builder());
    cron.start();
    fixture.winds(300);
    until(|| fixture.diary.len() == 2).await;
    let stopping = tokio::spawn({
        let cron = cron.clone();
        async move { cron.stop().await }
    });
    fixture.lets_a_run_end();
    until(|| Arc::strong_count(&fixture.doors) == 3).await;
    fixture.winds_until(|| stopping.is_finished()).await;
    let jobs = [fixture.shelf.job(&short.id()).await, fixture.shelf.job(&long.id()).await];
    let mut ends: Vec<_> = jobs.iter().map(|job| job.last_error()).collect();
    ends.sort();
    assert_eq!(ends, [None, Some("the agent was stopped during the run")]);
    assert!(jobs.iter().all(|job| job.field("fire_claim").unwrap().is_null()), "no claim is left behind");
}

#[tokio::test]
async fn cron_a_lost_lease_ends_the_run_and_leaves_the_record_to_its_new_owner() {
    let fixture = Fixture::open().with_slow_runs();
    let job = fixture.job(NewJob::new("every 5m")).await;
    let cron = fixture.cron(fixture.builder());
    cron.start();
    fixture.winds(300);
    until(|| fixture.diary.len() == 1).await;
    fixture.shelf.meddle(&job.id(), |record| record["fire_claim"]["token"] = "another".into());
    // The handles of the test server and of the cron are left, and the run's is gone.
    fixture.winds_until(|| Arc::strong_count(&fixture.doors) == 2).await;
    assert_eq!(fixture.shelf.job(&job.id()).await.last_run_at(), None);
    cron.stop().await;
}

#[tokio::test]
async fn cron_that_is_switched_off_runs_nothing() {
    let fixture = Fixture::open();
    let job = fixture.job(NewJob::new("every 5m")).await;
    let cron = fixture.cron(fixture.builder().trigger(Trigger::Off));
    cron.start();
    assert_eq!(cron.state(), CronState::Off);
    fixture.winds(300);
    assert_eq!(super::takes(&cron, &super::fire_of(&job)).await, (200, "gateway_stopped"));
    cron.stop().await;
    assert_eq!(fixture.diary.len(), 0);
}
