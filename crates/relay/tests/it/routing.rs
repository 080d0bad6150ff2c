//! Routing: an event's own chat, scope or path decides its agent, never the bot or socket that brought it (section 1).

use ledger::Discriminator;
use posthouse_wire::Event;

use crate::test_server::{Agent, TestServer, bot, message, seconds};

/// Two tenants' agents on one shared bot, both at their sockets.
async fn two_on_one_bot(server: &TestServer, routes: [Discriminator; 2]) -> [Agent; 2] {
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    let mut agents = [server.enrol("acme", "heron", &[]).await, server.enrol("rival", "crow", &[]).await];
    for (agent, route) in agents.iter_mut().zip(routes) {
        server.routes(&shared, route, agent).await;
        agent.bots = vec![shared.clone()];
    }
    agents
}

fn in_scope(scope: &str, chat: &str, text: &str) -> Event {
    let mut event = message(&bot("slack", "shared"), chat, text);
    event.source.scope_id = Some(scope.into());
    event
}

#[tokio::test]
async fn two_tenants_on_one_bot_hear_only_their_own_chats() {
    let server = TestServer::open().await;
    let routes = [Discriminator::Chat("a".into()), Discriminator::Chat("b".into())];
    let [heron, crow] = two_on_one_bot(&server, routes).await;
    let (mut one, mut two) = (heron.sits().await, crow.sits().await);
    server.winds(seconds(4));
    let shared = bot("slack", "shared");
    for round in 0..3 {
        server.says(&shared, "a", &format!("a{round}")).await;
        server.says(&shared, "b", &format!("b{round}")).await;
    }
    assert!(server.brings(&shared, message(&shared, "c", "nobody's"), None).await.is_none());
    for round in 0..3 {
        one.takes(&format!("a{round}")).await;
        two.takes(&format!("b{round}")).await;
    }
    one.hears_nothing().await;
    two.hears_nothing().await;
}

#[tokio::test]
async fn the_same_chat_id_in_two_scopes_goes_to_two_tenants() {
    let server = TestServer::open().await;
    let routes = [Discriminator::Scope("T1".into()), Discriminator::Scope("T2".into())];
    let [heron, crow] = two_on_one_bot(&server, routes).await;
    let shared = bot("slack", "shared");
    for _ in 0..2 {
        server.brings(&shared, in_scope("T1", "general", "for heron"), None).await.unwrap();
        server.brings(&shared, in_scope("T2", "general", "for crow"), None).await.unwrap();
        assert!(server.brings(&shared, in_scope("T3", "general", "for nobody"), None).await.is_none());
        assert!(server.brings(&shared, message(&shared, "general", "for nobody"), None).await.is_none());
    }
    assert_eq!((heron.unread().await, crow.unread().await), (2, 2));
    let mut gateway = crow.sits_settled().await;
    gateway.takes("for crow").await;
    gateway.takes("for crow").await;
}

#[tokio::test]
async fn the_same_chat_id_on_two_paths_goes_to_two_tenants() {
    let server = TestServer::open().await;
    let routes = [Discriminator::Path("one".into()), Discriminator::Path("two".into())];
    let [heron, crow] = two_on_one_bot(&server, routes).await;
    let shared = bot("slack", "shared");
    for _ in 0..2 {
        server.brings(&shared, message(&shared, "main", "x"), Some("one")).await.unwrap();
        server.brings(&shared, message(&shared, "main", "y"), Some("two")).await.unwrap();
        assert!(server.brings(&shared, message(&shared, "main", "z"), Some("three")).await.is_none());
        assert!(server.brings(&shared, message(&shared, "main", "z"), None).await.is_none());
    }
    assert_eq!((heron.unread().await, crow.unread().await), (2, 2));
}

#[tokio::test]
async fn a_route_that_is_changed_counts_from_the_next_event() {
    let server = TestServer::open().await;
    let route = Discriminator::Chat("a".into());
    let [heron, crow] = two_on_one_bot(&server, [route.clone(), Discriminator::Chat("b".into())]).await;
    let shared = bot("slack", "shared");
    server.says(&shared, "a", "first").await;
    server.ledger.roster().remove_route(&shared.platform, &shared.bot, &route).await.unwrap();
    server.identity.roster.bot_changed(&shared);
    assert!(server.brings(&shared, message(&shared, "a", "between"), None).await.is_none());
    server.routes(&shared, route, &crow).await;
    server.says(&shared, "a", "second").await;
    assert_eq!((heron.unread().await, crow.unread().await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_remembered_while_it_changes_does_not_outlive_the_change() {
    let server = TestServer::open().await;
    let route = Discriminator::Chat("a".into());
    let agents = two_on_one_bot(&server, [route.clone(), Discriminator::Chat("b".into())]).await;
    let shared = bot("slack", "shared");
    let event = message(&shared, "a", "x");
    for round in 1..60 {
        let asking = tokio::spawn({
            let (roster, on, source) = (server.identity.roster.clone(), shared.clone(), event.source.clone());
            async move {
                for _ in 0..20 {
                    let _ = roster.route(&on, identity::EventOrigin { source: &source, path: None }).await;
                }
            }
        });
        server.ledger.roster().remove_route(&shared.platform, &shared.bot, &route).await.unwrap();
        let owner = &agents[round % 2];
        server.routes(&shared, route.clone(), owner).await;
        let origin = identity::EventOrigin { source: &event.source, path: None };
        let found = server.identity.roster.route(&shared, origin).await.unwrap().unwrap();
        assert_eq!(found.to.instance, owner.instance);
        asking.await.unwrap();
        let found = server.identity.roster.route(&shared, origin).await.unwrap().unwrap();
        assert_eq!(found.to.instance, owner.instance);
    }
}

#[tokio::test]
async fn in_a_group_only_what_is_addressed_becomes_a_turn() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut event = message(&heron.bots[0], "g1", "among ourselves");
    event.source.chat_type = "group".to_owned();
    assert!(server.brings(&heron.bots[0], event, None).await.is_none());
    assert_eq!(heron.unread().await, 0);
}

#[tokio::test]
async fn what_would_crash_a_stock_agents_reader_is_not_stored() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let mut event = message(&heron.bots[0], "c1", "without a chat type");
    event.source.chat_type = String::new();
    assert!(server.brings(&heron.bots[0], event, None).await.is_none());
    assert_eq!(heron.unread().await, 0);
}
