//! WeCom with the real binary: applications and AI bots, two tenants, follow-ups, and what stays secret.

use std::time::Duration;

use posthouse_agent::RelayTransport;
use posthouse_wire::Action;
use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use serde_json::{Value, json};
use stand_ins::harness::RowFilter;
use stand_ins::wecom::{Settings, WeComSocketOrder, WeComStandIn};

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{TestServer, files};

const SECRET: &str = "CANARY-wecom-secret";
const TOKEN: &str = "CANARY-wecom-token";
const AES_KEY: &str = "CANARYwecom89012345678901234567890123456789";
const CHAT: &str = "ww1:ana";

async fn wecom() -> WeComStandIn {
    provide_crypto();
    let app = |agent: u32| format!("ww1:{agent}:{SECRET}-{agent}:{TOKEN}:{AES_KEY}").parse().unwrap();
    let bot = |id: &str| format!("{id}:{SECRET}-{id}:{TOKEN}:{AES_KEY}").parse().unwrap();
    let settings = Settings {
        apps: vec![app(1_000_002), app(1_000_003)],
        bots: vec![bot("AIB1"), bot("AIB2")],
        ..Settings::default()
    };
    WeComStandIn::start(settings).await.unwrap()
}

fn open(stand_in: &WeComStandIn) -> TestServer {
    TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__WECOM__API_BASE_URL", &stand_in.base_url()),
        ("POSTHOUSE_PLATFORMS__WECOM__SOCKET_URL", &stand_in.socket_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ])
}

fn create(server: &TestServer, platform: &str, secret: Option<&str>, settings: &[&str]) -> Value {
    let token = server.secret_file("wecom-token", TOKEN);
    let key = server.secret_file("wecom-key", AES_KEY);
    let mut words = vec!["bot", "create", platform, "--open", "--token-file", &token];
    words.extend(["--encoding-aes-key-file", &key]);
    let file = secret.map(|secret| server.secret_file("wecom-secret", secret));
    if let Some(file) = &file {
        words.extend(["--api-secret-file", file]);
    }
    for setting in settings {
        words.extend(["--set", setting]);
    }
    server.does(&words)
}

/// An application whose callbacks are set, as its operator would do.
async fn make_app(server: &TestServer, stand_in: &WeComStandIn, agent: u32) -> String {
    let secret = format!("{SECRET}-{agent}");
    let agent_id = format!("agent_id={agent}");
    let made = create(server, "wecom_callback", Some(&secret), &["corp_id=ww1", &agent_id]);
    let id = format!("ww1-{agent}");
    assert_eq!((&made["id"], &made["delivery"]), (&json!(id), &json!("webhook")));
    set_callback(server, stand_in, "wecom_callback", &id).await;
    id
}

async fn set_callback(server: &TestServer, stand_in: &WeComStandIn, platform: &str, id: &str) {
    let verified = || stand_in.transcript(&RowFilter::kind("callback_verified")).len();
    let before = verified();
    stand_in.set_callback(id, &format!("{}/door/{platform}/{id}", server.url)).unwrap();
    assert!(stand_in.until(PATIENCE, |_| verified() > before).await, "the URL was not verified");
}

fn injects(stand_in: &WeComStandIn, account: &str, mut what: Value) -> Value {
    what["account"] = json!(account);
    stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
}

fn says(stand_in: &WeComStandIn, account: &str, text: &str) {
    injects(stand_in, account, json!({ "do": "message", "text": text }));
}

fn follow_up(session: &str, kind: &str) -> Action {
    Action::FollowUp {
        session_key: session.into(),
        kind: kind.into(),
        content: "later".to_owned(),
        metadata: Metadata::default(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_applications_of_two_tenants_talk_with_their_agents_and_never_meet() {
    let wecom = wecom().await;
    let server = open(&wecom);
    let mut riders = Vec::new();
    for (tenant, agent, app) in [("acme", "heron", 1_000_002), ("umbrella", "otter", 1_000_003)] {
        server.does(&["tenant", "create", tenant]);
        let id = make_app(&server, &wecom, app).await;
        let bot = format!("wecom_callback:{id}");
        let made = server.does(&["agent", "create", agent, "--tenant", tenant, "--bot", &bot]);
        riders.push(Rider::dial(&server, &made, &[("wecom_callback", &id)]).await);
    }
    says(&wecom, "ww1-1000002", "for heron 你好");
    says(&wecom, "ww1-1000003", "for otter");
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    let heard = heron.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.chat_id.unwrap().as_str()), ("for heron 你好", CHAT));
    assert_eq!(otter.hears().await.event.text, "for otter", "and nothing before it");
    assert!(!otter.sends("wecom_callback", "ww1-1000002", CHAT, "psst").await.success);
    assert!(otter.sends("wecom_callback", "ww1-1000003", CHAT, "**from otter**").await.success);
    let sent = wecom.transcript(&RowFilter::sent(CHAT));
    assert_eq!(
        sent.iter().map(|row| (&*row.account, row.text.as_deref())).collect::<Vec<_>>(),
        [("ww1-1000003", Some("from otter"))]
    );
    // A press brings a code, which only its own agent can use, and once.
    injects(&wecom, "ww1-1000002", json!({ "do": "press", "key": "yes" }));
    assert_eq!(heron.hears().await.event.text, "yes");
    let session = "agent:main:wecom_callback:dm:ww1:ana";
    let code = || follow_up(session, "wecom.response_code");
    assert!(!otter.asks("wecom_callback", "ww1-1000003", code()).await.success, "another tenant's");
    assert!(heron.asks("wecom_callback", "ww1-1000002", code()).await.success);
    assert!(!heron.asks("wecom_callback", "ww1-1000002", code()).await.success, "spent");
    assert_eq!(wecom.transcript(&RowFilter::kind("edited")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn ai_bots_talk_by_callback_and_over_the_long_connection() {
    let wecom = wecom().await;
    let server = open(&wecom);
    server.does(&["tenant", "create", "acme"]);
    let made = create(&server, "wecom", None, &["bot_id=AIB1"]);
    assert_eq!((&made["id"], &made["delivery"]), (&json!("AIB1"), &json!("webhook")));
    set_callback(&server, &wecom, "wecom", "AIB1").await;
    let made = create(&server, "wecom", Some(&format!("{SECRET}-AIB2")), &["bot_id=AIB2"]);
    assert_eq!(made["delivery"], "socket");
    // The check of the secret was a connection too.
    assert!(wecom.until(PATIENCE, |wecom| wecom.is_connected("AIB2")).await);
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "wecom:AIB1"]);
    let otter = server.does(&["agent", "create", "otter", "--tenant", "acme", "--bot", "wecom:AIB2"]);
    let mut heron = Rider::dial(&server, &heron, &[("wecom", "AIB1")]).await;
    let mut otter = Rider::dial(&server, &otter, &[("wecom", "AIB2")]).await;
    says(&wecom, "AIB1", "by callback");
    assert_eq!(heron.hears().await.event.text, "by callback");
    assert!(heron.sends("wecom", "AIB1", "ana", "in a stream").await.success);
    injects(&wecom, "AIB2", json!({ "do": "message", "text": "over the socket", "chat": "wrG1" }));
    let heard = otter.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.chat_type.as_str()), ("over the socket", "group"));
    assert!(otter.sends("wecom", "AIB2", "wrG1", "**at once**").await.success);
    let row = wecom.transcript(&RowFilter::sent("wrG1")).pop().unwrap();
    assert_eq!((&*row.call, row.text.as_deref()), ("aibot_send_msg", Some("**at once**")));
    // The URL of a message answers once, and only for its own agent.
    let url = || follow_up("agent:main:wecom:group:wrG1:ana", "wecom.response_url");
    assert!(!heron.asks("wecom", "AIB1", url()).await.success, "another agent's");
    assert!(otter.asks("wecom", "AIB2", url()).await.success);
    assert!(!otter.asks("wecom", "AIB2", url()).await.success, "spent");
    injects(&wecom, "AIB2", json!({ "do": "message", "text": "in private" }));
    assert_eq!(otter.hears().await.event.text, "in private");
    let option = |id: &str| PromptOption { id: id.into(), label: id.to_owned(), style: None };
    let prompt = Action::Prompt {
        chat_id: "ana".into(),
        prompt_kind: PromptKind::Choice,
        prompt_id: "p1".into(),
        content: "Which?".to_owned(),
        options: vec![option("a"), option("b")],
        reply_to: None,
        metadata: Metadata::default(),
    };
    let card = otter.asks("wecom", "AIB2", prompt).await.message_id.unwrap();
    injects(&wecom, "AIB2", json!({ "do": "press", "key": "hp1:p1:b", "card": card }));
    assert_eq!(otter.hears().await.event.prompt_response.unwrap().option_id, "b");
    // Another program connects as the bot. The operator sees it, and the server does not take the connection back.
    assert_eq!(wecom.order("AIB2", WeComSocketOrder::Displace), 1);
    let health = || server.does(&["bot", "show", "wecom:AIB2"])["health"].clone();
    let seen = async {
        while health() != "displaced" {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.expect("the operator is not told");
    assert!(!otter.sends("wecom", "AIB2", "wrG1", "too late").await.success);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_wecom_is_in_any_frame_log_trace_or_file() {
    let wecom = wecom().await;
    let mut server = open(&wecom);
    server.does(&["tenant", "create", "acme"]);
    let id = make_app(&server, &wecom, 1_000_002).await;
    create(&server, "wecom", Some(&format!("{SECRET}-AIB2")), &["bot_id=AIB2"]);
    assert!(wecom.until(PATIENCE, |wecom| wecom.is_connected("AIB2")).await);
    let app = format!("wecom_callback:{id}");
    let words = ["agent", "create", "heron", "--tenant", "acme", "--bot", &app, "--bot", "wecom:AIB2"];
    let heron = server.does(&words);
    let mut rider = Rider::dial(&server, &heron, &[("wecom_callback", &id), ("wecom", "AIB2")]).await;
    let mut answers = Vec::new();
    injects(&wecom, &id, json!({ "do": "image", "base64": "aGk=" }));
    let heard = rider.hears().await;
    answers.push(format!("{:?}", heard.event));
    let file = reqwest::get(&heard.event.media_urls[0]).await.unwrap();
    assert_eq!(file.bytes().await.unwrap(), &b"hi"[..]);
    injects(&wecom, "AIB2", json!({ "do": "image", "base64": "aGk=" }));
    let heard = rider.hears().await;
    answers.push(format!("{:?}", heard.event));
    let file = reqwest::get(&heard.event.media_urls[0]).await.unwrap();
    assert_eq!(file.bytes().await.unwrap(), &b"hi"[..]);
    answers.push(format!("{:?}", rider.sends("wecom_callback", &id, "ww1:nobody", "x").await));
    let entry = heard.entry.unwrap().to_string();
    for words in [&["message", "trace", &entry][..], &["bot", "show", &app], &["bot", "list"]] {
        answers.push(format!("{:?}", server.tries(words)));
    }
    rider.transport.disconnect().await;
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("wecom"), "the log was meant to be talkative");
    // The stand-in's access tokens and URLs contain these words.
    for canary in ["CANARY", "access-token-", "key=secret", "sign=secret", "response_code="] {
        assert!(!log.contains(canary), "in the log: {:?}", log.lines().find(|line| line.contains(canary)));
        for answer in &answers {
            assert!(!answer.contains(canary), "in an answer: {answer}");
        }
        for (path, bytes) in files(&server.folder()) {
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "in {}", path.display());
        }
    }
}
