//! A change of one tenant's roster wakes nobody else's open questions.

use serde_json::json;

use crate::test_server::{TestServer, eventually};

#[tokio::test]
async fn open_exchanges_of_another_tenant_are_not_woken_by_a_roster_that_changes_continuously() {
    let server = TestServer::wound().await;
    let heron = server.enrol("acme", "heron").await;
    let crow = server.enrol("rival", "crow").await;
    let program = server.program("acme").await;
    let asking = tokio::spawn(async move {
        let body =
            json!({ "agent": "heron", "message": "?", "correlation_id": "q-1", "timeout": 600, "wait": 60 });
        program.posts("/v1/exchange", body).await
    });
    eventually("the question is open", async || {
        server.ledger.exchanges().exchange(&heron.tenant, &"q-1".into()).await.unwrap().is_some()
    })
    .await;
    // Whoever asked sits and waits by now: nobody looks anything up any more.
    let settles = async || {
        for _ in 0..20 {
            server.ledger.facts().set_fact("tick", "tock").await.unwrap();
            tokio::task::yield_now().await;
        }
        server.ledger.reads()
    };
    let mut quiet = settles().await;
    while settles().await != quiet {
        quiet = server.ledger.reads();
    }
    for round in 0..10 {
        server.identity.roster.tenant_changed(&crow.tenant);
        server.identity.roster.bot_changed(&ledger::BotRef { platform: "pigeon".into(), bot: "7002".into() });
        assert_eq!(settles().await, quiet, "round {round}");
    }
    // Its own tenant's change does wake it.
    server.identity.roster.tenant_changed(&heron.tenant);
    eventually("it looks again", async || server.ledger.reads() > quiet).await;
    asking.abort();
}
