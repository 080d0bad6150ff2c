//! Queue of runs: how many runs of one skill begin at once.

use ledger::{RunFilter, RunState};
use serde_json::Map;
use workshop::{EventOutcome, RunSettings};

use crate::foreign_store::ForeignStore;

#[tokio::test(flavor = "multi_thread")]
async fn a_skill_with_many_waiting_runs_leaves_room_for_the_other_skills_of_its_tenant() {
    let store = ForeignStore::default();
    let server = store.server(|runs| runs).await;
    let settings = RunSettings { runs_at_once: 32, ..RunSettings::default() };
    server.runner.resources().change_settings(&server.acme, &settings).await.unwrap().unwrap();
    for name in ["busy", "other"] {
        let header = format!("# Triggers: event: {name}\n");
        server.writes(name, "Approved", &header, "emit(text=\"x\")").await;
    }
    let events = std::iter::repeat_n("busy", 20).chain(["other"]);
    for event in events {
        let queued = server.runner.triggers().event(&server.acme, event, Map::new(), None).await;
        assert!(matches!(queued.unwrap().unwrap(), EventOutcome::Queued(_)));
    }
    // Runs that have begun stay under way, because their skill is never loaded.
    store.hangs();
    server.starts();
    let runs = server.ledger.skill_runs();
    loop {
        let all = runs.runs(&server.acme, RunFilter::default(), None, 99).await.unwrap();
        let count = |skill: &str, state| {
            all.iter().filter(|run| run.run.skill == skill && run.state == state).count()
        };
        if count("other", RunState::Running) == 1 {
            assert_eq!((count("busy", RunState::Running), count("busy", RunState::Queued)), (16, 4));
            break;
        }
        tokio::task::yield_now().await;
    }
}
