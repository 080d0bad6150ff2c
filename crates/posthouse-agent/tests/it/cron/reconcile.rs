//! Reconciliation with the portal, and the ticker while the portal fails (6.5, 6.6).

use posthouse_agent::cron::Standing;
use posthouse_agent::jobs::{Change, Missed, NewJob, Overlap, Policy};

use super::portal::FakePortal;
use super::{Scene, fire_of, takes, until, until_job};
use crate::house::soon;
use crate::jobs::at;

#[tokio::test]
async fn cron_arms_what_is_missing_or_differs_leaves_what_agrees_and_cancels_orphans() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    let missing = scene.job(NewJob::new("every 5m")).await;
    let differs = scene.job(NewJob::new("every 7m")).await;
    let agrees = scene.job(NewJob::new("0 14 * * *")).await;
    let paused = scene.job(NewJob::new("every 9m")).await;
    scene.shelf.store.pause(&paused.id(), None).await.unwrap();
    portal.holds(differs.id().as_str(), "2026-06-01T12:07:00Z");
    portal.holds(agrees.id().as_str(), agrees.next_run_text().unwrap());
    portal.holds(paused.id().as_str(), paused.next_run_text().unwrap());
    portal.holds("of-another-life", "2026-06-01T13:00:00+00:00");

    let cron = scene.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|standing| standing != Standing::Asking)).await, Standing::Managed);
    let wanted = [&missing, &differs, &agrees]
        .map(|job| (job.id().to_string(), job.next_run_text().unwrap().to_owned()));
    assert_eq!(portal.armed(), wanted.into());
    let mut said = portal.said();
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
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    let cron = scene.managed(&portal);
    cron.start();
    let kept = cron.create(NewJob::new("every 5m")).await.unwrap();
    let job = cron.create(NewJob::new("every 10m")).await.unwrap();
    assert!(soon(cron.reconcile()).await);
    portal.forgets_what_it_heard();

    let changed = cron.update(&job.id(), Change::new().schedule("every 20m")).await.unwrap().unwrap();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed()[job.id().as_str()], changed.next_run_text().unwrap());
    cron.pause(&job.id(), Some("quiet")).await.unwrap();
    assert!(soon(cron.reconcile()).await);
    assert!(!portal.armed().contains_key(job.id().as_str()));
    scene.winds(60);
    let resumed = cron.resume(&job.id()).await.unwrap().unwrap();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed()[job.id().as_str()], resumed.next_run_text().unwrap());
    let hurried = cron.run_now(&job.id()).await.unwrap().unwrap();
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed()[job.id().as_str()], hurried.next_run_text().unwrap());
    assert!(cron.remove(&job.id()).await.unwrap());
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.armed().into_keys().collect::<Vec<_>>(), [kept.id().to_string()]);
    assert_eq!((portal.heard("list"), portal.heard("cancel"), portal.heard("arm")), (0, 2, 3));
    // After a sleep the portal may have dropped its arms, so it is asked again.
    portal.delivered(&kept.id());
    cron.wake();
    until(|| portal.armed().contains_key(kept.id().as_str())).await;
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_failure_does_not_stop_the_rest_and_is_tried_again_later() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    let mut jobs = Vec::new();
    for _ in 0..20 {
        jobs.push(scene.job(NewJob::new("every 50m")).await);
    }
    portal.fails_for(&jobs[7].id(), true);
    portal.gathers(8);
    let cron = scene.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|standing| standing != Standing::Asking)).await, Standing::Ticking);
    assert_eq!(portal.armed().len(), 19);
    assert_eq!(portal.most_at_once(), 8, "as many calls as allowed at a time and no more");
    portal.fails_for(&jobs[7].id(), false);
    portal.forgets_what_it_heard();
    scene.winds_until(|| cron.standing() == Standing::Managed).await;
    assert_eq!(portal.said(), [format!("arm {}", jobs[7].id())]);
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_portal_out_of_reach_at_the_start_leaves_the_ticker_until_the_first_success() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    portal.is_down(true);
    let job = scene.job(NewJob::new("every 5m")).await;
    let cron = scene.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|standing| standing != Standing::Asking)).await, Standing::Ticking);
    scene.winds_until_runs(1).await;
    assert_eq!(scene.diary.times(), [Some(at(300))]);
    assert_eq!(cron.standing(), Standing::Ticking);

    portal.is_down(false);
    scene.winds_until(|| cron.standing() == Standing::Managed).await;
    assert!(soon(cron.reconcile()).await);
    let next = scene.shelf.job(&job.id()).await;
    assert_eq!(portal.armed()[job.id().as_str()], next.next_run_text().unwrap());
    // From here on the portal triggers.
    let due = next.next_run_at().unwrap();
    scene.winds(700);
    assert_eq!(takes(&cron, &fire_of(&next)).await, (202, "accepted"));
    until(|| scene.diary.len() == 2).await;
    assert_eq!(scene.diary.times()[1], Some(due));
    cron.stop().await;
}

#[tokio::test]
async fn cron_an_identity_that_the_portal_will_not_serve_means_the_ticker_for_good() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    portal.refuses_identity();
    scene.job(NewJob::new("every 5m")).await;
    let cron = scene.managed(&portal);
    cron.start();
    assert_eq!(soon(cron.until(|standing| standing != Standing::Asking)).await, Standing::Refused);
    assert!(!cron.reconcile().await);
    scene.winds_until_runs(2).await;
    cron.create(NewJob::new("every 6m")).await.unwrap();
    scene.winds_until_runs(4).await;
    assert_eq!((cron.standing(), portal.said().len()), (Standing::Refused, 1), "one token, and no more");
    cron.stop().await;
    assert_eq!(cron.standing(), Standing::Off);
}

#[tokio::test]
async fn cron_a_token_is_kept_until_shortly_before_its_end_and_a_refused_one_renewed_once() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    let client = scene.client(&portal);
    client.list().await.unwrap();
    scene.winds(779);
    client.list().await.unwrap();
    assert_eq!(portal.heard("token"), 1);
    scene.winds(1);
    client.list().await.unwrap();
    assert_eq!(portal.heard("token"), 2, "120 s before its end");
    portal.forgets_tokens();
    client.list().await.unwrap();
    assert_eq!((portal.heard("token"), portal.heard("list")), (3, 4));
}

#[tokio::test]
async fn cron_a_job_with_a_policy_says_so_with_its_next_times_and_no_more_than_its_repeats() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    let policy = Policy { missed: Missed::All, window: Some(7200), overlap: Overlap::Queue, jitter: 0 };
    let cron = scene.managed(&portal);
    let job = scene.job(NewJob::new("0 * * * *").policy(policy.clone())).await;
    let few = scene.job(NewJob::new("0 * * * *").policy(policy).repeat(3)).await;
    cron.start();
    assert!(soon(cron.reconcile()).await);
    let body = portal.body(&job.id());
    assert_eq!(body["policy"]["missed"], "all");
    assert_eq!(body["then"].as_array().unwrap().len(), 16);
    assert_eq!(body["then"][0], "2026-06-01T14:00:00+00:00");
    assert_eq!(portal.body(&few.id())["then"].as_array().unwrap().len(), 2);
    portal.forgets_what_it_heard();

    // The portal continues with the next time by itself, so no call is needed after a fire.
    for hour in 1..=8 {
        scene.winds(3600);
        let fire = fire_of(&scene.shelf.job(&job.id()).await);
        assert_eq!(takes(&cron, &fire).await, (202, "accepted"));
        until_job(&scene, &job.id(), |job| job.unwrap().last_run_at() == Some(at(3600 * hour))).await;
        assert!(soon(cron.reconcile()).await);
        assert_eq!(portal.heard(&format!("arm {}", job.id())), 0);
    }
    // Until it has too few times left.
    scene.winds(3600);
    takes(&cron, &fire_of(&scene.shelf.job(&job.id()).await)).await;
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.heard(&format!("arm {}", job.id())), 1);
    cron.update(&job.id(), Change::new().policy(Policy::default())).await.unwrap();
    assert!(soon(cron.reconcile()).await);
    assert!(
        portal.body(&job.id()).get("policy").is_none(),
        "a new policy is told though the time is the same"
    );
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_backlog_at_the_portal_is_not_replaced_by_the_time_after_it() {
    let (scene, portal) = (Scene::open().with_slow_runs(), FakePortal::open().await);
    let policy = Policy { overlap: Overlap::Queue, ..Policy::default() };
    let job = scene.job(NewJob::new("*/10 * * * *").policy(policy)).await;
    let cron = scene.managed(&portal);
    cron.start();
    assert!(soon(cron.reconcile()).await);
    let first = fire_of(&scene.shelf.job(&job.id()).await);
    scene.winds(600);
    assert_eq!(takes(&cron, &first).await, (202, "accepted"));
    let second = fire_of(&scene.shelf.job(&job.id()).await);
    scene.winds_during_a_run(&job.id(), 600).await;
    assert_eq!(takes(&cron, &second).await.0, 503, "the portal keeps it");
    scene.winds_during_a_run(&job.id(), 30).await;
    portal.forgets_what_it_heard();
    scene.lets_a_run_end();
    until_job(&scene, &job.id(), |job| job.unwrap().last_run_at().is_some()).await;
    assert!(soon(cron.reconcile()).await);
    assert_eq!(portal.heard("arm"), 0, "the store is at 12:30, the portal still at 12:20");
    assert_eq!(takes(&cron, &second).await, (202, "accepted"));
    scene.lets_a_run_end();
    until(|| scene.diary.len() == 2).await;
    assert_eq!(scene.diary.times(), [Some(at(600)), Some(at(1200))]);
    cron.stop().await;
}

#[tokio::test]
async fn cron_a_one_shot_whose_taker_died_before_it_ran_is_armed_again() {
    let (scene, portal) = (Scene::open(), FakePortal::open().await);
    let job = scene.job(NewJob::new("10m")).await;
    scene.winds(600);
    // Another process claims the fire, answers it, and dies.
    scene.shelf.wins(&job.id(), job.next_run_at()).await;
    let cron = scene.managed(&portal);
    cron.start();
    assert!(soon(cron.reconcile()).await);
    assert!(portal.armed().is_empty(), "its lease still runs");
    scene.winds_until(|| !portal.armed().is_empty()).await;
    let id = job.id();
    let said: Vec<String> = portal.said().into_iter().filter(|said| said.ends_with(id.as_str())).collect();
    assert_eq!(said, [format!("cancel {id}"), format!("arm {id}")], "the portal counts it as delivered");
    assert_eq!(takes(&cron, &fire_of(&job)).await, (202, "accepted"));
    until(|| scene.diary.len() == 1).await;
    until_job(&scene, &id, |job| job.is_none()).await;
    cron.stop().await;
}
