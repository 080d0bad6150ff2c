//! The gate: who may write to an agent.

use std::sync::Arc;

use identity::{EventOrigin, Gate, GateDecision, IncomingMessage, Principal};
use ledger::{BotRef, Decision, Discriminator, Invitation, RelevancePolicy, RouteTo, Subject};
use posthouse_wire::{InstanceId, Platform, Source, TenantId};

use crate::fixtures::{TestServer, bot, direct_chat};

fn incoming<'a>(on: &'a BotRef, source: &'a Source) -> IncomingMessage<'a> {
    let origin = EventOrigin { source, path: None };
    IncomingMessage {
        on,
        shared: false,
        origin,
        addressed: true,
        several_people: false,
        from_bot: false,
        person: None,
    }
}

fn invitation(tenant: &TenantId, agents: Option<Vec<InstanceId>>) -> Principal {
    Principal::Person(Arc::new(Invitation {
        id: "inv_1".into(),
        tenant: tenant.clone(),
        agents,
        person: "ann".to_owned(),
        owner: false,
        created: posthouse_time::Moment::from_millis(0),
    }))
}

#[tokio::test]
async fn a_stranger_reaches_nobody_until_the_operator_admits_them() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (on, gate) = (bot("telegram", "7001"), &server.identity.gate);
    let source = direct_chat(&on, "c1");
    let GateDecision::Stranger(stranger) = gate.decide(incoming(&on, &source)).await.unwrap() else {
        panic!("a closed bot admits nobody whom it does not know");
    };
    let code = gate.access().pair(stranger.clone()).await.unwrap().unwrap();
    assert!(!code.admits_whole_chat());
    assert!(gate.access().pair(stranger).await.unwrap().is_none(), "a code is made once");
    gate.access().decide_by_code(&on, code.code(), Decision::Allowed).await.unwrap().unwrap();
    let GateDecision::Admitted(admitted) = gate.decide(incoming(&on, &source)).await.unwrap() else {
        panic!("the operator has admitted them");
    };
    assert_eq!((&admitted.to().instance, admitted.on()), (&heron.instance, &on));
    gate.access().decide(&on, &Subject::User("u1".into()), Decision::Denied).await.unwrap();
    assert_eq!(gate.decide(incoming(&on, &source)).await.unwrap(), GateDecision::Ignored("denied"));
}

#[tokio::test]
async fn in_a_group_only_what_is_addressed_to_the_bot_is_for_the_agent() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    server.routes(&shared, Discriminator::Chat("g1".into()), &heron).await;
    let source = Source { chat_type: "group".to_owned(), ..direct_chat(&shared, "g1") };
    let incoming = IncomingMessage { shared: true, ..incoming(&shared, &source) };
    let gate = &server.identity.gate;
    let unaddressed = IncomingMessage { addressed: false, ..incoming };
    let agent = RouteTo { tenant: heron.tenant.clone(), instance: heron.instance.clone() };
    assert_eq!(gate.decide(unaddressed).await.unwrap(), GateDecision::NotAddressed(agent));
    // The route names the chat, which admits everybody in it.
    assert!(matches!(gate.decide(incoming).await.unwrap(), GateDecision::Admitted(_)));
}

fn policy(require_address: bool, free_scopes: &[&str]) -> RelevancePolicy {
    let free_scopes = free_scopes.iter().map(|scope| (*scope).to_owned()).collect();
    RelevancePolicy { require_address, free_scopes, allow_other_bots: false }
}

#[tokio::test]
async fn an_agent_gets_unaddressed_messages_of_groups_only_as_it_declared() {
    let server = TestServer::open().await;
    let (heron, crow) = (server.heron().await, server.enrol("rival", "crow", &[]).await);
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    for (chat, agent) in [("g1", &heron), ("g2", &heron), ("g3", &crow)] {
        server.routes(&shared, Discriminator::Chat(chat.into()), agent).await;
    }
    let gate = &server.identity.gate;
    let wanted = async || {
        let mut wanted = Vec::new();
        for chat in ["g1", "g2", "g3"] {
            let source = Source { chat_type: "group".to_owned(), ..direct_chat(&shared, chat) };
            let unaddressed =
                IncomingMessage { shared: true, addressed: false, ..incoming(&shared, &source) };
            if matches!(gate.decide(unaddressed).await.unwrap(), GateDecision::Admitted(_)) {
                wanted.push(chat);
            }
        }
        wanted
    };
    let on = shared.platform.clone();
    assert!(wanted().await.is_empty(), "without a policy a message must be addressed");
    let declare = async |on: &Platform, policy| {
        gate.relevance().declare(&heron.instance, on, policy).await.unwrap();
    };
    declare(&on, policy(true, &["g2"])).await;
    assert_eq!(wanted().await, ["g2"], "the change counts at once, and for its own agent only");
    declare(&on, policy(false, &[])).await;
    assert_eq!(wanted().await, ["g1", "g2"]);
    declare(&"telegram".into(), policy(true, &[])).await;
    assert_eq!(wanted().await, ["g1", "g2"], "the policy of another platform is another one");
    gate.relevance().clear(&heron.instance).await.unwrap();
    assert!(wanted().await.is_empty());
}

#[tokio::test]
async fn nobody_is_offered_a_pairing_code_for_a_message_that_was_not_for_the_bot() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let (on, gate) = (bot("telegram", "7001"), &server.identity.gate);
    gate.relevance().declare(&heron.instance, &on.platform, policy(false, &[])).await.unwrap();
    let source = Source { chat_type: "group".to_owned(), ..direct_chat(&on, "g1") };
    let addressed = incoming(&on, &source);
    let unaddressed = IncomingMessage { addressed: false, ..addressed };
    assert_eq!(gate.decide(unaddressed).await.unwrap(), GateDecision::Ignored("not_addressed"));
    assert!(matches!(gate.decide(addressed).await.unwrap(), GateDecision::Stranger(_)));
    gate.access().decide(&on, &Subject::Chat("g1".into()), Decision::Allowed).await.unwrap();
    assert!(matches!(gate.decide(unaddressed).await.unwrap(), GateDecision::Admitted(_)));
}

#[tokio::test]
async fn an_agent_has_policies_for_a_bounded_number_of_platforms() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let relevance = server.identity.gate.relevance();
    let declare = async |number: u32| {
        let on = Platform::from(format!("platform-{number}"));
        relevance.declare(&heron.instance, &on, policy(false, &[])).await.unwrap()
    };
    for number in 0..ledger::PLATFORMS_OF_AN_AGENT {
        assert!(declare(number).await);
    }
    assert!(!declare(ledger::PLATFORMS_OF_AN_AGENT).await);
    assert!(declare(0).await, "one that is there is replaced");
}

#[tokio::test]
async fn a_shared_bot_offers_no_pairing_code_where_no_route_leads() {
    let server = TestServer::open().await;
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    let source = direct_chat(&shared, "c1");
    let incoming = IncomingMessage { shared: true, ..incoming(&shared, &source) };
    assert_eq!(server.identity.gate.decide(incoming).await.unwrap(), GateDecision::Ignored("no_route"));
}

#[tokio::test]
async fn a_person_reaches_the_agents_of_their_invitation_and_no_other() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[]).await;
    let on = bot("telegram", "7001");
    let source = direct_chat(&on, "c1");
    let decide = async |person: &Principal| {
        let incoming = IncomingMessage { person: Some(person), ..incoming(&on, &source) };
        server.identity.gate.decide(incoming).await.unwrap()
    };
    for (person, covered) in [
        (invitation(&heron.tenant, None), true),
        (invitation(&heron.tenant, Some(vec![heron.instance.clone()])), true),
        (invitation(&heron.tenant, Some(vec![crow.instance.clone()])), false),
        (invitation(&crow.tenant, None), false),
        (Principal::Operator, false),
    ] {
        let admitted = matches!(decide(&person).await, GateDecision::Admitted(_));
        assert_eq!(admitted, covered, "{person:?}");
    }
}

#[tokio::test]
async fn a_program_reaches_the_agents_of_its_own_tenant_only() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[]).await;
    let agent = heron.record().await;
    let post = || bot("post", "post");
    assert!(Gate::admit_program(&heron.tenant, &agent, post()).is_some());
    assert!(Gate::admit_program(&crow.tenant, &agent, post()).is_none());
}
