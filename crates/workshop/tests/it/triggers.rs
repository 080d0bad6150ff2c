//! Triggers and the run queue over the real clock, post and ledger, with time driven by hand.

use std::time::Duration;

use ledger::{RunState, SkillSettingsChange, StoredRun};
use serde_json::json;
use workshop::{Config, EventOutcome, MissedRuns, RunSettings};

use crate::fixtures::START;
use crate::skill_server::SkillServer;

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_runs_at_its_cron_times_and_not_after_it_was_disabled() {
    let server = SkillServer::open().await;
    server
        .writes("tide", "Approved", "# Triggers: cron: */5 * * * *\n", "emit(text=\"${TRIGGER_TYPE}\")")
        .await;
    server.starts();
    let ended = server.until_ended(2).await;
    let minutes = fired_minutes(&ended);
    assert_eq!(minutes[0], 5);
    assert!(minutes[1] > 5 && minutes[1] % 5 == 0, "{minutes:?}");
    assert!(ended.iter().all(|run| run.state == RunState::Succeeded), "{ended:?}");
    let record =
        server.ledger.skill_runs().run(&server.acme, &ended[0].run.id).await.unwrap().unwrap().record;
    let record: serde_json::Value = serde_json::from_str(&record.unwrap()).unwrap();
    assert_eq!(record["emissions"], json!(["cron"]));
    assert_eq!(record["trigger"]["name"], "*/5 * * * *");
    // A marker comes first, so the disabled skill did not run.
    server.writes("tide", "Disabled", "# Triggers: cron: */5 * * * *\n", "emit(text=\"x\")").await;
    server.writes("marker", "Approved", "# Triggers: cron: */5 * * * *\n", "emit(text=\"x\")").await;
    let before = server.ended().await.len();
    let ended = server.until_ended(before + 1).await;
    assert_eq!(ended.last().unwrap().run.skill, "marker");
}

#[tokio::test(flavor = "multi_thread")]
async fn times_that_passed_while_the_server_was_down_run_once_or_not_at_all() {
    for policy in [MissedRuns::RunOnce, MissedRuns::Skip] {
        let server = SkillServer::open().await;
        let settings = RunSettings { missed_runs: policy, ..RunSettings::default() };
        server.runner.resources().change_settings(&server.acme, &settings).await.unwrap().unwrap();
        server.writes("tide", "Approved", "# Triggers: cron: */5 * * * *\n", "emit(text=\"x\")").await;
        // The server that is down had followed the skills.
        server.runner.triggers().list(&server.acme).await.unwrap().unwrap();
        server.time.wind(Duration::from_secs(2 * 3600));
        server.starts();
        let minutes = fired_minutes(&server.until_ended(2).await);
        match policy {
            MissedRuns::RunOnce => assert_eq!(minutes[0], 5, "{minutes:?}"),
            MissedRuns::Skip => assert!(minutes[0] > 120, "{minutes:?}"),
        }
        assert!(minutes[1] > 120 && minutes[1] % 5 == 0, "{minutes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_of_a_skill_sets_its_cron_times_although_nobody_lists_triggers() {
    let server = SkillServer::open().await;
    let (skills, by) = (server.workshop.skills(), &server.program);
    let header = "# Triggers: cron: */5 * * * *\n";
    // One was written before the server started, and the others while it runs.
    server.writes("early", "Approved", header, "emit(text=\"x\")").await;
    server.starts();
    server.until_skill_ends("early").await;
    skills.set_status(by, "early", skill::Status::Disabled).await.unwrap().unwrap();
    server.writes("draft", "Draft", header, "emit(text=\"x\")").await;
    skills.set_status(by, "draft", skill::Status::Approved).await.unwrap().unwrap();
    server.until_skill_ends("draft").await;
    skills.delete(by, "draft", true).await.unwrap().unwrap();
    server.writes("marker", "Approved", header, "emit(text=\"x\")").await;
    let before = server.ended().await;
    server.until_skill_ends("marker").await;
    let since = server.ended().await.split_off(before.len());
    assert!(since.iter().all(|run| run.run.skill == "marker"), "{since:?}");
    skills.restore(by, "draft").await.unwrap().unwrap();
    let before = server.ended().await.len();
    server.until(|ended| ended[before..].iter().any(|run| run.run.skill == "draft")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_in_a_folder_that_somebody_else_writes_gets_its_cron_times() {
    let roots = tempfile::tempdir().unwrap();
    let root = roots.path().canonicalize().unwrap();
    let server = SkillServer::open_with(Config { roots: vec![root.clone()], ..Config::default() }).await;
    server.starts();
    let folder = root.join("skills");
    std::fs::create_dir(&folder).unwrap();
    let store = Some(format!("filesystem:{}", folder.display()));
    let change = SkillSettingsChange { store, ..SkillSettingsChange::default() };
    server.workshop.approval_keys().change(&server.acme, change).await.unwrap().unwrap();
    server.writes("marker", "Approved", "# Triggers: cron: * * * * *\n", "emit(text=\"x\")").await;
    server.until_skill_ends("marker").await;
    let text = "# Skill: tide\n# Status: Approved\n# Triggers: cron: */5 * * * *\ngo:\n    emit(text=\"x\")\n\
                default: go\n";
    std::fs::write(folder.join("tide.skill.md"), text).unwrap();
    server.until_skill_ends("tide").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn jitter_delays_scheduled_runs_and_skips_no_time() {
    let server = SkillServer::open().await;
    let settings = RunSettings { jitter_seconds: 600, ..RunSettings::default() };
    server.runner.resources().change_settings(&server.acme, &settings).await.unwrap().unwrap();
    server.writes("tide", "Approved", "# Triggers: cron: */2 * * * *\n", "emit(text=\"x\")").await;
    server.starts();
    let ended = server.until_ended(4).await;
    let mut minutes = fired_minutes(&ended);
    minutes.sort_unstable();
    assert!(minutes.windows(2).all(|pair| pair[1] - pair[0] == 2), "{minutes:?}");
    let delays = ended.iter().map(|run| run.started.unwrap().millis() - run.run.fired.millis());
    assert!(delays.max().unwrap() > 30_000, "some run is late by more than a step of the clock");
}

/// Minutes from the start to the times for which runs were due.
fn fired_minutes(runs: &[StoredRun]) -> Vec<i64> {
    runs.iter().map(|run| (run.run.fired.millis() - START.millis()) / 60_000).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_is_matched_without_regard_to_case_and_its_parameters_keep_their_types() {
    let server = SkillServer::open().await;
    let header = "# Triggers: event: Door.Open\n# Vars: N\n";
    server.writes("door", "Approved", header, "if ${N} > \"4\":\n        emit(text=\"${N}\")").await;
    server.starts();
    let triggers = server.runner.triggers();
    let send = async |name: &str, params: serde_json::Value| {
        let params = params.as_object().unwrap().clone();
        triggers.event(&server.acme, name, params, None).await.unwrap().unwrap()
    };
    assert_eq!(send("nope", json!({})).await, EventOutcome::Unknown);
    let missing = EventOutcome::Mismatch {
        declared: vec!["N".to_owned()],
        missing: vec!["N".to_owned()],
        extra: vec!["Z".to_owned()],
    };
    assert_eq!(send("door.open", json!({ "Z": 1 })).await, missing);
    let queued = send("DOOR.OPEN", json!({ "N": 5 })).await;
    let ended = server.until_ended(1).await;
    assert_eq!(queued, EventOutcome::Queued(ended[0].run.id.clone()));
    let large = "x".repeat(300 * 1024);
    assert_eq!(send("door.open", json!({ "N": large })).await, EventOutcome::TooLarge);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_running_skills_of_a_tenant_share_a_budget_of_memory() {
    const MEBIBYTE: usize = 1 << 20;
    let settings =
        Config { tenant_run_memory_bytes: MEBIBYTE, run_memory_bytes: 2 * MEBIBYTE, ..Config::default() };
    let server = SkillServer::open_with(settings).await;
    let double = "$append A ${A}\n    ";
    let grows = |times: usize| {
        format!("$set A = {}\n    {}emit(text=\"done\")", "x".repeat(200_000), double.repeat(times))
    };
    server.writes("small", "Approved", "", &grows(1)).await;
    server.writes("large", "Approved", "", &grows(4)).await;
    let envelope = server.executes("large").await;
    assert_eq!(envelope["errors"][0]["class"], "OpError", "{envelope}");
    let message = "what all running skills of the tenant hold together is larger than the limit of 1 MiB";
    assert_eq!(envelope["errors"][0]["message"], message);
    let envelope = server.executes("small").await;
    assert_eq!(envelope["transcript"], json!(["done"]), "what the other run held is given back");
}
