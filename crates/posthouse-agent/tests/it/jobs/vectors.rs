//! `vectors/job_store.json`, whole. Its claims name no fire time, as the stock agent's do not.

use std::collections::HashMap;
use std::path::PathBuf;

use posthouse_agent::jobs::{ClaimResult, Fault, JobChange, JobClaim, MarkResult, NewJob, RunOutcome};
use posthouse_agent::wire::id::JobId;
use serde_json::{Value, json};

use super::{StoreFixture, at, shelves};

fn vectors() -> Value {
    let folder = std::env::var_os("POSTHOUSE_VECTORS")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors"), PathBuf::from);
    serde_json::from_slice(&std::fs::read(folder.join("job_store.json")).unwrap()).unwrap()
}

/// Its claim outlives our lease, so it is played as what it was: a stock agent's claim without a token.
const STOCK_CLAIM: &str = "claim is fresh until 300 s exactly";

#[tokio::test]
async fn the_stores_transitions_are_those_of_the_vectors() {
    let vectors = vectors();
    let scenarios = vectors["scenarios"].as_array().unwrap();
    let mut steps = 0;
    for scenario in scenarios {
        for shelf in shelves() {
            steps += play(&shelf, scenario).await;
        }
    }
    assert!(steps > 0, "the vectors hold no step");
    // The number of cases is known only for the project's own folder.
    if std::env::var_os("POSTHOUSE_VECTORS").is_none() {
        let stores = shelves().len();
        assert_eq!((scenarios.len(), steps), (25, 84 * stores), "the vectors have changed: count them again");
    }
}

async fn play(shelf: &StoreFixture, scenario: &Value) -> usize {
    let name = scenario["name"].as_str().unwrap();
    let mut player = Player { shelf, scenario, job: JobId::new(""), claims: HashMap::new() };
    let steps = scenario["steps"].as_array().unwrap();
    for (place, step) in steps.iter().enumerate() {
        let told = format!("{}: {name}: step {place}: {}", shelf.name, step["do"]);
        let seconds = step["at"].as_f64().unwrap();
        #[expect(clippy::cast_possible_truncation, reason = "the vectors count whole milliseconds")]
        shelf.winds_to((seconds * 1000.0).round() as i64);
        let (result, error) = match player.does(step).await {
            Ok(result) => (result, None),
            Err(Fault::Past(_)) => (Value::Null, Some("oneshot_in_past")),
            Err(fault) => panic!("{told}: {fault}"),
        };
        assert_eq!(error, step.get("error").and_then(Value::as_str), "{told}");
        if let Some(expected) = step.get("result") {
            assert_eq!(result, *expected, "{told}");
        }
        player.compares(&step["job"], &told).await;
        if name == STOCK_CLAIM && step["do"] == "claim" && result == json!(true) {
            shelf.meddle(&player.job, |job| {
                let claim = job["fire_claim"].as_object_mut().unwrap();
                claim.retain(|field, _| field == "at" || field == "by");
            });
        }
    }
    steps.len()
}

struct Player<'a> {
    shelf: &'a StoreFixture,
    scenario: &'a Value,
    job: JobId,
    /// By replica: the latest claim it won.
    claims: HashMap<String, JobClaim>,
}

impl Player<'_> {
    async fn does(&mut self, step: &Value) -> Result<Value, Fault> {
        let (store, by) = (&self.shelf.store, step["by"].as_str().unwrap_or("replica-a"));
        Ok(match step["do"].as_str().unwrap() {
            "create" => {
                let mut wish = NewJob::new(self.scenario["schedule"].as_str().unwrap()).prompt("look around");
                if let Some(times) = self.scenario["repeat"].as_i64() {
                    wish = wish.repeat(times);
                }
                self.job = store.create(wish).await?.id();
                Value::Null
            }
            "claim" => match store.claim(&self.job, None, by).await? {
                ClaimResult::Won(claim) => {
                    // The last winner marks, because the vectors name no replica there.
                    self.claims.insert("latest".to_owned(), *claim);
                    json!(true)
                }
                ClaimResult::Refused(_) => json!(false),
            },
            "dispatch" => json!(store.dispatch(&self.claims["latest"]).await?),
            "mark" => {
                let outcome = match step["run_error"].as_str() {
                    Some(error) => RunOutcome::failed(error),
                    None => RunOutcome::ok(),
                };
                let marked = store.mark(&self.claims["latest"], outcome).await?;
                assert!(!matches!(marked, MarkResult::Fenced));
                Value::Null
            }
            "due" => json!(!store.due(by).await?.is_empty()),
            "pause" => store.pause(&self.job, None).await.map(|_| Value::Null)?,
            "resume" => store.resume(&self.job).await.map(|_| Value::Null)?,
            "trigger" => store.run_now(&self.job).await.map(|_| Value::Null)?,
            "remove" => json!(store.remove(&self.job).await?),
            "update" => {
                let change = JobChange::new().schedule(step["set"]["schedule"].as_str().unwrap());
                store.update(&self.job, change).await.map(|_| Value::Null)?
            }
            "set_next" => {
                let next = at(step["to"].as_i64().unwrap()).to_string();
                let change = JobChange::new().field("next_run_at", next.replace('Z', "+00:00"));
                store.update(&self.job, change).await.map(|_| Value::Null)?
            }
            "force_claim_at" => {
                let dated = at(step["claim_at"].as_i64().unwrap()).to_string().replace('Z', "+00:00");
                self.shelf.meddle(&self.job, |job| {
                    job.insert("fire_claim".to_owned(), json!({ "at": dated, "by": "other" }));
                });
                Value::Null
            }
            other => panic!("the vectors have a new step: {other}"),
        })
    }

    async fn compares(&self, expected: &Value, told: &str) {
        let Some(expected) = expected.as_object() else {
            assert!(self.shelf.store.get(&self.job).await.unwrap().is_none(), "{told}: still there");
            return;
        };
        let job = self.shelf.job(&self.job).await;
        for (field, expected) in expected {
            let mut kept = job.field(field).cloned().unwrap_or_default();
            if let Some(claim) = kept.as_object_mut().filter(|_| field == "fire_claim") {
                claim.retain(|field, _| field == "at" || field == "by");
            }
            assert_eq!(kept, *expected, "{told}: {field}");
        }
    }
}

#[tokio::test]
async fn of_as_many_claimants_as_in_the_vectors_one_wins() {
    let claimants = vectors()["concurrency"]["claimants"].as_u64().unwrap();
    for shelf in shelves() {
        let job = shelf.create(NewJob::new("every 5m")).await;
        let claims = (0..claimants).map(|_| {
            let (store, job) = (shelf.store.clone(), job.clone());
            tokio::spawn(async move { store.claim(&job, None, "one of many").await.unwrap() })
        });
        let mut won = 0;
        for claim in claims.collect::<Vec<_>>() {
            won += usize::from(matches!(claim.await.unwrap(), ClaimResult::Won(_)));
        }
        assert_eq!(won, 1, "{}", shelf.name);
    }
}
