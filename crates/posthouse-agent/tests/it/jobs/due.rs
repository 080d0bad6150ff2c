//! The ticker's scan beyond the vectors: files that a person has edited.

use jiff::tz::TimeZone;
use posthouse_agent::jobs::{ClaimRefusal, MarkResult, NewJob, RunOutcome};
use serde_json::{Value, json};

use super::{at, json_shelf, shelves, shelves_in};

#[tokio::test]
async fn a_due_job_is_claimed_under_the_time_it_was_due() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(301_000);
        let due = shelf.store.due("ticker").await.unwrap();
        assert_eq!((due.len(), due[0].fire_at, due[0].missed), (1, at(300), false));
        let claim = shelf.wins(&job, Some(due[0].fire_at)).await;
        // A second ticker that read the store before the claim comes too late.
        assert_eq!(shelf.loses(&job, Some(due[0].fire_at)).await, ClaimRefusal::Held);
        assert!(shelf.store.due("ticker").await.unwrap().is_empty(), "the claim moved it on");
        assert!(matches!(shelf.store.mark(&claim, RunOutcome::ok()).await.unwrap(), MarkResult::Kept(_)));
    }
}

#[tokio::test]
async fn a_backlog_is_one_run_that_knows_it_is_late() {
    for shelf in shelves() {
        shelf.create(NewJob::new("every 1h")).await;
        shelf.winds_to(18_600_000);
        let due = shelf.store.due("ticker").await.unwrap();
        assert_eq!((due.len(), due[0].fire_at, due[0].missed), (1, at(3600), true));
        assert!(shelf.store.due("ticker").await.unwrap().is_empty(), "{}", shelf.name);
    }
}

#[tokio::test]
async fn a_one_shot_that_a_fire_is_running_is_not_handed_out() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("30m")).await;
        shelf.winds_to(1_800_000);
        let claim = shelf.wins(&job, Some(at(1800))).await;
        assert!(shelf.store.dispatch(&claim).await.unwrap());
        // Its runs are used up and its time has passed, but it is not stale: its run is in progress.
        assert!(shelf.store.due("ticker").await.unwrap().is_empty());
        assert!(matches!(shelf.store.mark(&claim, RunOutcome::ok()).await.unwrap(), MarkResult::Removed));
    }
}

#[tokio::test]
async fn a_one_shot_that_was_counted_by_a_runner_long_dead_is_removed() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("30m")).await;
        shelf.winds_to(1_800_000);
        let claim = shelf.wins(&job, Some(at(1800))).await;
        assert!(shelf.store.dispatch(&claim).await.unwrap());
        shelf.winds_to(1_860_000);
        assert!(shelf.store.due("ticker").await.unwrap().is_empty());
        assert!(shelf.store.get(&job).await.unwrap().is_none(), "{}", shelf.name);
    }
}

#[tokio::test]
async fn malformed_records_are_mended_or_passed_over_and_never_stop_the_scan() {
    for shelf in shelves() {
        let bad: [fn(&mut serde_json::Map<String, Value>); 5] = [
            |job| _ = job.insert("schedule".to_owned(), Value::Null),
            |job| _ = job.insert("schedule".to_owned(), json!({ "kind": "cron", "expr": "nonsense" })),
            |job| _ = job.insert("next_run_at".to_owned(), json!(7)),
            |job| _ = job.insert("next_run_at".to_owned(), json!("soon")),
            |job| _ = job.insert("posthouse".to_owned(), json!("mine")),
        ];
        let mut jobs = Vec::new();
        for harm in bad {
            let job = shelf.create(NewJob::new("every 5m")).await;
            shelf.meddle(&job, harm);
            jobs.push(job);
        }
        let healthy = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let due = shelf.store.due("ticker").await.unwrap();
        let due: Vec<_> = due.iter().map(|due| due.job.id()).collect();
        assert_eq!(due, [jobs[4].clone(), healthy], "{}", shelf.name);
        assert_eq!(shelf.job(&jobs[0]).await.field("schedule"), Some(&json!({})));
        for mended in &jobs[2..4] {
            assert_eq!(shelf.job(mended).await.next_run_at(), Some(at(600)), "counted anew from the scan");
        }
    }
}

#[tokio::test]
async fn a_record_without_an_id_gets_one() {
    let shelf = json_shelf(&TimeZone::UTC);
    let path = shelf.folder.path().join("cron/jobs.json");
    let old = r#"[{"job_id":"abc","schedule":{"kind":"interval","minutes":5}},{"name":"nameless","schedule":{}},"odd"]"#;
    std::fs::write(&path, old).unwrap();
    assert!(shelf.store.due("ticker").await.unwrap().is_empty());
    let jobs = shelf.store.list().await.unwrap();
    assert_eq!((jobs[0].id().as_str(), jobs[0].next_run_at()), ("abc", Some(at(300))));
    assert_eq!(jobs[1].id().as_str().len(), 12);
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"odd\""));
}

#[tokio::test]
async fn a_cron_time_from_a_zone_the_agent_has_left_waits_for_its_reading_here() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("0 21 * * *")).await;
        // 21:00 in Sydney has come; 21:00 here has not.
        shelf
            .meddle(&job, |job| _ = job.insert("next_run_at".to_owned(), json!("2026-06-01T21:00:00+10:00")));
        assert!(shelf.store.due("ticker").await.unwrap().is_empty());
        assert_eq!(shelf.job(&job).await.next_run_at(), Some(at(9 * 3600)));
    }
}

#[tokio::test]
async fn ours_6_4_a_change_of_the_clocks_is_no_change_of_zone() {
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    for shelf in shelves_in(&berlin) {
        let job = shelf.create(NewJob::new("30 2 * * *")).await;
        // Autumn: it is 02:10 for the second time, and the first 02:30 was missed by 40 minutes.
        let first_pass = "2026-10-25T02:30:00+02:00";
        shelf.meddle(&job, |job| _ = job.insert("next_run_at".to_owned(), json!(first_pass)));
        let now: jiff::Timestamp = "2026-10-25T02:10:00+01:00".parse().unwrap();
        shelf.winds_to(now.as_millisecond() - super::BASE);
        let due = shelf.store.due("ticker").await.unwrap();
        assert_eq!(due.len(), 1, "{}", shelf.name);
        assert_eq!(due[0].fire_at, first_pass.parse().unwrap());
    }
}

#[tokio::test]
async fn a_time_that_has_had_its_run_is_passed_over_by_the_scan() {
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        shelf.winds_to(300_000);
        let claim = shelf.wins(&job, Some(at(300))).await;
        shelf.store.mark(&claim, RunOutcome::ok()).await.unwrap();
        shelf.meddle(&job, |job| _ = job.insert("next_run_at".to_owned(), json!("2026-06-01T12:05:00Z")));
        assert!(shelf.store.due("ticker").await.unwrap().is_empty());
        assert_eq!(shelf.job(&job).await.next_run_at(), Some(at(600)), "{}", shelf.name);
    }
}
