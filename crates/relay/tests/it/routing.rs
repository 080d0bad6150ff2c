//! Routing: an event's own chat, scope or path decides its agent, never the bot or socket that brought it (section 1).

use ledger::Discriminator;
use posthouse_wire::Event;

use crate::house::{Agent, House, bot, message, seconds};

/// Two tenants' agents on one shared bot, both at their sockets.
async fn two_on_one_bot(house: &House, routes: [Discriminator; 2]) -> [Agent; 2] {
    let shared = bot("slack", "shared");
    house.has_bot(&shared, true).await;
    let mut agents = [house.enrol("acme", "heron", &[]).await, house.enrol("rival", "crow", &[]).await];
    for (agent, route) in agents.iter_mut().zip(routes) {
        house.routes(&shared, route, agent).await;
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
    let house = House::open().await;
    let routes = [Discriminator::Chat("a".into()), Discriminator::Chat("b".into())];
    let [heron, crow] = two_on_one_bot(&house, routes).await;
    let (mut one, mut two) = (heron.sits().await, crow.sits().await);
    house.winds(seconds(4));
    let shared = bot("slack", "shared");
    for round in 0..3 {
        house.says(&shared, "a", &format!("a{round}")).await;
        house.says(&shared, "b", &format!("b{round}")).await;
    }
    assert!(house.brings(&shared, message(&shared, "c", "nobody's"), None).await.is_none());
    for round in 0..3 {
        one.takes(&format!("a{round}")).await;
        two.takes(&format!("b{round}")).await;
    }
    one.hears_nothing().await;
    two.hears_nothing().await;
}

#[tokio::test]
async fn the_same_chat_id_in_two_scopes_goes_to_two_tenants() {
    let house = House::open().await;
    let routes = [Discriminator::Scope("T1".into()), Discriminator::Scope("T2".into())];
    let [heron, crow] = two_on_one_bot(&house, routes).await;
    let shared = bot("slack", "shared");
    for _ in 0..2 {
        house.brings(&shared, in_scope("T1", "general", "for heron"), None).await.unwrap();
        house.brings(&shared, in_scope("T2", "general", "for crow"), None).await.unwrap();
        assert!(house.brings(&shared, in_scope("T3", "general", "for nobody"), None).await.is_none());
        assert!(house.brings(&shared, message(&shared, "general", "for nobody"), None).await.is_none());
    }
    assert_eq!((heron.unread().await, crow.unread().await), (2, 2));
    let mut gateway = crow.sits_settled().await;
    gateway.takes("for crow").await;
    gateway.takes("for crow").await;
}

#[tokio::test]
async fn the_same_chat_id_on_two_paths_goes_to_two_tenants() {
    let house = House::open().await;
    let routes = [Discriminator::Path("one".into()), Discriminator::Path("two".into())];
    let [heron, crow] = two_on_one_bot(&house, routes).await;
    let shared = bot("slack", "shared");
    for _ in 0..2 {
        house.brings(&shared, message(&shared, "main", "x"), Some("one")).await.unwrap();
        house.brings(&shared, message(&shared, "main", "y"), Some("two")).await.unwrap();
        assert!(house.brings(&shared, message(&shared, "main", "z"), Some("three")).await.is_none());
        assert!(house.brings(&shared, message(&shared, "main", "z"), None).await.is_none());
    }
    assert_eq!((heron.unread().await, crow.unread().await), (2, 2));
}

#[tokio::test]
async fn a_route_that_is_changed_counts_from_the_next_event() {
    let house = House::open().await;
    let route = Discriminator::Chat("a".into());
    let [heron, crow] = two_on_one_bot(&house, [route.clone(), Discriminator::Chat("b".into())]).await;
    let shared = bot("slack", "shared");
    house.says(&shared, "a", "first").await;
    house.ledger.roster().remove_route(&shared.platform, &shared.bot, &route).await.unwrap();
    house.identity.roster.bot_changed(&shared);
    assert!(house.brings(&shared, message(&shared, "a", "between"), None).await.is_none());
    house.routes(&shared, route, &crow).await;
    house.says(&shared, "a", "second").await;
    assert_eq!((heron.unread().await, crow.unread().await), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_remembered_while_it_changes_does_not_outlive_the_change() {
    let house = House::open().await;
    let route = Discriminator::Chat("a".into());
    let agents = two_on_one_bot(&house, [route.clone(), Discriminator::Chat("b".into())]).await;
    let shared = bot("slack", "shared");
    let event = message(&shared, "a", "x");
    for round in 1..60 {
        let asking = tokio::spawn({
            let (roster, on, source) = (house.identity.roster.clone(), shared.clone(), event.source.clone());
            async move {
                for _ in 0..20 {
                    let _ = roster.route(&on, identity::Bearings { source: &source, path: None }).await;
                }
            }
        });
        house.ledger.roster().remove_route(&shared.platform, &shared.bot, &route).await.unwrap();
        let owner = &agents[round % 2];
        house.routes(&shared, route.clone(), owner).await;
        let bearings = identity::Bearings { source: &event.source, path: None };
        let found = house.identity.roster.route(&shared, bearings).await.unwrap().unwrap();
        assert_eq!(found.to.instance, owner.instance);
        asking.await.unwrap();
        let found = house.identity.roster.route(&shared, bearings).await.unwrap().unwrap();
        assert_eq!(found.to.instance, owner.instance);
    }
}

#[tokio::test]
async fn in_a_group_only_what_is_addressed_becomes_a_turn() {
    let house = House::open().await;
    let heron = house.heron().await;
    let mut event = message(&heron.bots[0], "g1", "among ourselves");
    event.source.chat_type = "group".to_owned();
    assert!(house.brings(&heron.bots[0], event, None).await.is_none());
    assert_eq!(heron.unread().await, 0);
}

#[tokio::test]
async fn what_would_crash_a_stock_agents_reader_is_not_stored() {
    let house = House::open().await;
    let heron = house.heron().await;
    let mut event = message(&heron.bots[0], "c1", "without a chat type");
    event.source.chat_type = String::new();
    assert!(house.brings(&heron.bots[0], event, None).await.is_none());
    assert_eq!(heron.unread().await, 0);
}
