//! WhatsApp with the real binary: a conversation, two numbers of one app, and what stays secret.

use posthouse_agent::RelayTransport;
use posthouse_wire::Action;
use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use serde_json::{Value, json};
use stand_ins::harness::RowFilter;
use stand_ins::whatsapp::{Settings, WhatsAppStandIn};

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{TestServer, files};

const TOKEN: &str = "CANARY-whatsapp-token";
const APP_SECRET: &str = "CANARY-whatsapp-app-secret";
const ANA: &str = "15550177";

/// The stand-in with two numbers of one app, each with a token of its own.
async fn whatsapp() -> WhatsAppStandIn {
    provide_crypto();
    let number = |id: &str| format!("{id}:{TOKEN}-{id}:{APP_SECRET}:unused").parse().unwrap();
    let numbers = vec![number("106"), number("107")];
    WhatsAppStandIn::start(Settings { numbers, ..Settings::default() }).await.unwrap()
}

fn open(stand_in: &WhatsAppStandIn) -> TestServer {
    TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__WHATSAPP_CLOUD__API_BASE_URL", &stand_in.base_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ])
}

fn rows(kind: &str) -> RowFilter {
    serde_json::from_value(json!({ "kind": kind })).unwrap()
}

/// A bot whose webhook is set. The server sets it by itself.
async fn make_whatsapp_bot(server: &TestServer, stand_in: &WhatsAppStandIn, number: &str) -> Value {
    let token = server.secret_file("whatsapp-token", &format!("{TOKEN}-{number}"));
    let secret = server.secret_file("whatsapp-secret", APP_SECRET);
    let before = stand_in.transcript(&rows("webhook_verified")).len();
    let id = format!("phone_number_id={number}");
    let words = ["bot", "create", "whatsapp_cloud", "--open", "--token-file", &token];
    let made = server.does(&[&words[..], &["--app-secret-file", &secret, "--set", &id]].concat());
    assert_eq!((&made["delivery"], &made["id"]), (&json!("webhook"), &json!(number)));
    let verified = stand_in.wait(&rows("webhook_verified"), before + 1, PATIENCE).await;
    assert!(verified.is_ok(), "the webhook was not verified");
    made
}

fn says(stand_in: &WhatsAppStandIn, what: Value) -> Value {
    stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
}

fn sent(stand_in: &WhatsAppStandIn, chat: &str) -> Vec<String> {
    let filter = serde_json::from_value(json!({ "chat": chat, "kind": "sent" })).unwrap();
    stand_in.transcript(&filter).into_iter().filter_map(|row| row.text).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_on_whatsapp_talks_with_an_agent_with_and_without_a_number() {
    let whatsapp = whatsapp().await;
    let server = open(&whatsapp);
    server.does(&["tenant", "create", "acme"]);
    make_whatsapp_bot(&server, &whatsapp, "106").await;
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "whatsapp_cloud:106"]);
    let mut rider = Rider::dial(&server, &heron, &[("whatsapp_cloud", "106")]).await;
    says(&whatsapp, json!({ "do": "message", "text": "olá 🎈" }));
    let heard = rider.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.chat_id.unwrap().as_str()), ("olá 🎈", ANA));
    assert!(rider.sends("whatsapp_cloud", "106", ANA, "**olá**").await.success);
    assert_eq!(sent(&whatsapp, ANA), ["*olá*"]);
    // The number is hidden now, and the conversation goes on.
    says(&whatsapp, json!({ "do": "message", "text": "psst", "from": { "number": null } }));
    assert_eq!(rider.hears().await.event.source.chat_id.unwrap().as_str(), ANA);
    says(
        &whatsapp,
        json!({ "do": "media", "kind": "image", "mime_type": "image/png", "base64": "aGk=",
        "caption": "look" }),
    );
    let heard = rider.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.media_urls.len()), ("look", 1));
    let file = reqwest::get(&heard.media_urls[0]).await.unwrap();
    assert_eq!(file.bytes().await.unwrap(), &b"hi"[..]);
    let option = |id: &str, label: &str| PromptOption { id: id.into(), label: label.to_owned(), style: None };
    let prompt = Action::Prompt {
        chat_id: ANA.into(),
        prompt_kind: PromptKind::Choice,
        prompt_id: "p1".into(),
        content: "Which?".to_owned(),
        options: vec![option("a", "This"), option("b", "That")],
        reply_to: None,
        metadata: Metadata::default(),
    };
    let asked = rider.asks("whatsapp_cloud", "106", prompt).await;
    let pressed = json!({ "do": "press", "message_id": asked.message_id.unwrap(), "id": "hp1:p1:b" });
    says(&whatsapp, pressed.clone());
    assert_eq!(rider.hears().await.event.prompt_response.unwrap().option_id, "b");
    // A second press of the same prompt reaches nobody, and neither does a payload that was never shown.
    says(&whatsapp, pressed);
    says(&whatsapp, json!({ "do": "message", "text": "after it" }));
    assert_eq!(rider.hears().await.event.text, "after it");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_numbers_of_one_app_never_meet() {
    let whatsapp = whatsapp().await;
    let server = open(&whatsapp);
    let mut riders = Vec::new();
    for (tenant, agent, number) in [("acme", "heron", "106"), ("umbrella", "otter", "107")] {
        server.does(&["tenant", "create", tenant]);
        make_whatsapp_bot(&server, &whatsapp, number).await;
        let bot = format!("whatsapp_cloud:{number}");
        let made = server.does(&["agent", "create", agent, "--tenant", tenant, "--bot", &bot]);
        riders.push(Rider::dial(&server, &made, &[("whatsapp_cloud", number)]).await);
    }
    // The app's signature is valid at both doors. A message to the other number is not this bot's all the same.
    let door = format!("{}/door/whatsapp_cloud/107", server.url);
    let body = json!({ "object": "whatsapp_business_account", "entry": [{ "id": "1", "changes": [{ "field": "messages",
        "value": { "metadata": { "phone_number_id": "106" }, "messages": [
            { "id": "wamid.stray", "from": ANA, "type": "text", "text": { "body": "stray" } }] } }] }] });
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, APP_SECRET.as_bytes());
    let body = body.to_string();
    let tag = aws_lc_rs::hmac::sign(&key, body.as_bytes());
    let digits: Vec<String> = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = format!("sha256={}", digits.concat());
    let client = reqwest::Client::new();
    let stray = client.post(door).header("x-hub-signature-256", signature).body(body).send().await.unwrap();
    assert_eq!(stray.status().as_u16(), 200);
    says(&whatsapp, json!({ "do": "message", "text": "for heron", "number": "106" }));
    says(&whatsapp, json!({ "do": "message", "text": "for otter", "number": "107" }));
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    assert_eq!(heron.hears().await.event.text, "for heron");
    assert_eq!(otter.hears().await.event.text, "for otter", "and nothing before it");
    assert!(!otter.sends("whatsapp_cloud", "106", ANA, "psst").await.success);
    assert!(otter.sends("whatsapp_cloud", "107", ANA, "from otter").await.success);
    assert_eq!(sent(&whatsapp, ANA), ["from otter"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_whatsapp_is_in_any_frame_log_trace_or_file() {
    let whatsapp = whatsapp().await;
    let mut server = open(&whatsapp);
    server.does(&["tenant", "create", "acme"]);
    let mut answers = vec![make_whatsapp_bot(&server, &whatsapp, "106").await.to_string()];
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "whatsapp_cloud:106"]);
    let mut rider = Rider::dial(&server, &heron, &[("whatsapp_cloud", "106")]).await;
    says(
        &whatsapp,
        json!({ "do": "media", "kind": "document", "mime_type": "text/plain", "base64": "aGk=" }),
    );
    let heard = rider.hears().await;
    answers.push(format!("{:?}", heard.event));
    answers.push(format!("{:?}", rider.sends("whatsapp_cloud", "106", "999999999", "nobody").await));
    let entry = heard.entry.unwrap().to_string();
    for words in [&["message", "trace", &entry][..], &["bot", "show", "whatsapp_cloud:106"], &["bot", "list"]]
    {
        answers.push(format!("{:?}", server.tries(words)));
    }
    rider.transport.disconnect().await;
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("whatsapp"), "the log was meant to be talkative");
    // The stand-in's download URLs contain these words.
    for canary in ["CANARY", "hash=secret", "media-content"] {
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
