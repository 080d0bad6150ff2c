//! Crash test of skills: SIGKILL while events and times start runs. No run that was answered is lost, no run with
//! effects has them twice, and every receipt leads to the run that sent it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::stepping::SteppingClock;
use super::stores::store_client::StoreClient;
use super::{Dice, PATIENCE, kills};
use crate::talk::provide_crypto;
use crate::test_server::TestServer;

/// Events under way before each kill.
const EVENTS: usize = 18;
/// Kills after which the test waits until all runs have ended.
const ROUNDS_BETWEEN_PAUSES: usize = 15;
/// The server's clock jumps this far at each kill, so that a time of the scheduled skill passes.
const JUMP_SECONDS: i64 = 60;
/// The longest time without a scheduled run: the jump, the time until the next minute, and a minute to spare.
const LONGEST_GAP_MS: i64 = 180_000;

/// It has effects, so it runs at most once.
const TELL: &str = "# Skill: tell\n# Status: Approved\n# Triggers: event: tell\n# Vars: N\ngo:\n    \
    notify(agent=\"heron\", message=\"${N} first\")\n    notify(agent=\"heron\", message=\"${N} second\")\n\
    default: go\n";
/// Its effects are entries, which nothing but the run itself keeps from being written twice.
const KEEP: &str = "# Skill: keep\n# Status: Approved\n# Triggers: event: keep\n# Vars: N\ngo:\n    \
    $ data_write content=\"${N} first\" approved=\"yes\" -> A\n    \
    $ data_write content=\"${N} second\" approved=\"yes\" -> B\ndefault: go\n";
/// It has no effects, so it may be begun again.
const READ: &str = "# Skill: read\n# Status: Approved\n# Triggers: event: read\n# Vars: N\ngo:\n    \
    emit(text=\"${N}\")\ndefault: go\n";
const EVERY_MINUTE: &str = "# Skill: tick\n# Status: Approved\n# Triggers: cron: * * * * *\ngo:\n    \
    notify(agent=\"heron\", message=\"tick\")\ndefault: go\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_run_that_was_answered_is_lost_and_none_acts_twice_whenever_the_server_is_killed() {
    provide_crypto();
    let folder = tempfile::tempdir().unwrap();
    let clock = SteppingClock::build(folder.path());
    let mut environment = clock.environment().to_vec();
    environment.push(("POSTHOUSE_LIMITS__PROGRAM_REQUESTS_PER_MINUTE", "4000000000".to_owned()));
    let environment: Vec<(&str, &str)> =
        environment.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut server = TestServer::open(&environment);
    server.does(&["tenant", "create", "acme"]);
    server.does(&["agent", "create", "heron", "--tenant", "acme"]);
    let client = StoreClient::of(&server.url, &server.does(&["client", "create", "--tenant", "acme"]));
    for (name, text) in [("tell", TELL), ("keep", KEEP), ("read", READ), ("tick", EVERY_MINUTE)] {
        let file = server.secret_file(&format!("{name}.skill.md"), text);
        server.does(&["skill", "write", name, &file, "--tenant", "acme"]);
    }

    // The runs of answered events, with their numbers.
    let answered: Arc<Mutex<HashMap<String, String>>> = Arc::default();
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    for kill in 1..=kills() {
        let count = Arc::new(AtomicUsize::new(0));
        let events: Vec<_> = (0..EVENTS)
            .map(|number| {
                let (client, answered, count) = (client.clone(), Arc::clone(&answered), Arc::clone(&count));
                let path = ["/v1/events/read", "/v1/events/tell", "/v1/events/keep"][number % 3];
                let number = format!("{kill}-{number}");
                let body = json!({ "N": number });
                tokio::spawn(async move {
                    if let Some(answer) = client.asks("POST", path, Some(&body)).await {
                        answered.lock().insert(answer["run_id"].as_str().unwrap().to_owned(), number);
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let wanted = 1 + dice.below(EVENTS);
        let some = tokio::time::timeout(PATIENCE, async {
            while count.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        });
        assert!(some.await.is_ok(), "stuck with {} of {wanted} answered", count.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_micros(dice.below(8_000) as u64)).await;
        tokio::task::block_in_place(|| server.kill());
        for event in events {
            event.await.unwrap();
        }
        clock.set(kill as i64 * JUMP_SECONDS);
        tokio::task::block_in_place(|| server.start());
        // The queue of a tenant is bounded, and many rounds would fill it.
        if kill % ROUNDS_BETWEEN_PAUSES == 0 {
            ended_runs(&client).await;
        }
    }
    let runs = ended_runs(&client).await;
    let mut findings = Vec::new();
    let ids: HashSet<&str> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    let answered = std::mem::take(&mut *answered.lock());
    findings.extend(
        answered
            .keys()
            .filter(|id| !ids.contains(id.as_str()))
            .map(|id| format!("{id} was answered, and is lost")),
    );
    check_times(&runs, &mut findings);
    check_effects(&client, &runs, &mut findings).await;
    check_entries(&client, &runs, &answered, &mut findings).await;
    println!(
        "{} kills, {} events answered, {} runs, {} of them interrupted: {} findings",
        kills(),
        answered.len(),
        runs.len(),
        runs.iter().filter(|run| run["state"] == "interrupted").count(),
        findings.len()
    );
    assert!(findings.is_empty(), "{findings:#?}");
    server.kill();
}

/// All pages of a list.
async fn pages(client: &StoreClient, path: &str) -> Vec<Value> {
    let (mut items, mut after) = (Vec::new(), String::new());
    loop {
        let page = client.reads("GET", &format!("{path}?limit=100{after}"), None).await;
        items.extend(page["items"].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return items,
        }
    }
}

/// All runs, once every one of them has ended.
async fn ended_runs(client: &StoreClient) -> Vec<Value> {
    let waited = tokio::time::timeout(2 * PATIENCE, async {
        loop {
            let runs = pages(client, "/v1/runs").await;
            let has_ended = |run: &Value| run["ended_at_ms"].is_number();
            if runs.iter().all(has_ended) && runs.iter().any(|run| run["skill"] == "tick") {
                return runs;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    waited.await.expect("every run ends")
}

/// The scheduled skill ran for every time at most once, and no time was lost.
fn check_times(runs: &[Value], findings: &mut Vec<String>) {
    let mut times: Vec<i64> = runs
        .iter()
        .filter(|run| run["skill"] == "tick")
        .map(|run| run["fired_at_ms"].as_i64().unwrap())
        .collect();
    times.sort_unstable();
    for pair in times.windows(2) {
        match pair[1] - pair[0] {
            0 => findings.push(format!("two runs for the time {}", pair[0])),
            gap if gap > LONGEST_GAP_MS => findings.push(format!("no run for {gap} ms after {}", pair[0])),
            _ => {}
        }
    }
}

/// Every message is sent at most once, by the run that says so, and a run that succeeded sent all of its messages.
async fn check_effects(client: &StoreClient, runs: &[Value], findings: &mut Vec<String>) {
    let mut receipts: HashMap<String, usize> = HashMap::new();
    for receipt in pages(client, "/v1/receipts").await {
        *receipts.entry(receipt["dispatch_id"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    let mut sent = HashSet::new();
    for run in runs {
        let id = run["id"].as_str().unwrap();
        let shown = client.reads("GET", &format!("/v1/runs/{id}"), None).await;
        let dispatches: Vec<&str> =
            shown["dispatches"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let received = dispatches.iter().filter(|dispatch| receipts.contains_key(**dispatch)).count();
        let most = match run["skill"].as_str().unwrap() {
            "tell" => 2,
            "tick" => 1,
            _ => 0,
        };
        let has_succeeded = run["state"] == "succeeded";
        if !has_succeeded && run["state"] != "interrupted" {
            findings.push(format!("{id} ended as {}: {}", run["state"], run["error"]));
        }
        if dispatches.len() > most {
            findings.push(format!("{id} sent {} messages", dispatches.len()));
        }
        if has_succeeded && received != most {
            findings.push(format!("{id} succeeded with {received} of {most} receipts"));
        }
        sent.extend(dispatches.into_iter().map(str::to_owned));
    }
    for (dispatch, count) in receipts {
        if count > 1 {
            findings.push(format!("{dispatch} has {count} receipts"));
        }
        if !sent.contains(&dispatch) {
            findings.push(format!("the receipt of {dispatch} leads to no run"));
        }
    }
}

/// Every entry was written once, in the order of its skill, and a run that succeeded wrote both of them.
async fn check_entries(
    client: &StoreClient,
    runs: &[Value],
    answered: &HashMap<String, String>,
    findings: &mut Vec<String>,
) {
    let mut entries: HashMap<String, usize> = HashMap::new();
    for entry in pages(client, "/v1/data").await {
        *entries.entry(entry["summary"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    for (text, count) in &entries {
        if *count != 1 {
            findings.push(format!("`{text}` was written {count} times"));
        }
        if let Some(number) = text.strip_suffix(" second")
            && !entries.contains_key(&format!("{number} first"))
        {
            findings.push(format!("`{text}` was written without the entry before it"));
        }
    }
    for run in runs.iter().filter(|run| run["skill"] == "keep" && run["state"] == "succeeded") {
        let id = run["id"].as_str().unwrap();
        let Some(number) = answered.get(id) else { continue };
        for text in ["first", "second"].map(|part| format!("{number} {part}")) {
            if !entries.contains_key(&text) {
                findings.push(format!("{id} succeeded, and `{text}` is not there"));
            }
        }
    }
}
