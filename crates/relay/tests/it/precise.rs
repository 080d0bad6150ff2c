//! Cache invalidation: a roster change invalidates only the data that it concerns.

use ledger::{Discriminator, Owner};
use relay::{Bearings, Enrolment};

use crate::house::{House, bot, message};

#[tokio::test]
async fn another_tenants_cached_route_and_bearer_survive_a_tenant_that_changes_its_roster_continuously() {
    let house = House::open().await;
    let heron = house.heron().await;
    let crow = house.enrol("rival", "crow", &[bot("telegram", "7002")]).await;
    let keyring = house.relay.keyring();
    let (client, _) = keyring.create_client(&Owner::Instance(heron.instance.clone())).await.unwrap().unwrap();
    let token = keyring.grant_access(&client).await.unwrap().unwrap().access_token;
    let source = message(&heron.bots[0], "c1", "x").source;
    // What it costs the ledger when heron's route and bearer are asked for.
    let cost = async || {
        let before = house.ledger.reads();
        let bearings = Bearings { source: &source, path: None };
        let found = house.relay.route(&heron.bots[0], bearings).await.unwrap().unwrap();
        assert_eq!(found.instance, heron.instance);
        assert!(keyring.bearer(token.expose()).await.unwrap().is_some());
        house.ledger.reads() - before
    };
    assert!(cost().await > 0, "nothing is remembered yet");
    let mut read = 0;
    for round in 0..20 {
        let name = format!("fledgling-{round}");
        let rival = Enrolment { tenant: "rival".to_owned(), name, ..Enrolment::default() };
        let enrolled = house.relay.enrol(rival).await.unwrap().unwrap();
        keyring.log_in(&enrolled.instance.id).await.unwrap();
        let theirs = Owner::Instance(enrolled.instance.id.clone());
        let (client, _) = keyring.create_client(&theirs).await.unwrap().unwrap();
        keyring.revoke_client(&client).await.unwrap();
        house.relay.remove_agent(&enrolled.instance.id).await.unwrap();
        house.relay.remove_route(&crow.bots[0], &Discriminator::Any).await.unwrap();
        house.routes(&crow.bots[0], Discriminator::Any, &crow).await;
        house.ledger_is_quiet().await;
        read += cost().await;
    }
    // The word of heron's own enrolment may have come around meanwhile; every round costs at least as much when the
    // rival's changes count.
    assert!(read < 20, "{read} reads in 20 rounds");
    house.relay.tenant_changed(&heron_tenant(&house, &heron).await);
    assert!(cost().await > 0, "its own changes count at once");
    house.relay.bot_changed(&heron.bots[0]);
    assert!(cost().await > 0);
    // It is remembered again once the word of the change has gone around.
    while cost().await > 0 {
        tokio::task::yield_now().await;
    }
}

async fn heron_tenant(house: &House, heron: &crate::house::Agent) -> posthouse_wire::TenantId {
    house.ledger.roster().instance(&heron.instance).await.unwrap().unwrap().tenant
}
