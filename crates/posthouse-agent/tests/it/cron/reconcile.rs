//! Reconciliation with the portal, and the ticker while the portal fails (6.5, 6.6).

use posthouse_agent::cron::CronState;
use posthouse_agent::jobs::{JobChange, Missed, NewJob, Overlap, Policy};

use super::portal::FakePortal;
use super::{Fixture, fire_of, takes, until, until_job};
use crate::jobs::at;
use crate::test_server::soon;

#[tokio::test]
async fn cron_arms_what_is_missing_or_differs_leaves_what_agrees_and_cancels_orphans() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let missing = fixture.job(NewJob::new("every 5m")).await;
    let differs = fixture.job(NewJob::new("every 7m")).await;
    let agrees = fixture.job(NewJob::new("0 14 * * *")).await;
    let paused = fixture.job(NewJob::new("every 9m")).await;
    fixture.shelf.store.pause(&paused.id(), None).await.unwrap();
    portal.holds(differs.id().as_str(), "2026-06-01T12:07:00Z");
    portal.holds(agrees.id().as_str(), agrees.next_run_text().unwrap());
    portal.holds(paused.id().as_str(), paused.next_run_text().unwrap());
    portal.holds("of-another-life", "2026-06-01T13:00:00+00:00");

    let cron = fixture.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|state| state != CronState::Asking)).await, CronState::Managed);
    let wanted = [&missing, &differs, &agrees]
        .map(|job| (job.id().to_string(), job.next_run_text().unwrap().to_owned()));
    assert_eq!(portal.armed(), wanted.into());
    let mut said = portal.calls();
    said.sort();
    let mut expected = vec![
        format!("arm {}", missing.id()),
        format!("arm {}", differs.id()),
        format!("cancel {}", paused.id()),
        "cancel of-another-life".to_owned(),
        "list".to_owned(),
        "token".to_owned(),
    ];
    expected.sort();
    assert_eq!(said, expected);
    let body = portal.body(&missing.id());
    assert_eq!(body["agent_callback_url"], "http://agent.test");
    assert_eq!(body["dedup_key"], format!("{}:{}", missing.id(), missing.next_run_text().unwrap()));
    assert!(body.get("policy").is_none() && body.get("then").is_none(), "nothing beyond the contract");
    cron.stop().await;
}

#[tokio::test]
async fn cron_tells_the_portal_of_every_change_and_asks_for_no_list_while_it_remembers() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let cron = fixture.managed(&portal);
    cron.start();
    let kept = cron.create(NewJob::new("every 5m")).await.unwrap();
    let job = cron.create(NewJob::new("every 10m")).await.unwrap();
    assert!(soon(cron.reconcile()).await);
    portal.forgets_its_calls();

    let changed = cron.update(&job.id(), JobChange::new().schedule("every 20m")).await.unwrap().unwrap();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed()[job.id().as_str()], changed.next_run_text().unwrap());
    cron.pause(&job.id(), Some("quiet")).await.unwrap();
    assert!(soon(cron.reconcile()).await);
    assert!(!portal.armed().contains_key(job.id().as_str()));
    fixture.winds(60);
    let resumed = cron.resume(&job.id()).await.unwrap().unwrap();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed()[job.id().as_str()], resumed.next_run_text().unwrap());
    let hurried = cron.run_now(&job.id()).await.unwrap().unwrap();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed()[job.id().as_str()], hurried.next_run_text().unwrap());
    assert!(cron.remove(&job.id()).await.unwrap());
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed().into_keys().collect::<Vec<_>>(), [kept.id().to_string()]);
    assert_eq!((portal.count("list"), portal.count("cancel"), portal.count("arm")), (0, 2, 3));
    // After a sleep the portal may have dropped its arms, so it is asked again.
    portal.delivered(&kept.id());
    cron.wake();
    until(|| portal.armed().contains_key(kept.id().as_str())).await;
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_failure_does_not_stop_the_rest_and_is_tried_again_later() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(fixture.job(NewJob::new("every 50m")).await);
    }
    portal.fails_for(&jobs[7].id(), true);
    portal.gathers(8);
    let cron = fixture.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|state| state != CronState::Asking)).await, CronState::Ticking);
    assert_eq!(portal.armed().len(), 19);
    assert_eq!(portal.most_at_once(), 8, "as many calls as allowed at a time and no more");
    portal.fails_for(&jobs[7].id(), false);
    portal.forgets_its_calls();
    fixture.winds_until(|| cron.state() == CronState::Managed).await;
    assert_eq!(portal.calls(), [format!("arm {}", jobs[7].id())]);
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_portal_out_of_reach_at_the_start_leaves_the_ticker_until_the_first_success() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    portal.is_down(true);
    let job = fixture.job(NewJob::new("every 5m")).await;
    let cron = fixture.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|state| state != CronState::Asking)).await, CronState::Ticking);
    fixture.winds_until_runs(1).await;
    assert_eq!(fixture.diary.times(), [Some(at(300))]);
    assert_eq!(cron.state(), CronState::Ticking);

    portal.is_down(false);
    fixture.winds_until(|| cron.state() == CronState::Managed).await;
    assert!(soon(cron.reconcile()).await);
    let next = fixture.shelf.job(&job.id()).await;
    assert_eq!(portal.armed()[job.id().as_str()], next.next_run_text().unwrap());
    // From here on the portal triggers.
    let due = next.next_run_at().unwrap();
    fixture.winds(700);
    assert_eq!(takes(&cron, &fire_of(&next)).await, (202, "accepted"));
    until(|| fixture.diary.len() == 2).await;
    assert_eq!(fixture.diary.times()[1], Some(due));
    cron.stop().await;
}

#[tokio::test]
async fn cron_an_identity_that_the_portal_will_not_serve_means_the_ticker_for_good() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    portal.refuses_identity();
    fixture.job(NewJob::new("every 5m")).await;
    let cron = fixture.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|state| state != CronState::Asking)).await, CronState::Refused);
    assert!(!cron.reconcile().await);
    fixture.winds_until_runs(2).await;
    cron.create(NewJob::new("every 6m")).await.unwrap();
    fixture.winds_until_runs(4).await;
    assert_eq!((cron.state(), portal.calls().len()), (CronState::Refused, 1), "one token, and no more");
    cron.stop().await;
    assert_eq!(cron.state(), CronState::Off);
}

#[tokio::test]
async fn cron_a_token_is_kept_until_shortly_before_its_end_and_a_refused_one_renewed_once() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let client = fixture.client(&portal);
    client.list().await.unwrap();
    fixture.winds(779);
    client.list().await.unwrap();
    assert_eq!(portal.count("token"), 1);
    fixture.winds(1);
    client.list().await.unwrap();
    assert_eq!(portal.count("token"), 2, "120 s before its end");
    portal.forgets_tokens();
    client.list().await.unwrap();
    assert_eq!((portal.count("token"), portal.count("list")), (3, 4));
}

#[tokio::test]
async fn cron_a_job_with_a_policy_says_so_with_its_next_times_and_no_more_than_its_repeats() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let policy = Policy { missed: Missed::All, window: Some(7200), overlap: Overlap::Queue, jitter: 0 };
    let cron = fixture.managed(&portal);
    let job = fixture.job(NewJob::new("0 * * * *").policy(policy.clone())).await;
    let few = fixture.job(NewJob::new("0 * * * *").policy(policy).repeat(3)).await;
    cron.start();
    assert!(soon(cron.reconcile()).await);
    let body = portal.body(&job.id());
    assert_eq!(body["policy"]["missed"], "all");
    assert_eq!(body["then"].as_array().unwrap().len(), 16);
    assert_eq!(body["then"][0], "2026-06-01T14:00:00+00:00");
    assert_eq!(portal.body(&few.id())["then"].as_array().unwrap().len(), 2);
    portal.forgets_its_calls();

    // The portal continues with the next time by itself, so no call is needed after a fire.
    for hour in 1..=8 {
        fixture.winds(3600);
        let fire = fire_of(&fixture.shelf.job(&job.id()).await);
        assert_eq!(takes(&cron, &fire).await, (202, "accepted"));
        until_job(&fixture, &job.id(), |job| job.unwrap().last_run_at() == Some(at(3600 * hour))).await;
        assert!(soon(cron.reconcile()).await);
        assert_eq!(portal.count(&format!("arm {}", job.id())), 0);
    }
    // Until it has too few times left.
    fixture.winds(3600);
    takes(&cron, &fire_of(&fixture.shelf.job(&job.id()).await)).await;
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.count(&format!("arm {}", job.id())), 1);
    cron.update(&job.id(), JobChange::new().policy(Policy::default())).await.unwrap();
    assert!(soon(cron.reconcile()).await);
    assert!(
        portal.body(&job.id()).get("policy").is_none(),
        "a new policy is told though the time is the same"
    );
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_backlog_at_the_portal_is_not_replaced_by_the_time_after_it() {
    let (fixture, portal) = (Fixture::open().with_slow_runs(), FakePortal::open().await);
    let policy = Policy { overlap: Overlap::Queue, ..Policy::default() };
    let job = fixture.job(NewJob::new("*/10 * * * *").policy(policy)).await;
    let cron = fixture.managed(&portal);
    cron.start();
    assert!(soon(cron.reconcile()).await);
    let first = fire_of(&fixture.shelf.job(&job.id()).await);
    fixture.winds(600);
    assert_eq!(takes(&cron, &first).await, (202, "accepted"));
    let second = fire_of(&fixture.shelf.job(&job.id()).await);
    fixture.winds_during_a_run(&job.id(), 600).await;
    assert_eq!(takes(&cron, &second).await.0, 503, "the portal keeps it");
    fixture.winds_during_a_run(&job.id(), 30).await;
    portal.forgets_its_calls();
    fixture.lets_a_run_end();
    until_job(&fixture, &job.id(), |job| job.unwrap().last_run_at().is_some()).await;
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.count("arm"), 0, "the store is at 12:30, the portal still at 12:20");
    assert_eq!(takes(&cron, &second).await, (202, "accepted"));
    fixture.lets_a_run_end();
    until(|| fixture.diary.len() == 2).await;
    assert_eq!(fixture.diary.times(), [Some(at(600)), Some(at(1200))]);
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_one_shot_whose_taker_died_before_it_ran_is_armed_again() {
    let (fixture, portal) = (Fixture::open(), FakePortal::open().await);
    let job = fixture.job(NewJob::new("10m")).await;
    fixture.winds(600);
    // Another process claims the fire, answers it, and dies.
    fixture.shelf.wins(&job.id(), job.next_run_at()).await;
    let cron = fixture.managed(&portal);
    cron.start();
    assert!(soon(cron.reconcile()).await);
    assert!(portal.armed().is_empty(), "its lease still runs");
    fixture.winds_until(|| !portal.armed().is_empty()).await;
    let id = job.id();
    let said: Vec<String> = portal.calls().into_iter().filter(|said| said.ends_with(id.as_str())).collect();
    assert_eq!(said, [format!("cancel {id}"), format!("arm {id}")], "the portal counts it as delivered");
    assert_eq!(takes(&cron, &fire_of(&job)).await, (202, "accepted"));
    until(|| fixture.diary.len() == 1).await;
    until_job(&fixture, &id, |job| job.is_none()).await;
    cron.stop().await;
}
