//! Feishu with the real binary: webhooks and the long connection, two bots that never meet, follow-ups, and what stays
//! secret.

use posthouse_agent::RelayTransport;
use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use posthouse_wire::{Action, Outcome};
use serde_json::{Value, json};
use stand_ins::feishu::{FeishuApp, FeishuStandIn, Settings};
use stand_ins::harness::RowFilter;

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{TestServer, files};

const BOT: &str = "cli_a1";
const ON: &str = "feishu:cli_a1";
const APPS: [&str; 2] = ["cli_a1", "cli_b2"];
const SECRET: &str = "CANARY-app-secret";
const ENCRYPT_KEY: &str = "CANARY-encrypt-key";
const TOKEN: &str = "CANARY-verification";
/// The session of u77 in their direct chat with the first bot.
const DIRECT: &str = "oc_p2p_a1_u77";
const IN_DIRECT: &str = "agent:main:feishu:dm:oc_p2p_a1_u77";
const FEISHU_URL: &str = "POSTHOUSE_PLATFORMS__FEISHU__API_BASE_URL";

async fn feishu() -> FeishuStandIn {
    provide_crypto();
    let apps =
        APPS.map(|app| format!("{app}:{SECRET}:{ENCRYPT_KEY}:{TOKEN}@posty").parse::<FeishuApp>().unwrap());
    FeishuStandIn::start(Settings { apps: apps.to_vec(), ..Settings::default() }).await.unwrap()
}

/// A bot that gets its events by webhook.
async fn make_webhook_bot(server: &TestServer, stand_in: &FeishuStandIn, app: &str) -> Value {
    let secret = server.secret_file("feishu-secret", SECRET);
    let key = server.secret_file("feishu-key", ENCRYPT_KEY);
    let token = server.secret_file("feishu-token", TOKEN);
    let id = format!("app_id={app}");
    let words = ["bot", "create", "feishu", "--open", "--set", &id, "--app-secret-file", &secret];
    let made = server
        .does(&[&words[..], &["--encrypt-key-file", &key, "--verification-token-file", &token]].concat());
    assert_eq!((&made["id"], &made["delivery"]), (&json!(app), &json!("webhook")));
    let door = format!("{}/door/feishu/{app}", server.url);
    assert!(made["setup_steps"].to_string().contains(&door), "{made}");
    stand_in.set_url(app, Some(&door));
    let verified = RowFilter { account: Some(app.to_owned()), ..RowFilter::kind("url_verified") };
    stand_in.wait(&verified, 1, PATIENCE).await.expect("the challenge");
    made
}

async fn make_socket_bot(server: &TestServer, stand_in: &FeishuStandIn) -> Value {
    let secret = server.secret_file("feishu-secret", SECRET);
    let id = format!("app_id={BOT}");
    let made =
        server.does(&["bot", "create", "feishu", "--open", "--set", &id, "--app-secret-file", &secret]);
    assert_eq!(made["delivery"], "socket");
    assert!(stand_in.until(PATIENCE, |stand_in| stand_in.sockets(BOT) == 1).await, "no connection");
    made
}

fn inject(stand_in: &FeishuStandIn, what: Value) -> Value {
    stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
}

fn follow_up(session_key: &str, content: &str) -> Action {
    Action::FollowUp {
        session_key: session_key.into(),
        kind: "feishu.card_token".into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

fn prompt() -> Action {
    Action::Prompt {
        chat_id: DIRECT.into(),
        prompt_kind: PromptKind::Choice,
        prompt_id: "p1".into(),
        content: "Go?".to_owned(),
        options: vec![PromptOption { id: "yes".into(), label: "Yes".to_owned(), style: None }],
        reply_to: None,
        metadata: Metadata::default(),
    }
}

/// u77 writes, is asked something, and presses the button. Returns the token of the press.
async fn talks_and_presses(feishu: &FeishuStandIn, rider: &mut Rider) -> String {
    let said = inject(feishu, json!({"do": "message", "text": "hello", "user_name": "Ana"}));
    assert_eq!(said["chat"], DIRECT);
    let heard = rider.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.user_name.as_deref()), ("hello", Some("Ana")));
    let asked = rider.asks("feishu", BOT, prompt()).await;
    assert!(asked.success, "{asked:?}");
    let message = asked.message_id.unwrap().to_string();
    let pressed = inject(feishu, json!({"do": "press", "message": message, "value": "yes"}));
    assert_eq!(rider.hears().await.event.text, "/yes");
    pressed["token"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_event_is_answered_and_a_press_is_followed_up_by_its_card_token() {
    let feishu = feishu().await;
    let server = TestServer::open(&[(FEISHU_URL, &feishu.base_url())]);
    server.does(&["tenant", "create", "acme"]);
    make_webhook_bot(&server, &feishu, BOT).await;
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", ON]);
    let mut rider = Rider::dial(&server, &heron, &[("feishu", BOT)]).await;
    talks_and_presses(&feishu, &mut rider).await;
    let answer = rider.sends("feishu", BOT, DIRECT, "**noon**").await;
    assert!(answer.success, "{answer:?}");
    let row = feishu.transcript(&RowFilter::sent(DIRECT)).pop().unwrap();
    assert_eq!(row.text.as_deref(), Some("**noon**"));

    let followed = rider.asks("feishu", BOT, follow_up(IN_DIRECT, "done")).await;
    assert!(followed.success, "{followed:?}");
    let row = feishu.transcript(&RowFilter::kind("followed_up")).pop().unwrap();
    assert_eq!(row.text.as_deref(), Some("done"));
    // Feishu ends the token after half an hour.
    feishu.advance(std::time::Duration::from_secs(1801));
    let ended = rider.asks("feishu", BOT, follow_up(IN_DIRECT, "too late")).await;
    assert_eq!(ended.error, Outcome::no_capability().error);
    assert_eq!(feishu.transcript(&RowFilter::kind("followed_up")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_over_the_long_connection_reach_the_agent_and_its_files_come_by_handle() {
    let feishu = feishu().await;
    let server = TestServer::open(&[(FEISHU_URL, &feishu.base_url())]);
    server.does(&["tenant", "create", "acme"]);
    make_socket_bot(&server, &feishu).await;
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", ON]);
    let mut rider = Rider::dial(&server, &heron, &[("feishu", BOT)]).await;
    let file = json!({"name": "a.txt", "mime": "text/plain", "base64": "aGVsbG8="});
    inject(&feishu, json!({"do": "message", "file": file}));
    let heard = rider.hears().await.event;
    assert_eq!(heard.media_urls.len(), 1);
    assert!(heard.media_urls[0].starts_with(&server.url), "{:?}", heard.media_urls);
    feishu.wait(&RowFilter::kind("acknowledged"), 1, PATIENCE).await.unwrap();
    assert!(feishu.transcript(&RowFilter::kind("unreadable")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn two_bots_of_two_tenants_never_meet() {
    let feishu = feishu().await;
    let server = TestServer::open(&[(FEISHU_URL, &feishu.base_url())]);
    let mut riders = Vec::new();
    for (tenant, agent, app) in [("acme", "heron", APPS[0]), ("umbrella", "otter", APPS[1])] {
        server.does(&["tenant", "create", tenant]);
        make_webhook_bot(&server, &feishu, app).await;
        let made =
            server.does(&["agent", "create", agent, "--tenant", tenant, "--bot", &format!("feishu:{app}")]);
        riders.push(Rider::dial(&server, &made, &[("feishu", app)]).await);
    }
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    talks_and_presses(&feishu, heron).await;
    inject(&feishu, json!({"do": "message", "text": "for otter", "app": APPS[1]}));
    assert_eq!(otter.hears().await.event.text, "for otter", "and nothing before it");

    // Neither speaks as the other's bot or in its chats, nor answers the press of the other's button.
    let foreign = otter.sends("feishu", BOT, DIRECT, "psst").await;
    assert!(!foreign.success);
    let elsewhere = otter.sends("feishu", APPS[1], DIRECT, "psst").await;
    assert!(!elsewhere.success);
    assert_eq!(
        otter.sends("feishu", APPS[1], "oc_404", "psst").await,
        elsewhere,
        "a chat of nobody looks the same"
    );
    let foreign = otter.asks("feishu", APPS[1], follow_up(IN_DIRECT, "psst")).await;
    assert_eq!(foreign.error, Outcome::no_capability().error);
    assert!(feishu.transcript(&RowFilter::kind("sent").saying("psst")).is_empty());
    assert!(feishu.transcript(&RowFilter::kind("followed_up")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_of_feishu_is_in_any_frame_log_trace_or_file() {
    let feishu = feishu().await;
    let mut server = TestServer::open(&[(FEISHU_URL, &feishu.base_url()), ("POSTHOUSE_LOG__LEVEL", "trace")]);
    server.does(&["tenant", "create", "acme"]);
    let mut answers = vec![make_socket_bot(&server, &feishu).await.to_string()];
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", ON]);
    let mut rider = Rider::dial(&server, &heron, &[("feishu", BOT)]).await;
    let captured = talks_and_presses(&feishu, &mut rider).await;
    inject(&feishu, json!({"do": "message", "text": "again"}));
    let heard = rider.hears().await;
    answers.push(format!("{:?} {}", heard.event, serde_json::to_string(&heard.event).unwrap()));
    answers.push(format!("{:?}", rider.asks("feishu", BOT, follow_up(IN_DIRECT, "yes")).await));
    answers.push(format!("{:?}", rider.sends("feishu", BOT, "oc_404", "nobody").await));
    let entry = heard.entry.unwrap().to_string();
    for words in [vec!["message", "trace", &entry], vec!["bot", "show", ON], vec!["bot", "list"]] {
        answers.push(format!("{:?}", server.tries(&words)));
    }
    rider.transport.disconnect().await;
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("feishu"), "the log was meant to be talkative");
    // The address of the long connection has a ticket.
    for canary in ["CANARY", "ticket-", captured.as_str()] {
        assert!(!log.contains(canary), "in the log: {:?}", log.lines().find(|line| line.contains(canary)));
        for answer in &answers {
            assert!(!answer.contains(canary), "{canary} in an answer: {answer}");
        }
        for (path, bytes) in files(&server.folder()) {
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "{canary} in {}", path.display());
        }
    }
}
