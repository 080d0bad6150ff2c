//! Metrics of runs: started, ended, refused, running and queued. No label is chosen by a caller.

use ledger::RunState;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::Map;
use skill::RunTrigger;
use workshop::{EventOutcome, RunOrder, RunSettings};

use crate::skill_server::SkillServer;

fn metrics(server: &SkillServer) -> String {
    let mut registry = Registry::default();
    server.workshop.metrics().register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}

#[track_caller]
fn has(server: &SkillServer, line: &str) {
    let text = metrics(server);
    assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_counted_by_what_started_them_and_by_outcome() {
    let server = SkillServer::open().await;
    server.writes("good", "Approved", "", "emit(text=\"x\")").await;
    server.writes("draft", "Draft", "", "emit(text=\"x\")").await;
    for skill in ["good", "good", "draft"] {
        server.executes(skill).await;
    }
    // A source that a caller makes up is no label of its own.
    let trigger = RunTrigger { source: "tenant-acme".into(), ..server.order("good").trigger };
    let order = RunOrder { trigger, ..server.order("good") };
    server.runner.runs().execute(&server.program, order).await.unwrap();
    has(&server, "posthouse_skill_runs_started_total{source=\"inline\"} 2");
    has(&server, "posthouse_skill_runs_started_total{source=\"other\"} 1");
    has(&server, "posthouse_skill_runs_ended_total{source=\"inline\",outcome=\"succeeded\"} 2");
    has(&server, "posthouse_skill_runs_refused_total{reason=\"not_admitted\"} 1");
    has(&server, "posthouse_skill_runs_running 0");
    has(&server, "posthouse_skill_run_seconds_count 3");
    assert!(!metrics(&server).contains("acme"), "no label names a tenant");
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_runs_are_counted_until_they_begin_or_are_cancelled() {
    let server = SkillServer::open().await;
    let settings = RunSettings { runs_at_once: 1, ..RunSettings::default() };
    server.runner.resources().change_settings(&server.acme, &settings).await.unwrap().unwrap();
    server.writes("s", "Approved", "# Triggers: event: go\n", "emit(text=\"x\")").await;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let queued = server.runner.triggers().event(&server.acme, "go", Map::new(), None).await;
        let EventOutcome::Queued(id) = queued.unwrap().unwrap() else { panic!("it is queued") };
        ids.push(id);
    }
    assert_eq!(server.ledger.skill_runs().queued_runs().await.unwrap(), 2);
    assert!(server.runner.runs().cancel(&server.acme, &ids[0]).await.unwrap());
    has(&server, "posthouse_skill_runs_ended_total{source=\"other\",outcome=\"cancelled\"} 1");
    server.starts();
    let ended = server.until_ended(2).await;
    assert!(ended.iter().any(|run| run.state == RunState::Succeeded));
    // A run is counted after its end is stored, and the queue from time to time.
    let counted = [
        "posthouse_skill_runs_ended_total{source=\"event\",outcome=\"succeeded\"} 1",
        "posthouse_skill_runs_queued 0",
    ];
    let is_counted = async {
        while !counted.iter().all(|line| metrics(&server).contains(line)) {
            tokio::task::yield_now().await;
        }
    };
    server.time.wind_until(std::time::Duration::from_secs(20), is_counted).await;
}
