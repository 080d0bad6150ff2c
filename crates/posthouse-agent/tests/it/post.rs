//! Client for programs: each message is delivered once, whatever server and connection do.

mod exchange;
mod house;

use posthouse_agent::post::{
    Client, Credential, ExchangeState, Fault, Handed, Listing, Notify, ReceiptState, ReplyKind, Route, Wake,
};
use posthouse_agent::wire::delivery::{AgentStatus, DeliveryReceipt, Payload, WakeOpts, When};
use posthouse_agent::wire::{DispatchId, Secret};
use serde_json::{Value, json};

use crate::house::{seconds, soon};
use house::FakeHouse;

#[tokio::test]
async fn post_a_notify_says_what_every_connector_made_of_it() {
    let house = FakeHouse::open().await;
    let wish = Notify { event_type: Some("deploy".into()), ..Notify::new("heron", "it is through") };
    let notified = soon(house.client().notify(&wish)).await.unwrap();
    assert_eq!((notified.agent.as_str(), &notified.dispatch_id), ("heron", &wish.dispatch_id));
    let [well, ill] = &notified.dispatched[..] else { panic!("{notified:?}") };
    let receipt = DeliveryReceipt {
        delivered_at: 7,
        delivery_id: Some("ent_1".into()),
        delivery_skipped: true,
        ..DeliveryReceipt::default()
    };
    assert_eq!((well.ok, well.route), (true, Route::Deliver));
    assert_eq!(well.receipt, Some(Handed::Delivered(receipt)));
    assert_eq!((ill.ok, ill.error_kind.as_deref()), (false, Some("network")));
    let expected =
        json!({ "agent": "heron", "message": "it is through", "kind": "augment", "event_type": "deploy" });
    assert_eq!(house.body("POST /v1/notify"), expected);
}

#[tokio::test]
async fn post_a_notify_whose_answer_was_lost_is_repeated_under_its_key_and_told_once() {
    let house = FakeHouse::open().await;
    house.told(|heard| heard.dies_with_the_answer = true);
    let (client, wish) = (house.client(), Notify::new("heron", "once"));
    let notifying = tokio::spawn({
        let wish = wish.clone();
        async move { client.notify(&wish).await }
    });
    house.until(|heard| heard.missed >= 2).await;
    house.returns();
    let notified = house.while_time_passes(notifying).await.unwrap().unwrap();
    assert_eq!(notified.dispatch_id, wish.dispatch_id);
    assert_eq!(house.count("POST /v1/notify"), 2);
    let told = house.heard.borrow().told.clone();
    assert_eq!(told.keys().collect::<Vec<_>>(), [wish.dispatch_id.as_str()]);
}

#[tokio::test]
async fn post_a_house_that_stays_away_is_unreachable_after_the_clients_patience() {
    let house = FakeHouse::open().await;
    house.dies();
    let hasty = house.client().patience(seconds(0));
    let fault = soon(hasty.notify(&Notify::new("heron", "now"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable(_)), "{fault:?}");
    assert_eq!(house.heard.borrow().missed, 1);
    let patient = house.client().patience(seconds(20));
    let fault = house.while_time_passes(patient.agents(None, None)).await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable(_)), "{fault:?}");
    assert!(house.heard.borrow().missed > 3);
}

#[tokio::test]
async fn post_a_refusal_is_told_at_once_and_a_page_from_in_front_of_the_house_is_not_one() {
    let house = FakeHouse::open().await;
    let refused = |status| Fault::Refused {
        status,
        code: "correlation_in_use".into(),
        detail: "another question has it".into(),
        cause_kind: None,
    };
    let problem = r#"{"code":"correlation_in_use","detail":"another question has it"}"#;
    house.told(|heard| heard.answers = Some((409, problem)));
    let wish = Notify::new("heron", "hi");
    assert_eq!(soon(house.client().notify(&wish)).await, Err(refused(409)));
    assert_eq!(house.count("POST /v1/notify"), 1);
    house.told(|heard| heard.answers = Some((503, r#"{"code":"unavailable"}"#)));
    let client = house.client();
    let notifying = tokio::spawn(async move { client.notify(&wish).await });
    house.until(|heard| heard.calls.len() >= 3).await;
    house.told(|heard| heard.answers = Some((502, "<html>nobody home</html>")));
    let calls = house.heard.borrow().calls.len();
    house.until(|heard| heard.calls.len() > calls + 1).await;
    house.told(|heard| heard.answers = None);
    house.while_time_passes(notifying).await.unwrap().unwrap();
    house.told(|heard| heard.answers = Some((200, "<html>welcome</html>")));
    let fault = soon(house.client().agents(None, None)).await.unwrap_err();
    assert!(matches!(fault, Fault::Malformed(_)), "{fault:?}");
}

#[tokio::test]
async fn post_one_token_serves_until_shortly_before_its_end_and_is_renewed_once_when_refused() {
    let house = FakeHouse::open().await;
    let client = house.client();
    for _ in 0..3 {
        soon(client.agents(None, None)).await.unwrap();
    }
    assert_eq!(house.heard.borrow().tokens, 1);
    house.clock.wind(seconds(800));
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!(house.heard.borrow().tokens, 2);
    house.told(|heard| heard.spent = 2);
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!(house.heard.borrow().tokens, 3);
    house.told(|heard| heard.spent = 99);
    let fault = soon(client.agents(None, None)).await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Refused { status: 401, code, .. } if code == "unauthorized"),
        "{fault:?}"
    );
    assert_eq!(house.heard.borrow().tokens, 4);
}

#[tokio::test]
async fn post_a_credential_that_is_not_known_is_refused_and_never_shown() {
    let house = FakeHouse::open().await;
    let canary = "hunter2-canary";
    let secret = Secret::new(canary);
    let wrong = Credential::Client { id: "tenant:acme".into(), secret: secret.clone() };
    for (credential, code) in [(wrong, "invalid_client"), (Credential::Token(secret), "unauthorized")] {
        let client = Client::with_timepiece(&house.url, credential, house.clock.clone());
        let fault = soon(client.agent("heron")).await.unwrap_err();
        let Fault::Refused { status: 401, code: said, .. } = &fault else { panic!("{fault:?}") };
        assert_eq!(said, code);
        assert!(!format!("{fault:?} {fault}").contains(canary));
    }
    assert_eq!(house.heard.borrow().tokens, 0);
}

#[tokio::test]
async fn post_a_wake_says_whether_the_agent_was_woken() {
    let house = FakeHouse::open().await;
    let opts = WakeOpts { context: Some("the door".into()), when: When::Immediate, session_id: None };
    let wish = Wake { opts, wait: Some(seconds(5)), ..Wake::new("heron@desk") };
    let woken = soon(house.client().wake(&wish)).await.unwrap();
    assert!(woken.receipt.woken);
    assert_eq!((woken.receipt.session_id.as_deref(), woken.dispatch_id), (Some("desk"), wish.dispatch_id));
    assert!(matches!(&woken.dispatched[0].receipt, Some(Handed::Woken(receipt)) if receipt.woken));
    let expected = json!({ "agent": "heron@desk", "context": "the door", "wait": 5.0 });
    assert_eq!(house.body("POST /v1/wake"), expected);
}

#[tokio::test]
async fn post_an_envelope_is_handed_over_as_the_runtime_made_it() {
    let house = FakeHouse::open().await;
    let envelope = json!({
        "kind": "template", "prompt": "do it",
        "meta": {
            "dispatch_id": "d-1", "sent_at": 5, "later": true,
            "origin": { "skill_name": "probe", "trigger_kind": "cron" },
        },
    });
    let payload: Payload = serde_json::from_value(envelope.clone()).unwrap();
    let delivered = soon(house.client().deliver("heron", &payload, &["relay".to_owned()])).await.unwrap();
    assert_eq!((delivered.dispatch_id.as_str(), delivered.receipt.delivered_at), ("d-1", 7));
    assert_eq!(delivered.receipt.warnings, ["late"]);
    let mut expected = envelope;
    expected["agent_id"] = "heron".into();
    expected["connectors"] = json!(["relay"]);
    assert_eq!(house.body("POST /v1/deliver"), expected);
    soon(house.client().deliver("heron", &payload, &[])).await.unwrap();
    assert_eq!(house.body("POST /v1/deliver").get("connectors"), None::<&Value>);
}

#[tokio::test]
async fn post_receipts_come_in_pages_and_one_dispatch_by_its_id() {
    let house = FakeHouse::open().await;
    let client = house.client();
    let agent = Some("heron".to_owned());
    let mut listing = Listing { agent, state: Some(ReceiptState::Acknowledged), ..Listing::default() };
    let first = soon(client.receipts(&listing)).await.unwrap();
    assert_eq!(house.count("GET /v1/receipts?agent=heron&state=acknowledged"), 1);
    listing = Listing { after: first.next, limit: Some(1), ..Listing::default() };
    let second = soon(client.receipts(&listing)).await.unwrap();
    assert_eq!(house.count("GET /v1/receipts?after=2%3Ad2&limit=1"), 1);
    assert_eq!((first.items[0].dispatch_id.as_str(), second.items[0].dispatch_id.as_str()), ("d2", "d1"));
    assert_eq!(second.next, None);

    let told = soon(client.receipt(&DispatchId::new("d-7"))).await.unwrap();
    assert_eq!((told[0].state, told[0].acknowledged_at), (ReceiptState::Acknowledged, Some(8)));
    assert_eq!((told[0].queue_lag_ms, told[0].attempts), (Some(2), 0));
    assert_eq!((told[0].replies[0].kind, told[0].replies[0].text.as_str()), (ReplyKind::Said, "on it"));
    let fault = soon(client.receipt(&DispatchId::new("unheard-of"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Refused { status: 404, .. }), "{fault:?}");
}

#[tokio::test]
async fn post_agents_come_in_pages_and_one_with_its_status() {
    let house = FakeHouse::open().await;
    let client = house.client();
    let page = soon(client.agents(Some("egret"), Some(10))).await.unwrap();
    assert_eq!(house.count("GET /v1/agents?after=egret&limit=10"), 1);
    assert_eq!(page.items[0].connectors, ["relay", "hook"]);
    assert_eq!(page.next.as_deref(), Some("heron"));
    let heron = soon(client.agent("heron")).await.unwrap();
    assert_eq!((heron.agent.agent_id.as_str(), heron.status), ("heron", Some(AgentStatus::Asleep)));
}

#[tokio::test]
async fn post_a_name_stays_a_name_and_what_cannot_be_one_is_not_called() {
    let house = FakeHouse::open().await;
    let client = house.client();
    for name in ["../receipts", "a b?c#d", "ünï", "50%2f"] {
        assert_eq!(soon(client.agent(name)).await.unwrap().agent.agent_id, name);
    }
    for name in ["", ".", ".."] {
        assert!(matches!(soon(client.agent(name)).await, Err(Fault::Unusable(_))), "{name}");
    }
    let wish = Notify { dispatch_id: DispatchId::new("two\nlines"), ..Notify::new("heron", "hi") };
    assert!(matches!(soon(client.notify(&wish)).await, Err(Fault::Unusable(_))));
    let nowhere = Client::new("no address", Credential::Token(Secret::new("t1")));
    assert!(matches!(soon(nowhere.agent("heron")).await, Err(Fault::Unusable(_))));
    assert_eq!(house.heard.borrow().calls.len(), 4);
}

#[tokio::test]
async fn post_a_house_may_stand_under_a_path_of_its_own() {
    let house = FakeHouse::open().await;
    let secret = Secret::new(house::CLIENT_SECRET);
    let credential = Credential::Client { id: "tenant:acme".into(), secret };
    let client = Client::new(&format!("{}/under/a/path/", house.url), credential);
    soon(client.agent("heron")).await.unwrap();
}

#[tokio::test]
async fn post_questions_come_in_pages_with_how_each_stands() {
    let house = FakeHouse::open().await;
    let page = soon(house.client().exchanges(Some("q4"), Some(3))).await.unwrap();
    assert_eq!(house.count("GET /v1/exchanges?after=q4&limit=3"), 1);
    let states: Vec<_> = page.items.iter().map(|asked| asked.state).collect();
    assert_eq!(states, [ExchangeState::Failed, ExchangeState::TimedOut, ExchangeState::Other]);
    let failed = &page.items[0];
    assert_eq!((failed.correlation_id.as_str(), failed.dispatch_id.as_str()), ("q3", "d-q3"));
    assert_eq!((failed.ended_at, failed.error_kind.as_deref()), (Some(6), Some("network")));
    assert_eq!((page.items[1].ended_at, page.next.as_deref()), (None, Some("q1")));
}
