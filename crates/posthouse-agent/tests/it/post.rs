//! Client for programs: each message is delivered once, whatever server and connection do.

mod exchange;
mod fake_server;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use posthouse_agent::post::{
    ApiCredential, Client, ConnectorReceipt, DispatchReceipt, DispatchRoute, Fault, FetchedToken, ListPage,
    NoToken, Notify, NotifyResponse, QuestionRecord, QuestionState, ReceiptQuery, ReceiptState, ReplyKind,
    TokenSource, Wake, WakeResponse,
};
use posthouse_agent::wire::delivery::{AgentStatus, DeliveryReceipt, Payload, WakeOpts, WakeTime};
use posthouse_agent::wire::{DispatchId, Secret};
use serde_json::{Value, json};

use crate::test_server::{seconds, soon};
use fake_server::FakeServer;

#[tokio::test]
async fn post_a_notify_says_what_every_connector_made_of_it() {
    let server = FakeServer::open().await;
    let request = Notify { event_type: Some("deploy".into()), ..Notify::new("heron", "it is through") };
    let notified = soon(server.client().notify(&request)).await.unwrap();
    assert_eq!((notified.agent.as_str(), &notified.dispatch_id), ("heron", &request.dispatch_id));
    let [well, ill] = &notified.dispatched[..] else { panic!("{notified:?}") };
    let receipt = DeliveryReceipt {
        delivered_at: 7,
        delivery_id: Some("ent_1".into()),
        delivery_skipped: true,
        ..DeliveryReceipt::default()
    };
    assert_eq!((well.ok, well.route), (true, DispatchRoute::Deliver));
    assert_eq!(well.receipt, Some(ConnectorReceipt::Delivered(receipt)));
    assert_eq!((ill.ok, ill.error_kind.as_deref()), (false, Some("network")));
    let expected =
        json!({ "agent": "heron", "message": "it is through", "kind": "augment", "event_type": "deploy" });
    assert_eq!(server.body("POST /v1/notify"), expected);
}

#[tokio::test]
async fn post_a_notify_whose_answer_was_lost_is_repeated_under_its_key_and_told_once() {
    let server = FakeServer::open().await;
    server.set(|recorded| recorded.dies_with_the_answer = true);
    let (client, request) = (server.client(), Notify::new("heron", "once"));
    let notifying = tokio::spawn({
        let request = request.clone();
        async move { client.notify(&request).await }
    });
    server.until(|recorded| recorded.missed >= 2).await;
    server.returns();
    let notified = server.while_time_passes(notifying).await.unwrap().unwrap();
    assert_eq!(notified.dispatch_id, request.dispatch_id);
    assert_eq!(server.count("POST /v1/notify"), 2);
    let messages = server.recorded.borrow().messages.clone();
    assert_eq!(messages.keys().collect::<Vec<_>>(), [request.dispatch_id.as_str()]);
}

#[tokio::test]
async fn post_a_server_that_stays_away_is_unreachable_after_the_clients_patience() {
    let server = FakeServer::open().await;
    server.dies();
    let hasty = server.client().patience(seconds(0));
    let fault = soon(hasty.notify(&Notify::new("heron", "now"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable { sent: false, .. }), "{fault:?}");
    assert_eq!(server.recorded.borrow().missed, 1);
    let patient = server.client().patience(seconds(20));
    let fault = server.while_time_passes(patient.agents(None, None)).await.unwrap_err();
    assert!(matches!(fault, Fault::Unreachable { .. }), "{fault:?}");
    assert!(server.recorded.borrow().missed > 3);
}

#[tokio::test]
async fn post_a_call_that_a_proxy_answered_before_nothing_did_may_have_arrived() {
    let server = FakeServer::open().await;
    let client = server.client().patience(seconds(20));
    soon(client.authenticate()).await.unwrap();
    server.set(|recorded| {
        (recorded.answers, recorded.hangs_up) = (Some((502, "<html>nobody home</html>")), true)
    });
    let notifying = tokio::spawn(async move { client.notify(&Notify::new("heron", "hi")).await });
    server.hears(|recorded| recorded.calls.len() == 1).await;
    server.closes();
    let fault = server.while_time_passes(notifying).await.unwrap().unwrap_err();
    assert!(matches!(fault, Fault::Unreachable { sent: true, .. }), "{fault:?}");
}

#[tokio::test]
async fn post_a_refusal_is_told_at_once_and_a_page_from_in_front_of_the_server_is_not_one() {
    let server = FakeServer::open().await;
    let refused = |status| Fault::Refused {
        status,
        code: "correlation_in_use".into(),
        detail: "another question has it".into(),
        cause_kind: None,
        dispatch_id: None,
    };
    let problem = r#"{"code":"correlation_in_use","detail":"another question has it"}"#;
    server.set(|recorded| recorded.answers = Some((409, problem)));
    let request = Notify::new("heron", "hi");
    assert_eq!(soon(server.client().notify(&request)).await, Err(refused(409)));
    assert_eq!(server.count("POST /v1/notify"), 1);
    server.set(|recorded| recorded.answers = Some((503, r#"{"code":"unavailable"}"#)));
    let client = server.client();
    let notifying = tokio::spawn(async move { client.notify(&request).await });
    server.until(|recorded| recorded.calls.len() >= 3).await;
    server.set(|recorded| recorded.answers = Some((502, "<html>nobody home</html>")));
    let calls = server.recorded.borrow().calls.len();
    server.until(|recorded| recorded.calls.len() > calls + 1).await;
    server.set(|recorded| recorded.answers = None);
    server.while_time_passes(notifying).await.unwrap().unwrap();
    server.set(|recorded| recorded.answers = Some((200, "<html>welcome</html>")));
    let fault = soon(server.client().agents(None, None)).await.unwrap_err();
    assert!(matches!(fault, Fault::Malformed(_)), "{fault:?}");
}

#[tokio::test]
async fn post_one_token_serves_until_shortly_before_its_end_and_is_renewed_once_when_refused() {
    let server = FakeServer::open().await;
    let client = server.client();
    for _ in 0..3 {
        soon(client.agents(None, None)).await.unwrap();
    }
    assert_eq!(server.recorded.borrow().tokens, 1);
    server.clock.wind(seconds(800));
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!(server.recorded.borrow().tokens, 2);
    server.set(|recorded| recorded.spent = 2);
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!(server.recorded.borrow().tokens, 3);
    server.set(|recorded| recorded.spent = 99);
    let fault = soon(client.agents(None, None)).await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Refused { status: 401, code, .. } if code == "unauthorized"),
        "{fault:?}"
    );
    assert_eq!(server.recorded.borrow().tokens, 4);
}

/// A program whose tokens come from somewhere else.
struct Tokens(AtomicU32);

#[async_trait]
impl TokenSource for Tokens {
    async fn fetch(&self) -> Result<FetchedToken, NoToken> {
        match self.0.fetch_add(1, Ordering::SeqCst) {
            0 => Err(NoToken::Refused { status: 404, body: br#"{"code":"no_such_tenant"}"#.to_vec() }),
            1 => Err(NoToken::Unreachable("away".into())),
            number => Ok(FetchedToken { token: Secret::new(format!("t{number}")), lifetime: seconds(900) }),
        }
    }
}

#[tokio::test]
async fn post_a_source_of_tokens_is_asked_again_when_a_token_ends_or_is_refused() {
    let server = FakeServer::open().await;
    let tokens = Arc::new(Tokens(AtomicU32::new(0)));
    let credential = ApiCredential::Source(tokens.clone());
    let client = Client::with_timepiece(&server.url, credential, server.clock.clone());
    let fetched = || tokens.0.load(Ordering::SeqCst);
    let fault = soon(client.authenticate()).await.unwrap_err();
    assert!(matches!(&fault, Fault::Refused { code, .. } if code == "no_such_tenant"), "{fault:?}");
    // A source that cannot be reached is asked again after a pause.
    server.while_time_passes(client.authenticate()).await.unwrap();
    soon(client.authenticate()).await.unwrap();
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!(fetched(), 3);
    server.clock.wind(seconds(800));
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!(fetched(), 4);
    server.set(|recorded| recorded.spent = 3);
    soon(client.agents(None, None)).await.unwrap();
    assert_eq!((fetched(), server.recorded.borrow().tokens), (5, 0));
}

/// A source of tokens with a short lifetime.
struct BriefTokens(AtomicU32);

#[async_trait]
impl TokenSource for BriefTokens {
    async fn fetch(&self) -> Result<FetchedToken, NoToken> {
        let number = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        Ok(FetchedToken { token: Secret::new(format!("t{number}")), lifetime: seconds(100) })
    }
}

#[tokio::test]
async fn post_a_token_with_a_short_lifetime_serves_for_half_of_it() {
    let server = FakeServer::open().await;
    let tokens = Arc::new(BriefTokens(AtomicU32::new(0)));
    let credential = ApiCredential::Source(tokens.clone());
    let client = Client::with_timepiece(&server.url, credential, server.clock.clone());
    for (passed, fetched) in [(0, 1), (40, 1), (20, 2), (0, 2)] {
        server.clock.wind(seconds(passed));
        soon(client.agents(None, None)).await.unwrap();
        assert_eq!(tokens.0.load(Ordering::SeqCst), fetched, "after {passed} s");
    }
}

/// A source of tokens that never answers.
struct NoTokens;

#[async_trait]
impl TokenSource for NoTokens {
    async fn fetch(&self) -> Result<FetchedToken, NoToken> {
        std::future::pending().await
    }
}

#[tokio::test]
async fn post_a_source_of_tokens_that_never_answers_is_given_up() {
    let server = FakeServer::open().await;
    let credential = ApiCredential::Source(Arc::new(NoTokens));
    let client = Client::with_timepiece(&server.url, credential, server.clock.clone()).patience(seconds(0));
    let fault = server.while_time_passes(client.agents(None, None)).await.unwrap_err();
    assert_eq!(fault, Fault::Unreachable { why: "no answer in time".into(), sent: false });
}

#[test]
fn post_answers_are_written_as_they_were_read() {
    let receipt = json!({ "delivered_at": 7, "delivery_id": "ent_1" });
    let report = json!({ "connector": "relay", "ok": true, "route": "deliver", "receipt": receipt });
    let failed =
        json!({ "connector": "hook", "ok": false, "route": "wake", "error": "e", "error_kind": "network" });
    let notified = json!({ "agent": "heron", "dispatch_id": "d", "dispatched": [report, failed] });
    let read: NotifyResponse = serde_json::from_value(notified.clone()).unwrap();
    assert_eq!(json!(read), notified);
    let woken = json!({ "woken_at": 7, "woken": true, "dispatch_id": "d", "dispatched": [] });
    let read: WakeResponse = serde_json::from_value(woken.clone()).unwrap();
    assert_eq!(json!(read), woken);
    let reply = json!({ "at": 9, "kind": "said", "message_id": null, "text": "on it" });
    let stored = json!({
        "dispatch_id": "d", "connector": "relay", "agent_id": "heron", "route": "deliver", "state": "queued",
        "sent_at": 5, "accepted_at": 6, "receipt": null, "replies": [reply],
    });
    let page = json!({ "items": [stored], "next": "c" });
    let read: ListPage<DispatchReceipt> = serde_json::from_value(page.clone()).unwrap();
    assert_eq!(json!(read), page);
    let question = json!({
        "correlation_id": "q", "agent_id": "heron", "connector": "relay", "dispatch_id": "d", "state": "open",
        "opened_at": 5, "deadline": 9,
    });
    let page = json!({ "items": [question] });
    let read: ListPage<QuestionRecord> = serde_json::from_value(page.clone()).unwrap();
    assert_eq!(json!(read), page);
}

#[tokio::test]
async fn post_a_credential_that_is_not_known_is_refused_and_never_shown() {
    let server = FakeServer::open().await;
    let canary = "hunter2-canary";
    let secret = Secret::new(canary);
    let wrong = ApiCredential::Client { id: "tenant:acme".into(), secret: secret.clone() };
    for (credential, code) in [(wrong, "invalid_client"), (ApiCredential::Token(secret), "unauthorized")] {
        let client = Client::with_timepiece(&server.url, credential, server.clock.clone());
        let fault = soon(client.agent("heron")).await.unwrap_err();
        let Fault::Refused { status: 401, code: said, .. } = &fault else { panic!("{fault:?}") };
        assert_eq!(said, code);
        assert!(!format!("{fault:?} {fault}").contains(canary));
    }
    assert_eq!(server.recorded.borrow().tokens, 0);
}

#[tokio::test]
async fn post_a_wake_says_whether_the_agent_was_woken() {
    let server = FakeServer::open().await;
    let opts = WakeOpts { context: Some("the door".into()), when: WakeTime::Immediate, session_id: None };
    let request = Wake { opts, wait: Some(seconds(5)), ..Wake::new("heron@desk") };
    let woken = soon(server.client().wake(&request)).await.unwrap();
    assert!(woken.receipt.woken);
    assert_eq!((woken.receipt.session_id.as_deref(), woken.dispatch_id), (Some("desk"), request.dispatch_id));
    assert!(matches!(&woken.dispatched[0].receipt, Some(ConnectorReceipt::Woken(receipt)) if receipt.woken));
    let expected = json!({ "agent": "heron@desk", "context": "the door", "wait": 5.0 });
    assert_eq!(server.body("POST /v1/wake"), expected);
}

#[tokio::test]
async fn post_an_envelope_is_handed_over_as_the_runtime_made_it() {
    let server = FakeServer::open().await;
    let envelope = json!({
        "kind": "template", "prompt": "do it",
        "meta": {
            "dispatch_id": "d-1", "sent_at": 5, "later": true,
            "origin": { "skill_name": "probe", "trigger_kind": "cron" },
        },
    });
    let payload: Payload = serde_json::from_value(envelope.clone()).unwrap();
    let delivered = soon(server.client().deliver("heron", &payload, &["relay".to_owned()])).await.unwrap();
    assert_eq!((delivered.dispatch_id.as_str(), delivered.receipt.delivered_at), ("d-1", 7));
    assert_eq!(delivered.receipt.warnings, ["late"]);
    let mut expected = envelope;
    expected["agent_id"] = "heron".into();
    expected["connectors"] = json!(["relay"]);
    assert_eq!(server.body("POST /v1/deliver"), expected);
    soon(server.client().deliver("heron", &payload, &[])).await.unwrap();
    assert_eq!(server.body("POST /v1/deliver").get("connectors"), None::<&Value>);
}

#[tokio::test]
async fn post_receipts_come_in_pages_and_one_dispatch_by_its_id() {
    let server = FakeServer::open().await;
    let client = server.client();
    let agent = Some("heron".to_owned());
    let mut listing =
        ReceiptQuery { agent, state: Some(ReceiptState::Acknowledged), ..ReceiptQuery::default() };
    let first = soon(client.receipts(&listing)).await.unwrap();
    assert_eq!(server.count("GET /v1/receipts?agent=heron&state=acknowledged"), 1);
    listing = ReceiptQuery { after: first.next, limit: Some(1), ..ReceiptQuery::default() };
    let second = soon(client.receipts(&listing)).await.unwrap();
    assert_eq!(server.count("GET /v1/receipts?after=2%3Ad2&limit=1"), 1);
    assert_eq!((first.items[0].dispatch_id.as_str(), second.items[0].dispatch_id.as_str()), ("d2", "d1"));
    assert_eq!(second.next, None);

    let receipts = soon(client.receipt(&DispatchId::new("d-7"))).await.unwrap();
    assert_eq!((receipts[0].state, receipts[0].acknowledged_at), (ReceiptState::Acknowledged, Some(8)));
    assert_eq!((receipts[0].queue_lag_ms, receipts[0].attempts), (Some(2), 0));
    assert_eq!(
        (receipts[0].replies[0].kind, receipts[0].replies[0].text.as_str()),
        (ReplyKind::Said, "on it")
    );
    let fault = soon(client.receipt(&DispatchId::new("unheard-of"))).await.unwrap_err();
    assert!(matches!(fault, Fault::Refused { status: 404, .. }), "{fault:?}");
}

#[tokio::test]
async fn post_agents_come_in_pages_and_one_with_its_status() {
    let server = FakeServer::open().await;
    let client = server.client();
    let page = soon(client.agents(Some("egret"), Some(10))).await.unwrap();
    assert_eq!(server.count("GET /v1/agents?after=egret&limit=10"), 1);
    assert_eq!(page.items[0].connectors, ["relay", "hook"]);
    assert_eq!(page.next.as_deref(), Some("heron"));
    let heron = soon(client.agent("heron")).await.unwrap();
    assert_eq!((heron.agent.agent_id.as_str(), heron.status), ("heron", Some(AgentStatus::Asleep)));
}

#[tokio::test]
async fn post_a_name_stays_a_name_and_what_cannot_be_one_is_not_called() {
    let server = FakeServer::open().await;
    let client = server.client();
    for name in ["../receipts", "a b?c#d", "ünï", "50%2f"] {
        assert_eq!(soon(client.agent(name)).await.unwrap().agent.agent_id, name);
    }
    for name in ["", ".", ".."] {
        assert!(matches!(soon(client.agent(name)).await, Err(Fault::Unusable(_))), "{name}");
    }
    let request = Notify { dispatch_id: DispatchId::new("two\nlines"), ..Notify::new("heron", "hi") };
    assert!(matches!(soon(client.notify(&request)).await, Err(Fault::Unusable(_))));
    let nowhere = Client::new("no address", ApiCredential::Token(Secret::new("t1")));
    assert!(matches!(soon(nowhere.agent("heron")).await, Err(Fault::Unusable(_))));
    assert_eq!(server.recorded.borrow().calls.len(), 4);
}

#[tokio::test]
async fn post_a_server_may_stand_under_a_path_of_its_own() {
    let server = FakeServer::open().await;
    let secret = Secret::new(fake_server::CLIENT_SECRET);
    let credential = ApiCredential::Client { id: "tenant:acme".into(), secret };
    let client = Client::new(&format!("{}/under/a/path/", server.url), credential);
    soon(client.agent("heron")).await.unwrap();
}

#[tokio::test]
async fn post_questions_come_in_pages_with_how_each_stands() {
    let server = FakeServer::open().await;
    let page = soon(server.client().exchanges(Some("q4"), Some(3))).await.unwrap();
    assert_eq!(server.count("GET /v1/exchanges?after=q4&limit=3"), 1);
    let states: Vec<_> = page.items.iter().map(|asked| asked.state).collect();
    assert_eq!(states, [QuestionState::Failed, QuestionState::TimedOut, QuestionState::Other]);
    let failed = &page.items[0];
    assert_eq!((failed.correlation_id.as_str(), failed.dispatch_id.as_str()), ("q3", "d-q3"));
    assert_eq!((failed.ended_at, failed.error_kind.as_deref()), (Some(6), Some("network")));
    assert_eq!((page.items[1].ended_at, page.next.as_deref()), (None, Some("q1")));
}
