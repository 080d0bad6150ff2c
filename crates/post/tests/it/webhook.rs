//! Tests of the webhook connector.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use errand::{Errand, Lookup, LookupResult, SystemLookup};
use post::connector::settings::{self, Tools};
use post::connector::{AgentConnector, AskOutcome, ConnectorReply, ExpectedReply};
use posthouse_wire::delivery::{Cause, PayloadKind, WakeOpts, WakeTime};
use serde_json::{Value, json};

use crate::bench::{Bench, NOW, context, emission, fails, fault, payload};
use crate::receiver::Receiver;

struct WebhookFixture {
    bench: Bench,
    receiver: Receiver,
    webhook: Arc<dyn AgentConnector>,
}

impl WebhookFixture {
    /// `desk` can be woken, `mute` cannot.
    async fn open() -> Self {
        Self::open_with(json!({})).await
    }

    async fn open_with(more: Value) -> Self {
        let bench = Bench::open().await;
        bench.seal(Some("Bearer t-1"), Some("topsecret")).await;
        let receiver = Receiver::open().await;
        let base = &receiver.base;
        let mut settings = json!({"agents": {
            "desk": {"url": format!("{base}/in/desk?key=hidden"), "wake_url": format!("{base}/wake/desk?key=hidden")},
            "mute": {"url": format!("{base}/in/mute")},
            "me@home": {"url": format!("{base}/in/home"), "wake_url": format!("{base}/wake/home")},
        }});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let webhook = bench.connector("webhook", settings);
        Self { bench, receiver, webhook }
    }
}

fn question(reply_to: Option<&str>) -> ExpectedReply {
    let timeout = Duration::from_secs(10);
    ExpectedReply { correlation_id: "c-1".into(), timeout, reply_to: reply_to.map(str::to_owned) }
}

#[tokio::test]
async fn the_session_and_the_warnings_of_an_answer_are_in_the_receipt() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    receiver.says(200, r#"{"session_id":"s-1","warnings":["slow lane"]}"#);
    let receipt = webhook.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await.unwrap();
    assert_eq!(receipt.session_id.as_deref(), Some("s-1"));
    assert_eq!((receipt.warnings, receipt.delivered_at), (vec!["slow lane".to_owned()], NOW));
}

#[tokio::test]
async fn a_redirect_is_an_answer_and_is_not_followed() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    for status in [301, 302, 304, 307, 308] {
        receiver.redirects(status, "/elsewhere");
        let failed = fault(webhook.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await);
        assert_eq!((failed.cause_kind, failed.http_status), (Cause::HttpStatus, Some(status)));
        assert_eq!(receiver.one().path, "/in/desk?key=hidden");
    }
}

#[tokio::test]
async fn no_failure_tells_the_query_of_an_address_or_a_secret() {
    let WebhookFixture { receiver, webhook, bench } =
        WebhookFixture::open_with(json!({"timeout_ms": 100})).await;
    receiver.says(500, "the key hidden is wrong");
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    let mut messages = vec![fault(webhook.deliver("desk", &outgoing).await).message];
    messages.push(fault(webhook.wake("desk", &context("hello"), &emission("d-1")).await).message);
    receiver.stalls();
    messages.push(fault(webhook.deliver("desk", &outgoing).await).message);
    let nobody = json!({"agents": {"desk": {"url": "http://127.0.0.1:1/in?key=hidden"}}});
    messages.push(fault(bench.connector("webhook", nobody).deliver("desk", &outgoing).await).message);
    for message in messages {
        assert!(message.contains("http://127.0.0.1:"), "{message}");
        assert!(!message.contains("hidden") && !message.contains("t-1"), "{message}");
    }
}

#[tokio::test]
async fn each_way_of_hearing_nothing_has_its_name() {
    let WebhookFixture { receiver, webhook, mut bench } =
        WebhookFixture::open_with(json!({"timeout_ms": 100})).await;
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    receiver.stalls();
    fails(webhook.deliver("desk", &outgoing).await, Cause::Timeout);
    let nobody = json!({"agents": {"desk": {"url": "http://127.0.0.1:1/in"}}});
    fails(bench.connector("webhook", nobody).deliver("desk", &outgoing).await, Cause::Network);
    // The name looks public until it is resolved.
    let config = errand::Config { allow_http: true, ..errand::Config::default() };
    bench.errand = Errand::with_lookup(config, Arc::new(Inside));
    let inside = json!({"agents": {"desk": {"url": "http://a.example/in"}}});
    fails(bench.connector("webhook", inside).deliver("desk", &outgoing).await, Cause::ClientValidation);
}

struct Inside;

impl Lookup for Inside {
    fn lookup(&self, _host: &str) -> LookupResult {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

#[tokio::test]
async fn the_webhooks_of_one_tenant_share_its_lookups() {
    let (mut bench, receiver) = (Bench::open().await, Receiver::open().await);
    let (begun, open) = (Arc::new(AtomicUsize::new(0)), Arc::new((Mutex::new(false), Condvar::new())));
    let (counted, gate) = (Arc::clone(&begun), Arc::clone(&open));
    bench.errand = Errand::with_lookup(
        errand::Config::loopback(),
        Arc::new(SystemLookup::with(move |host| {
            if host.starts_with("hang") {
                counted.fetch_add(1, Ordering::SeqCst);
                drop(gate.1.wait_while(gate.0.lock().unwrap(), |open| !*open).unwrap());
            }
            Ok(vec![Ipv4Addr::LOCALHOST.into()])
        })),
    );
    let port = receiver.base.rsplit_once(':').unwrap().1;
    let webhook = |tenant: &str, id: usize, host: &str| {
        let settings = json!({"agents": {"desk": {"url": format!("http://{host}.example:{port}/in")}}});
        let tools = Tools { tenant: tenant.into(), id: format!("con_{id}").into(), ..bench.tools() };
        settings::build("webhook", &settings, tools).unwrap_or_else(|bad| panic!("{bad}"))
    };
    for id in 0..12 {
        let webhook = webhook("ten_1", id, &format!("hang{id}"));
        tokio::spawn(async move {
            if id % 2 == 0 {
                drop(webhook.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await);
            } else {
                webhook.health_check().await;
            }
        });
    }
    while begun.load(Ordering::SeqCst) < 4 {
        tokio::task::yield_now().await;
    }
    let other = webhook("ten_2", 12, "quick");
    other.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await.unwrap();
    assert_eq!(begun.load(Ordering::SeqCst), 4);
    *open.0.lock().unwrap() = true;
    open.1.notify_all();
}

#[tokio::test]
async fn an_endless_answer_to_a_delivery_is_still_a_delivery() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    receiver.says(200, format!(r#"{{"delivery_id":"d","pad":"{}"}}"#, "x".repeat(1 << 20)));
    let receipt = webhook.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await.unwrap();
    assert_eq!((receipt.delivered_at, receipt.delivery_id), (NOW, None));
}

#[tokio::test]
async fn the_headers_of_standard_webhooks_come_only_where_they_are_asked_for() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    webhook.deliver("desk", &outgoing).await.unwrap();
    assert!(receiver.one().header("webhook-id").is_none());
    let WebhookFixture { receiver, webhook, .. } =
        WebhookFixture::open_with(json!({"standard_webhooks": true})).await;
    webhook.deliver("desk", &outgoing).await.unwrap();
    let seen = receiver.one();
    assert_eq!(seen.header("webhook-id"), Some("d-1"));
    assert_eq!(seen.header("webhook-timestamp"), Some((NOW / 1000).to_string().as_str()));
    assert!(seen.header("webhook-signature").unwrap().starts_with("v1,"));
    assert!(seen.header("x-signature").is_some());
}

#[tokio::test]
async fn without_secrets_nothing_is_stamped() {
    let bench = Bench::open().await;
    let receiver = Receiver::open().await;
    let webhook = bench.connector("webhook", json!({"desk": {"url": format!("{}/in", receiver.base)}}));
    webhook.deliver("desk", &payload(PayloadKind::Augment, "d-1", "hello")).await.unwrap();
    let seen = receiver.one();
    assert_eq!((seen.header("authorization"), seen.header("x-signature")), (None, None));
}

#[tokio::test]
async fn live_interrupt_channel_webhook_with_wake_url_wakes() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    let opts = WakeOpts {
        context: Some("come".to_owned()),
        when: WakeTime::At(NOW - 1),
        session_id: Some("attic".to_owned()),
    };
    let woken = webhook.wake("desk@kitchen", &opts, &emission("d-1")).await.unwrap();
    assert!(woken.woken);
    assert_eq!((woken.woken_at, woken.session_id.as_deref()), (NOW, Some("attic")));
    let seen = receiver.one();
    assert_eq!(seen.path, "/wake/desk?key=hidden");
    let body = format!(
        r#"{{"agent_id":"desk","session_id":"attic","context":"come","when":{},"dispatch_id":"d-1","sent_at":{}}}"#,
        NOW - 1,
        NOW - 5
    );
    assert_eq!(String::from_utf8(seen.body.clone()).unwrap(), body);
    assert_eq!(seen.header("content-type"), Some("application/json"));
    assert_eq!(seen.header("authorization"), Some("Bearer t-1"));
    assert!(seen.header("x-signature").is_some());
    // A name that holds the sign itself is that agent, without a session.
    webhook.wake("me@home", &context(""), &emission("d-2")).await.unwrap();
    let body = receiver.one().json();
    assert_eq!(body["agent_id"], "me@home");
    assert!(body.get("session_id").is_none() && body.get("context").is_none() && body.get("when").is_none());
}

#[tokio::test]
async fn no_interrupt_channel_webhook_without_wake_url_delivers_and_is_not_woken() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    receiver.says(200, r#"{"warnings":["slow lane"]}"#);
    let woken = webhook.wake("mute@attic", &context("come"), &emission("d-1")).await.unwrap();
    assert!(!woken.woken && !woken.nothing_sent);
    assert_eq!((woken.session_id.as_deref(), woken.warnings.len()), (Some("attic"), 2));
    let seen = receiver.one();
    assert_eq!(seen.path, "/in/mute");
    assert!(seen.header("x-signature").is_some());
    let body = seen.json();
    assert_eq!((&body["agent_id"], &body["kind"]), (&json!("mute"), &json!("augment")));
    assert_eq!(body["content"], "come");
    assert_eq!((&body["meta"]["dispatch_id"], &body["meta"]["sent_at"]), (&json!("d-1"), &json!(NOW - 5)));
    assert_eq!(body["meta"]["session_id"], "attic");
    // An empty context is left out.
    let woken = webhook.wake("mute", &context(""), &emission("d-2")).await.unwrap();
    assert!(!woken.woken && woken.nothing_sent && receiver.seen().is_empty());
    assert!(woken.nothing_sent && woken.warnings.is_empty(), "{woken:?}");
}

#[tokio::test]
async fn channel_exists_agent_offline_webhook_that_says_so_is_not_woken() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    receiver.says(202, r#"{"woken":false,"warnings":["asleep until nine"]}"#);
    let woken = webhook.wake("desk", &context("come"), &emission("d-1")).await.unwrap();
    assert!(!woken.woken);
    assert_eq!(woken.warnings, ["asleep until nine"]);
}

#[tokio::test]
async fn unknown_agent_webhook_fails_before_anything_is_sent() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    let outgoing = payload(PayloadKind::Augment, "d-1", "hello");
    let message = fails(
        webhook.wake("nobody@attic", &context("come"), &emission("d-1")).await,
        Cause::ClientValidation,
    );
    assert_eq!(message, "Agent 'nobody@attic' is not configured. Wired agents: desk, me@home, mute.");
    fails(webhook.deliver("nobody", &outgoing).await, Cause::ClientValidation);
    fails(webhook.request_response("nobody", &outgoing, &question(None)).await, Cause::ClientValidation);
    assert!(receiver.seen().is_empty());
}

#[tokio::test]
async fn network_or_auth_fault_webhook_fails_and_wakes_nobody() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    for (agent, status) in [("desk", 401), ("mute", 403), ("desk", 503), ("mute", 500)] {
        receiver.says(status, "");
        let failed = fault(webhook.wake(agent, &context("come"), &emission("d-1")).await);
        assert_eq!((failed.cause_kind, failed.http_status), (Cause::HttpStatus, Some(status)));
        assert_eq!(failed.agent_id, agent);
    }
    let WebhookFixture { receiver, webhook, .. } =
        WebhookFixture::open_with(json!({"timeout_ms": 100})).await;
    receiver.stalls();
    fails(webhook.wake("desk", &context("come"), &emission("d-1")).await, Cause::Timeout);
}

#[tokio::test]
async fn a_webhook_is_healthy_when_every_status_address_says_so() {
    let bench = Bench::open().await;
    let (one, two) = (Receiver::open().await, Receiver::open().await);
    let agent = |base: &str| json!({"url": format!("{base}/in"), "status_url": format!("{base}/health")});
    let settings = json!({"agents": {
        "a": agent(&one.base), "b": agent(&one.base), "c": agent(&two.base), "d": {"url": "http://127.0.0.1:1/in"},
    }});
    let webhook = bench.connector("webhook", settings);
    assert!(webhook.health_check().await);
    // A shared URL is checked once, without credentials.
    let asked = one.one();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("GET", "/health"));
    assert!(asked.header("authorization").is_none());
    two.says(302, "");
    assert!(!webhook.health_check().await);
}

#[tokio::test]
async fn without_a_status_address_any_answer_shows_that_somebody_is_there() {
    let WebhookFixture { receiver, webhook, bench } = WebhookFixture::open().await;
    for status in [200, 302, 404, 405, 500] {
        receiver.says(status, "");
        assert!(webhook.health_check().await);
    }
    assert!(receiver.seen().iter().all(|seen| seen.method == "HEAD" && seen.path.starts_with("/in/")));
    let nobody = bench.connector("webhook", json!({"agents": {"desk": {"url": "http://127.0.0.1:1/in"}}}));
    assert!(!nobody.health_check().await);
}

#[tokio::test]
async fn a_question_says_where_its_answer_goes_and_may_be_answered_on_the_spot() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    receiver.says(200, r#"{"delivery_id":"d","reply":{"content":"42","correlation_id":"c-1","sent_at":9}}"#);
    let asked = payload(PayloadKind::Augment, "d-1", "how many?");
    let reply_to = "https://post.example/v1/replies/t";
    let replied = webhook.request_response("desk", &asked, &question(Some(reply_to))).await.unwrap();
    let AskOutcome::Answer(receipt, answer) = replied else { panic!("{replied:?}") };
    assert_eq!(receipt.delivery_id.as_deref(), Some("d"));
    assert_eq!(answer, ConnectorReply { content: "42".to_owned(), sent_at: Some(9) });
    let seen = receiver.one();
    let body = String::from_utf8(seen.body.clone()).unwrap();
    let plain = String::from_utf8(asked.addressed("desk").json()).unwrap();
    let expected = format!(r#"{},"reply_to":"{reply_to}"}}"#, plain.strip_suffix('}').unwrap());
    assert_eq!(body, expected);
    assert!(seen.header("x-signature").is_some());
}

#[tokio::test]
async fn an_answer_without_a_reply_means_that_it_comes_later() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    for (status, body) in [(202, ""), (200, "accepted"), (200, r#"{"id":"7"}"#), (200, r#"{"reply":null}"#)] {
        receiver.says(status, body);
        let asked = payload(PayloadKind::Augment, "d-1", "how many?");
        let replied = webhook.request_response("desk", &asked, &question(None)).await.unwrap();
        assert!(matches!(replied, AskOutcome::Awaited(_)), "{status} {body}: {replied:?}");
    }
}

#[tokio::test]
async fn a_reply_that_is_none_fails_the_question() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open().await;
    let reply = |reply: Value| json!({"reply": reply}).to_string();
    for body in [
        reply(json!("42")),
        reply(json!({"content": 42})),
        reply(json!({"content": "42", "correlation_id": "c-2"})),
        reply(json!({"content": "x".repeat(256 * 1024 + 1)})),
        reply(json!({"content": "x".repeat(3 << 20)})),
    ] {
        receiver.says(200, body);
        let asked = payload(PayloadKind::Augment, "d-1", "how many?");
        let replied = webhook.request_response("desk", &asked, &question(None)).await;
        fails(replied, Cause::MalformedResponse);
    }
    // The longest answer, written in the longest form.
    let escaped = "\u{1}".repeat(256 * 1024);
    receiver.says(200, reply(json!({"content": escaped})));
    let asked = payload(PayloadKind::Augment, "d-1", "how many?");
    let replied = webhook.request_response("desk", &asked, &question(None)).await.unwrap();
    assert!(matches!(replied, AskOutcome::Answer(_, answer) if answer.content == escaped));
}

#[tokio::test]
async fn a_question_may_wait_longer_than_a_delivery() {
    let WebhookFixture { receiver, webhook, .. } = WebhookFixture::open_with(json!({"timeout_ms": 50})).await;
    receiver.stalls();
    let asked = payload(PayloadKind::Augment, "d-1", "how many?");
    let question = ExpectedReply { timeout: Duration::from_secs(600), ..question(None) };
    let asking = webhook.request_response("desk", &asked, &question);
    // A delivery to the same receiver gives up meanwhile; the question does not.
    let delivering = async {
        fails(webhook.deliver("desk", &asked).await, Cause::Timeout);
        fails(webhook.deliver("desk", &asked).await, Cause::Timeout);
    };
    tokio::select! {
        biased;
        replied = asking => panic!("{replied:?}"),
        () = delivering => {}
    }
    let asked = post::connector::ExpectedReply { timeout: Duration::from_millis(50), ..question };
    let outgoing = payload(PayloadKind::Augment, "d-2", "how many?");
    fails(webhook.request_response("desk", &outgoing, &asked).await, Cause::Timeout);
}
