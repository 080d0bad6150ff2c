//! The gate: who may write to an agent.

use std::sync::Arc;

use identity::{Approach, Bearings, Gate, GateDecision, Principal};
use ledger::{BotRef, Decision, Discriminator, Invitation, Subject};
use posthouse_wire::{InstanceId, Source, TenantId};

use crate::fixtures::{TestServer, bot, direct_chat};

fn approach<'a>(on: &'a BotRef, source: &'a Source) -> Approach<'a> {
    let bearings = Bearings { source, path: None };
    Approach { on, shared: false, bearings, addressed: true, person: None }
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
    let GateDecision::Stranger(stranger) = gate.decide(approach(&on, &source)).await.unwrap() else {
        panic!("a closed bot admits nobody whom it does not know");
    };
    let code = gate.access().pair(stranger.clone()).await.unwrap().unwrap();
    assert!(!code.admits_whole_chat());
    assert!(gate.access().pair(stranger).await.unwrap().is_none(), "a code is made once");
    gate.access().decide_by_code(&on, code.code(), Decision::Allowed).await.unwrap().unwrap();
    let GateDecision::Admitted(admitted) = gate.decide(approach(&on, &source)).await.unwrap() else {
        panic!("the operator has admitted them");
    };
    assert_eq!((&admitted.to().instance, admitted.on()), (&heron.instance, &on));
    gate.access().decide(&on, &Subject::User("u1".into()), Decision::Denied).await.unwrap();
    assert_eq!(gate.decide(approach(&on, &source)).await.unwrap(), GateDecision::Ignored("denied"));
}

#[tokio::test]
async fn in_a_group_only_what_is_addressed_to_the_bot_is_for_the_agent() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    server.routes(&shared, Discriminator::Chat("g1".into()), &heron).await;
    let source = Source { chat_type: "group".to_owned(), ..direct_chat(&shared, "g1") };
    let approach = Approach { shared: true, ..approach(&shared, &source) };
    let gate = &server.identity.gate;
    let unaddressed = Approach { addressed: false, ..approach };
    assert_eq!(gate.decide(unaddressed).await.unwrap(), GateDecision::Ignored("not_addressed"));
    // The route names the chat, which admits everybody in it.
    assert!(matches!(gate.decide(approach).await.unwrap(), GateDecision::Admitted(_)));
}

#[tokio::test]
async fn a_shared_bot_offers_no_pairing_code_where_no_route_leads() {
    let server = TestServer::open().await;
    let shared = bot("slack", "shared");
    server.has_bot(&shared, true).await;
    let source = direct_chat(&shared, "c1");
    let approach = Approach { shared: true, ..approach(&shared, &source) };
    assert_eq!(server.identity.gate.decide(approach).await.unwrap(), GateDecision::Ignored("no_route"));
}

#[tokio::test]
async fn a_person_reaches_the_agents_of_their_invitation_and_no_other() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    let crow = server.enrol("rival", "crow", &[]).await;
    let on = bot("telegram", "7001");
    let source = direct_chat(&on, "c1");
    let decide = async |person: &Principal| {
        let approach = Approach { person: Some(person), ..approach(&on, &source) };
        server.identity.gate.decide(approach).await.unwrap()
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
