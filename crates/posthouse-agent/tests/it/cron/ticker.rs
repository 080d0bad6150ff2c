//! Local ticker (6.4, end).

use std::sync::Arc;

use posthouse_agent::cron::{Standing, Trigger};
use posthouse_agent::jobs::{Missed, NewJob, Policy};

use super::{Scene, until, until_job};
use crate::jobs::at;

#[tokio::test]
async fn cron_the_ticker_sleeps_until_the_next_due_time_and_runs_it_then() {
    for scene in Scene::each() {
        let job = scene.job(NewJob::new("every 5m")).await;
        let cron = scene.cron(scene.builder());
        cron.start();
        scene.winds_until_runs(2).await;
        assert_eq!(scene.diary.times(), [Some(at(300)), Some(at(600))]);
        until_job(&scene, &job.id(), |job| job.unwrap().repeat().completed == 2).await;
        cron.stop().await;
    }
}

#[tokio::test]
async fn cron_the_ticker_hears_of_changes_while_it_sleeps() {
    let scene = Scene::open();
    let cron = scene.cron(scene.builder());
    cron.start();
    let job = cron.create(NewJob::new("every 60m")).await.unwrap();
    cron.run_now(&job.id()).await.unwrap();
    // Without any time passing.
    until(|| scene.diary.len() == 1).await;
    cron.stop().await;
}

#[tokio::test]
async fn cron_two_agents_over_one_store_run_each_fire_once() {
    for scene in Scene::each() {
        let job = scene.job(NewJob::new("every 5m").repeat(5)).await;
        let crons = ["here", "there"].map(|owner| scene.cron(scene.builder().owner(owner)));
        crons.iter().for_each(|cron| cron.start());
        scene.winds_until_runs(5).await;
        until_job(&scene, &job.id(), |job| job.is_none()).await;
        let mut times = scene.diary.times();
        times.dedup();
        assert_eq!(times.len(), 5, "{}", scene.shelf.name);
        for cron in crons {
            cron.stop().await;
        }
    }
}

#[tokio::test]
async fn cron_a_job_stops_at_its_repeats_and_a_failed_run_is_told_in_its_record() {
    let scene = Scene::open();
    let job = scene.job(NewJob::new("every 1m").repeat(3).prompt("fail")).await;
    let cron = scene.cron(scene.builder());
    cron.start();
    scene.winds_until_runs(1).await;
    assert_eq!(scene.shelf.job(&job.id()).await.last_error(), Some("as it was told"));
    scene.winds_until_runs(3).await;
    until_job(&scene, &job.id(), |job| job.is_none()).await;
    scene.winds(600);
    cron.stop().await;
    assert_eq!(scene.diary.len(), 3);
}

#[tokio::test]
async fn cron_what_was_missed_is_made_up_for_as_the_policy_says() {
    let wish = |missed| Policy { missed, window: Some(1800), ..Policy::default() };
    let all = vec![Some(at(5400)), Some(at(6000)), Some(at(6600))];
    for (missed, expected) in [(Missed::Once, vec![Some(at(600))]), (Missed::All, all)] {
        let scene = Scene::open();
        scene.job(NewJob::new("*/10 * * * *").policy(wish(missed))).await;
        scene.winds(7000);
        let cron = scene.cron(scene.builder());
        cron.start();
        until(|| scene.diary.len() == expected.len()).await;
        cron.stop().await;
        assert_eq!(scene.diary.times(), expected, "{missed:?}");
    }
}

#[tokio::test]
async fn cron_a_run_that_is_too_late_for_its_policy_waits_for_the_next_time() {
    let scene = Scene::open();
    let skip = Policy { missed: Missed::Skip, window: Some(60), ..Policy::default() };
    let hourly = scene.job(NewJob::new("0 * * * *").policy(skip.clone())).await;
    let once = scene.job(NewJob::new("30m").policy(skip)).await;
    scene.winds(3600 + 90);
    let cron = scene.cron(scene.builder());
    cron.start();
    until_job(&scene, &hourly.id(), |job| job.unwrap().next_run_at() == Some(at(7200))).await;
    until_job(&scene, &once.id(), |job| !job.unwrap().enabled()).await;
    scene.winds_until_runs(1).await;
    assert_eq!(scene.diary.times(), [Some(at(7200))]);
    cron.stop().await;
}

#[tokio::test]
async fn cron_no_more_runs_go_on_at_a_time_than_allowed() {
    let scene = Scene::open().with_slow_runs();
    for _ in 0..5 {
        scene.job(NewJob::new("every 5m").repeat(1)).await;
    }
    let cron = scene.cron(scene.builder().max_parallel(2));
    cron.start();
    scene.winds(300);
    for ended in 1..=5 {
        let held = (ended + 1).min(5);
        until(|| scene.diary.len() == held).await;
        scene.lets_a_run_end();
    }
    cron.stop().await;
    assert!(scene.shelf.store.list().await.unwrap().is_empty());
}

#[tokio::test]
async fn cron_a_stop_lets_runs_finish_and_cuts_short_what_outlasts_its_grace() {
    let scene = Scene::open().with_slow_runs();
    let (short, long) = (scene.job(NewJob::new("every 5m")).await, scene.job(NewJob::new("every 5m")).await);
    let cron = scene.cron(scene.builder());
    cron.start();
    scene.winds(300);
    until(|| scene.diary.len() == 2).await;
    let stopping = tokio::spawn({
        let cron = cron.clone();
        async move { cron.stop().await }
    });
    scene.lets_a_run_end();
    until(|| Arc::strong_count(&scene.doors) == 3).await;
    scene.winds_until(|| stopping.is_finished()).await;
    let jobs = [scene.shelf.job(&short.id()).await, scene.shelf.job(&long.id()).await];
    let mut ends: Vec<_> = jobs.iter().map(|job| job.last_error()).collect();
    ends.sort();
    assert_eq!(ends, [None, Some("the agent was stopped during the run")]);
    assert!(jobs.iter().all(|job| job.field("fire_claim").unwrap().is_null()), "no claim is left behind");
}

#[tokio::test]
async fn cron_a_lost_lease_ends_the_run_and_leaves_the_record_to_its_new_owner() {
    let scene = Scene::open().with_slow_runs();
    let job = scene.job(NewJob::new("every 5m")).await;
    let cron = scene.cron(scene.builder());
    cron.start();
    scene.winds(300);
    until(|| scene.diary.len() == 1).await;
    scene.shelf.meddle(&job.id(), |record| record["fire_claim"]["token"] = "another".into());
    // The handles of the test server and of the cron are left, and the run's is gone.
    scene.winds_until(|| Arc::strong_count(&scene.doors) == 2).await;
    assert_eq!(scene.shelf.job(&job.id()).await.last_run_at(), None);
    cron.stop().await;
}

#[tokio::test]
async fn cron_that_is_switched_off_runs_nothing() {
    let scene = Scene::open();
    let job = scene.job(NewJob::new("every 5m")).await;
    let cron = scene.cron(scene.builder().trigger(Trigger::Off));
    cron.start();
    assert_eq!(cron.standing(), Standing::Off);
    scene.winds(300);
    assert_eq!(super::takes(&cron, &super::fire_of(&job)).await, (200, "gateway_stopped"));
    cron.stop().await;
    assert_eq!(scene.diary.len(), 0);
}
