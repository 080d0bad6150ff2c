//! Alarms of triggers, and events of skills outside of the server.

use std::time::Duration;

use serde_json::Map;
use workshop::{EnableOutcome, EventOutcome, RegisterOutcome};

use crate::foreign_store::ForeignStore;
use crate::skill_server::SkillServer;

const CRON: &str = "# Triggers: cron: 0 9 * * 1\n";

/// Alarms that wait.
async fn alarms(server: &SkillServer) -> u64 {
    server.ledger.arms().count_by_state().await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_that_is_gone_leaves_no_alarm() {
    let server = SkillServer::open().await;
    let triggers = server.runner.triggers();
    server.writes("s", "Approved", CRON, "emit(text=\"x\")").await;
    triggers.list(&server.acme).await.unwrap().unwrap();
    assert_eq!(alarms(&server).await, 1);
    for minute in 0..3 {
        let cron = format!("{minute} * * * *");
        let added = triggers.register(&server.acme, "s", "cron", &cron, None).await.unwrap().unwrap();
        let RegisterOutcome::Added(added) = added else { panic!("{added:?}") };
        let number = added.number;
        assert_eq!(alarms(&server).await, 2);
        triggers.enable(&server.acme, number, false).await.unwrap();
        assert_eq!(alarms(&server).await, 1, "one that is disabled needs none");
        assert!(matches!(triggers.enable(&server.acme, number, true).await, Ok(EnableOutcome::Changed(_))));
        assert_eq!(alarms(&server).await, 2);
        assert!(triggers.remove(&server.acme, number).await.unwrap());
        assert_eq!(alarms(&server).await, 1);
    }
    server.writes("s", "Disabled", CRON, "emit(text=\"x\")").await;
    triggers.list(&server.acme).await.unwrap().unwrap();
    assert_eq!(alarms(&server).await, 0, "the header is followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_whose_time_never_comes_is_refused() {
    let server = SkillServer::open().await;
    server.writes("s", "Approved", "", "emit(text=\"x\")").await;
    let triggers = server.runner.triggers();
    let register =
        async |cron| triggers.register(&server.acme, "s", "cron", cron, None).await.unwrap().unwrap();
    for never in ["* * 31 2 *", "60 * * * *", "0 9 * * 7", "@daily"] {
        assert_eq!(register(never).await, RegisterOutcome::NeverFires, "{never}");
    }
    assert!(matches!(register("0 0 29 2 1").await, RegisterOutcome::Added(_)), "in 2044");
    assert_eq!(triggers.list(&server.acme).await.unwrap().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_do_not_read_a_store_outside_of_the_server() {
    let store = ForeignStore::default();
    let server = store.server(|runs| runs).await;
    server.writes("s", "Approved", "# Triggers: event: go\n", "emit(text=\"x\")").await;
    server.starts();
    let triggers = server.runner.triggers();
    let followed = async {
        while triggers.event(&server.acme, "go", Map::new(), None).await.unwrap().unwrap()
            == EventOutcome::Unknown
        {
            tokio::task::yield_now().await;
        }
    };
    server.time.wind_until(Duration::from_secs(1), followed).await;
    let before = store.lists();
    for _ in 0..10 {
        let known = triggers.event(&server.acme, "go", Map::new(), None).await.unwrap().unwrap();
        assert!(matches!(known, EventOutcome::Queued(_)), "{known:?}");
        let unknown = triggers.event(&server.acme, "nope", Map::new(), None).await.unwrap().unwrap();
        assert_eq!(unknown, EventOutcome::Unknown);
    }
    // The follower of triggers may read it once.
    assert!(store.lists() <= before + 1, "{before}, then {}", store.lists());
}
