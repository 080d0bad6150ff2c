//! The JSON file shared with a stock agent.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use jiff::tz::TimeZone;
use posthouse_agent::jobs::{
    ClaimRefusal, Fault, JobChange, JobStore, JobStoreSettings, JsonFile, NewJob, RunOutcome,
};
use posthouse_agent::wire::id::JobId;
use serde_json::{Value, json};

use super::{StoreFixture, at, json_shelf};

fn path(shelf: &StoreFixture) -> std::path::PathBuf {
    shelf.folder.path().join("cron/jobs.json")
}

fn document(shelf: &StoreFixture) -> Value {
    serde_json::from_slice(&std::fs::read(path(shelf)).unwrap()).unwrap()
}

#[tokio::test]
async fn folder_and_file_are_for_their_owner_and_no_draft_is_left() {
    let shelf = json_shelf(&TimeZone::UTC);
    shelf.create(NewJob::new("every 5m")).await;
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(path(&shelf).parent().unwrap()), mode(&path(&shelf))), (0o700, 0o600));
    let names = std::fs::read_dir(path(&shelf).parent().unwrap()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".jobs.lock", "jobs.json"]);
}

#[tokio::test]
async fn unknown_fields_of_jobs_and_document_survive_every_rewrite() {
    let shelf = json_shelf(&TimeZone::UTC);
    let (first, other) =
        (shelf.create(NewJob::new("every 5m")).await, shelf.create(NewJob::new("every 5m")).await);
    shelf.meddle(&first, |job| _ = job.insert("mood".to_owned(), json!({ "of": ["the", "day"] })));
    let mut document_now = document(&shelf);
    document_now["schema"] = json!({ "version": 9 });
    std::fs::write(path(&shelf), document_now.to_string()).unwrap();

    let claim = shelf.wins(&first, Some(at(300))).await;
    shelf.store.renew(&claim).await.unwrap();
    shelf.store.mark(&claim, RunOutcome::ok()).await.unwrap();
    shelf.store.pause(&first, Some("later")).await.unwrap();
    shelf.store.resume(&first).await.unwrap();
    shelf.store.run_now(&first).await.unwrap();
    shelf.store.update(&first, JobChange::new().field("name", "renamed")).await.unwrap();
    shelf.store.due("ticker").await.unwrap();
    shelf.store.remove(&other).await.unwrap();

    let kept = document(&shelf);
    assert_eq!(kept["schema"], json!({ "version": 9 }));
    assert_eq!(kept["jobs"][0]["mood"], json!({ "of": ["the", "day"] }));
    assert_eq!((kept["jobs"].as_array().unwrap().len(), &kept["jobs"][0]["name"]), (1, &json!("renamed")));
    assert_eq!(kept["updated_at"], "2026-06-01T12:00:00+00:00");
}

#[tokio::test]
async fn a_file_that_cannot_be_read_is_left_as_it_is() {
    let shelf = json_shelf(&TimeZone::UTC);
    std::fs::write(path(&shelf), "{\"jobs\": [{").unwrap();
    assert!(matches!(shelf.store.create(NewJob::new("every 5m")).await, Err(Fault::Unreadable(_))));
    assert!(matches!(shelf.store.list().await, Err(Fault::Unreadable(_))));
    assert_eq!(std::fs::read_to_string(path(&shelf)).unwrap(), "{\"jobs\": [{");
}

#[tokio::test]
async fn a_stock_claim_is_honoured_and_a_stock_mark_takes_ours_away() {
    let shelf = json_shelf(&TimeZone::UTC);
    let job = shelf.create(NewJob::new("every 5m")).await;
    shelf.winds_to(300_000);
    let stock = json!({ "at": "2026-06-01T12:05:00+00:00", "by": "host:1" });
    shelf.meddle(&job, |job| _ = job.insert("fire_claim".to_owned(), stock));
    // It may be this fire or another, because a stock claim does not say which.
    assert_eq!(shelf.loses(&job, Some(at(600))).await, ClaimRefusal::Held);
    shelf.winds_to(600_000);
    let claim = shelf.wins(&job, Some(at(600))).await;
    shelf.meddle(&job, |job| _ = job.insert("fire_claim".to_owned(), Value::Null));
    assert!(!shelf.store.renew(&claim).await.unwrap());
}

#[tokio::test]
async fn what_another_process_wrote_is_seen_at_once() {
    let shelf = json_shelf(&TimeZone::UTC);
    let store_settings = JobStoreSettings::new(shelf.timepiece.clone(), TimeZone::UTC);
    let other: Arc<dyn JobStore> = Arc::new(JsonFile::open(shelf.folder.path(), store_settings).unwrap());
    for round in 0..50 {
        let job = shelf.create(NewJob::new("every 5m").name(format!("job {round}"))).await;
        assert!(other.remove(&job).await.unwrap());
        assert!(shelf.store.get(&job).await.unwrap().is_none());
        assert!(!shelf.store.remove(&job).await.unwrap());
    }
}

#[tokio::test]
async fn a_link_to_the_file_stays_a_link() {
    let shelf = json_shelf(&TimeZone::UTC);
    let elsewhere = shelf.folder.path().join("kept.json");
    std::fs::write(&elsewhere, "{\"jobs\":[]}").unwrap();
    std::os::unix::fs::symlink(&elsewhere, path(&shelf)).unwrap();
    shelf.create(NewJob::new("every 5m")).await;
    assert!(std::fs::symlink_metadata(path(&shelf)).unwrap().is_symlink());
    assert!(std::fs::read_to_string(&elsewhere).unwrap().contains("every 5m"));
}

#[tokio::test]
async fn one_ticker_at_a_time_and_the_stock_ticker_counts() {
    let shelf = json_shelf(&TimeZone::UTC);
    let held = shelf.store.tick().await.unwrap().expect("nobody else ticks");
    assert!(shelf.store.tick().await.unwrap().is_none());
    drop(held);
    // The lock that the stock agent takes.
    let stock = std::fs::File::create(shelf.folder.path().join("cron/.tick.lock")).unwrap();
    stock.lock().unwrap();
    assert!(shelf.store.tick().await.unwrap().is_none());
    drop(stock);
    assert!(shelf.store.tick().await.unwrap().is_some());
}

#[tokio::test]
async fn ids_and_claims_are_not_for_changing() {
    for shelf in super::shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        for field in ["id", "fire_claim", "run_claim", "posthouse"] {
            let change = JobChange::new().field(field, "x");
            let refused = shelf.store.update(&job, change).await;
            assert!(matches!(refused, Err(Fault::Fixed(named)) if named == field), "{field}");
        }
        let late = NewJob::new("2026-06-01T11:57:59Z");
        assert!(matches!(shelf.store.create(late).await, Err(Fault::Past(_))));
        assert!(matches!(shelf.store.create(NewJob::new("Tomorrow")).await, Err(Fault::Schedule(_))));
        assert_eq!(shelf.loses(&JobId::new("nobody"), None).await, ClaimRefusal::Gone);
        assert_eq!(shelf.store.list().await.unwrap().len(), 1, "{}", shelf.name);
    }
}
