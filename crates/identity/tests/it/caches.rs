//! Caches of agents, access tokens and routes: a change invalidates only what it concerns, and does so at once.

use identity::{Enrolment, EventOrigin, RosterChange};
use ledger::{Discriminator, Owner};

use crate::fixtures::{TestAgent, TestServer, bot, direct_chat};

/// An access token of an agent's client.
async fn access_token(agent: &TestAgent) -> String {
    let accounts = &agent.server.identity.accounts;
    let owner = Owner::Instance(agent.instance.clone());
    let (client, _) = accounts.create_client(&owner).await.unwrap().unwrap();
    accounts.grant_access(&client).await.unwrap().unwrap().access_token.expose().to_owned()
}

#[tokio::test]
async fn another_tenants_cached_route_and_token_survive_a_tenant_that_changes_its_roster_continuously() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let theirs = bot("telegram", "7002");
    let crow = server.enrol("rival", "crow", std::slice::from_ref(&theirs)).await;
    let ours = bot("telegram", "7001");
    let token = access_token(&heron).await;
    let source = direct_chat(&ours, "c1");
    // The ledger reads that heron's route, token and agent cost.
    let cost = async || {
        let before = server.ledger.reads();
        let origin = EventOrigin { source: &source, path: None };
        let routed = server.identity.roster.route(&ours, origin).await.unwrap().unwrap();
        assert_eq!(routed.to.instance, heron.instance);
        assert!(server.owner_of(&token).await.is_some());
        server.ledger.reads() - before
    };
    assert!(cost().await > 0, "nothing is cached yet");
    let accounts = &server.identity.accounts;
    let mut read = 0;
    for round in 0..20 {
        let name = format!("fledgling-{round}");
        let enrolment = Enrolment { tenant: "rival".to_owned(), name, ..Enrolment::default() };
        let enrolled = accounts.enrol(enrolment).await.unwrap().unwrap();
        accounts.log_in(&enrolled.instance.id).await.unwrap();
        let owner = Owner::Instance(enrolled.instance.id.clone());
        let (client, _) = accounts.create_client(&owner).await.unwrap().unwrap();
        accounts.revoke_client(&client).await.unwrap();
        accounts.remove_agent(&enrolled.instance.id).await.unwrap();
        let roster = server.identity.roster.records();
        roster.remove_route(&theirs.platform, &theirs.bot, &Discriminator::Any).await.unwrap();
        server.routes(&theirs, Discriminator::Any, &crow).await;
        read += cost().await;
    }
    // The notification of heron's own enrolment may come around meanwhile. Every round costs at least as much when the
    // rival's changes count.
    assert!(read < 20, "{read} reads in 20 rounds");
    server.identity.roster.tenant_changed(&heron.tenant);
    assert!(cost().await > 0, "its own changes count at once");
    server.identity.roster.bot_changed(&ours);
    assert!(cost().await > 0);
    // It is cached again once the notification of the change has gone around.
    while cost().await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_change_of_one_agent_leaves_the_cached_records_of_its_neighbours() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let egret = server.enrol("acme", "egret", &[]).await;
    let roster = &server.identity.roster;
    let callback = async || {
        let found = roster.agent(&heron.tenant, "heron").await.unwrap().unwrap();
        found.callback_url.clone()
    };
    assert_eq!(callback().await, None);
    roster.agent(&egret.tenant, "egret").await.unwrap().unwrap();
    let mut read = 0;
    for round in 0..20 {
        let url = format!("http://127.0.0.1:1/{round}");
        roster.records().set_callback_url(&heron.instance, Some(&url)).await.unwrap();
        roster.agent_changed(&heron.instance);
        let before = server.ledger.reads();
        assert!(roster.agent(&egret.tenant, "egret").await.unwrap().is_some());
        read += server.ledger.reads() - before;
        assert_eq!(callback().await.as_deref(), Some(url.as_str()), "the change is seen at once");
    }
    // The notification of the enrolment may come around meanwhile. Every round reads something when the change of the
    // neighbour counts.
    assert!(read < 20, "{read} reads in 20 rounds");
}

#[tokio::test]
async fn a_revocation_takes_effect_before_its_command_answers() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let accounts = &server.identity.accounts;
    for _ in 0..20 {
        let token = access_token(&heron).await;
        assert!(server.owner_of(&token).await.is_some(), "the token is cached now");
        let client = Owner::Instance(heron.instance.clone()).client();
        accounts.revoke_client(&client).await.unwrap();
        assert!(server.owner_of(&token).await.is_none());
        let login = accounts.log_in(&heron.instance).await.unwrap().unwrap();
        let token = login.access.access_token.expose();
        assert!(server.owner_of(token).await.is_some());
        accounts.revoke(&heron.instance, identity::WhichCredentials::All).await.unwrap();
        assert!(server.owner_of(token).await.is_none());
    }
}

#[tokio::test]
async fn commands_that_an_agent_announces_again_and_again_invalidate_nothing_of_the_bot() {
    let server = TestServer::open().await;
    // It begins to listen to notifications.
    tokio::task::yield_now().await;
    let heron = server.heron().await;
    let ours = bot("telegram", "7001");
    let source = direct_chat(&ours, "c1");
    let routes = async || {
        let origin = EventOrigin { source: &source, path: None };
        server.identity.roster.route(&ours, origin).await.unwrap().unwrap();
    };
    let mut watch = server.identity.roster.watch();
    let mut announces = async |round: u32| {
        let manifest = format!(r#"[{{"name":"ask{}","description":"Ask"}}]"#, round % 2);
        server.identity.accounts.keep_commands(&heron.instance, &ours, &manifest).await.unwrap();
        // The change itself, and the notification of it when it has gone around.
        for _ in 0..2 {
            while watch.changed().await.unwrap() != RosterChange::Commands(ours.clone()) {}
        }
    };
    // Notifications come around in order. After this, those of the enrolment have.
    announces(1).await;
    routes().await;
    let before = server.identity.roster.change_count();
    for round in 0..20 {
        announces(round).await;
    }
    let reads = server.ledger.reads();
    routes().await;
    assert_eq!(server.ledger.reads(), reads);
    assert_eq!(server.identity.roster.change_count(), before);
    assert!(!server.identity.roster.bot_changed_since(before, &ours));
}
