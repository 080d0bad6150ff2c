//! Links on several bots of one platform: whoever can sign the events of a bot vouches for people on that bot only.

use identity::{EventOrigin, GateDecision, IncomingMessage, LinkResult};
use ledger::BotRef;

use crate::fixtures::{TestAgent, bot, seconds};
use crate::shared_gate::{Shared, direct, group, tenant};

/// The bot of one agent, whose tenant knows the secret that signs its events.
async fn own_bot(shared: &Shared, of: &TestAgent) -> BotRef {
    let own = bot("pigeon", of.instance.as_str());
    shared.server.has_bot(&own, false).await;
    shared.server.routes(&own, ledger::Discriminator::Any, of).await;
    own
}

async fn links_on(shared: &Shared, on: &BotRef, user: &str, to: &TestAgent) {
    let codes = shared.server.identity.gate.link_codes();
    let code = codes.mint(&to.instance, None).await.unwrap().unwrap();
    let chat = format!("dm-{user}").as_str().into();
    let linked = codes.redeem(on, &user.into(), &chat, &code.code).await.unwrap();
    assert_eq!(linked, LinkResult::Linked(to.instance.clone()));
}

#[tokio::test]
async fn a_link_counts_on_the_bot_that_received_its_code_and_on_no_other() {
    let shared = Shared::open().await;
    let (heron, otter) = (&shared.heron, &shared.otter);
    let links = shared.server.identity.gate.links();
    shared.link("ann", heron).await;
    let own = own_bot(&shared, otter).await;
    for user in ["ann", "eve"] {
        links_on(&shared, &own, user, otter).await;
        assert!(links.set_dm_default(&otter.instance, &"pigeon".into(), &user.into()).await.unwrap());
    }
    assert_eq!(shared.gets(&direct("ann"), true).await, tenant(heron));
    assert_eq!(shared.gets(&group("ann", "c1"), true).await, tenant(heron));
    assert_eq!(shared.gets(&direct("eve"), true).await, "no_route");
    assert!(!shared.admits(otter, &group("ann", "c1")).await && !shared.admits(otter, &direct("eve")).await);
    assert!(!shared.claims(otter, "c1").await, "nobody linked to otter on this bot was seen there");
    // The direct chats have the same ids on both bots.
    for chat in ["dm-ann", "dm-eve"] {
        let may_reach = async |agent: &TestAgent, on: &BotRef| {
            shared.server.ledger.roster().may_reach(&agent.instance, on, &chat.into()).await.unwrap()
        };
        assert!(!may_reach(otter, &shared.on).await, "{chat}");
        assert!(may_reach(otter, &own).await, "{chat}");
    }
}

#[tokio::test]
async fn a_link_on_a_shared_bot_admits_nobody_to_the_bot_of_one_agent() {
    let shared = Shared::open().await;
    let own = own_bot(&shared, &shared.otter).await;
    let decide = async |user: &str| {
        let source = direct(user);
        let origin = EventOrigin { source: &source, path: None };
        let incoming = IncomingMessage {
            on: &own,
            shared: false,
            origin,
            addressed: true,
            several_people: false,
            from_bot: false,
            person: None,
        };
        shared.server.identity.gate.decide(incoming).await.unwrap()
    };
    shared.link("ann", &shared.otter).await;
    assert!(matches!(decide("ann").await, GateDecision::Stranger(_)));
    links_on(&shared, &own, "ann", &shared.otter).await;
    assert!(matches!(decide("ann").await, GateDecision::Admitted(_)));
}

#[tokio::test]
async fn nobody_keeps_a_person_from_linking_on_one_bot_by_what_they_send_to_another() {
    let shared = Shared::open().await;
    let own = own_bot(&shared, &shared.otter).await;
    let codes = shared.server.identity.gate.link_codes();
    for _ in 0..5 {
        let wrong = codes.redeem(&own, &"ann".into(), &"dm-ann".into(), "AAAAAAAA").await.unwrap();
        assert_eq!(wrong, LinkResult::Wrong);
    }
    let last = codes.redeem(&own, &"ann".into(), &"dm-ann".into(), "AAAAAAAA").await.unwrap();
    assert_eq!(last, LinkResult::TryLater);
    shared.link("ann", &shared.heron).await;

    // As many agents as one person can have.
    for number in 0..ledger::AGENTS_OF_AN_AUTHOR {
        let agent = shared.server.enrol("umbrella", &format!("otter-{number}"), &[]).await;
        let own = own_bot(&shared, &agent).await;
        links_on(&shared, &own, "bob", &agent).await;
    }
    shared.server.winds(seconds(1));
    shared.link("bob", &shared.heron).await;
    assert_eq!(shared.gets(&direct("bob"), true).await, tenant(&shared.heron));
}
