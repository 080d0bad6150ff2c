//! Signed webhooks and Twilio with the real binary: from the sender to the agent and back.

use posthouse_agent::RelayTransport;
use serde_json::{Value, json};
use stand_ins::harness::HarnessSettings;
use stand_ins::twilio::{Settings, TwilioStandIn};
use stand_ins::webhook::WebhookStandIn;

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{TestServer, files};

const SECRET: &str = "CANARY-webhook-secret";
const TOKEN: &str = "CANARY-twilio-token";

fn acknowledged(message: &str) -> stand_ins::harness::RowFilter {
    serde_json::from_value(json!({ "kind": "acknowledged", "call": message })).unwrap()
}

/// A route with a GitHub secret, made on the command line.
fn make_route(server: &TestServer, id: &str, more: &[&str]) -> Value {
    let secret = server.secret_file(&format!("{id}-secret"), SECRET);
    let words =
        ["bot", "create", "webhook", "--id", id, "--set", "schemes=github", "--github-secret-file", &secret];
    server.does(&[&words[..], more].concat())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_webhook_reaches_its_agent_by_path_and_by_host_and_is_filtered() {
    provide_crypto();
    let sender = WebhookStandIn::start(HarnessSettings::default()).await.unwrap();
    let mut server = TestServer::open(&[("POSTHOUSE_LOG__LEVEL", "trace")]);
    server.does(&["tenant", "create", "acme"]);
    let more =
        ["--set", "template={who} did {what}", "--set", "events=push", "--set", "host=hooks.example.test"];
    let made = make_route(&server, "build", &[&more[..], &["--set", "mask=token"]].concat());
    assert_eq!((&made["delivery"], &made["open"]), (&json!("webhook"), &json!(true)));
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", "webhook:build"]);
    let mut rider = Rider::dial(&server, &heron, &[("webhook", "build")]).await;
    let sends = |event: &str, delivery: &str, what: &str| {
        let body = json!({ "who": "Zoë", "what": what, "token": "CANARY-field" });
        let send = json!({ "do": "send", "url": format!("{}/door/webhook/build", server.url), "scheme": "github",
            "secret": SECRET, "body": body, "event": event, "delivery": delivery });
        sender.inject(serde_json::from_value(send).unwrap()).unwrap();
    };
    sends("push", "d-1", "one");
    let heard = rider.hears().await.event;
    assert_eq!(
        (heard.text.as_str(), heard.source.chat_id.unwrap().as_str()),
        ("Zoë did one", "webhook:build:d-1")
    );
    // A repeat and an unwanted event are acknowledged and reach nobody.
    sends("push", "d-1", "one");
    sends("issues", "d-2", "two");
    assert!(sender.wait(&acknowledged("issues"), 1, PATIENCE).await.is_ok());
    sends("push", "d-3", "three");
    assert_eq!(rider.hears().await.event.text, "Zoë did three");
    // By host name, at any path. The host shows nothing else of the server.
    let client = reqwest::Client::new();
    let body = json!({ "who": "Ben", "what": "four" }).to_string();
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = aws_lc_rs::hmac::sign(&key, body.as_bytes());
    let digits: Vec<String> = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let by_host =
        |path: &str| client.post(format!("{}{path}", server.url)).header("host", "hooks.example.test");
    let signed = by_host("/anything").header("x-hub-signature-256", format!("sha256={}", digits.concat()));
    let signed = signed.header("x-github-event", "push").header("x-github-delivery", "d-4").body(body);
    assert_eq!(signed.send().await.unwrap().status().as_u16(), 200);
    assert_eq!(rider.hears().await.event.text, "Ben did four");
    for path in ["/healthz", "/admin/bots", "/door/telegram/7001"] {
        assert_eq!(by_host(path).send().await.unwrap().status().as_u16(), 401, "{path}");
    }
    assert!(!rider.sends("webhook", "build", "webhook:build:d-1", "thanks").await.success);
    rider.transport.disconnect().await;
    let shown = format!("{:?}", server.tries(&["bot", "show", "webhook:build"]));
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    for canary in [SECRET, "CANARY-field"] {
        assert!(!log.contains(canary) && !shown.contains(canary));
        for (path, bytes) in files(&server.folder()) {
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "{canary} in {}", path.display());
        }
    }
}

#[test]
fn settings_of_a_webhook_are_tried_out_without_a_server() {
    let server = TestServer::open(&[]);
    let body = server.secret_file("body.json", r#"{"who":"Zoë","token":"t","action":"opened"}"#);
    let settings = server.secret_file(
        "try.json",
        r#"{"template":"{who} {token}{action}","mask":["token"],"only":{"action":["opened"]}}"#,
    );
    let tried = server.does(&["bot", "try", &body, "--settings", &settings]);
    assert_eq!(tried, json!({ "becomes": "message", "text": "Zoë opened" }));
    let tried = server.does(&["bot", "try", &body, "--set", "events=push", "--event", "issues"]);
    assert_eq!(tried["becomes"], "filtered");
    make_route(&server, "build", &["--set", "template=by {who}"]);
    assert_eq!(server.does(&["bot", "try", &body, "--bot", "webhook:build"])["text"], "by Zoë");
    let refused = server.tries(&["bot", "create", "webhook", "--id", "open", "--set", "schemes=github"]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--github-secret-file"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn people_talk_with_agents_by_sms_and_whatsapp_over_twilio() {
    provide_crypto();
    let accounts = vec![format!("AC1:{TOKEN}:+15550100").parse().unwrap()];
    let twilio = TwilioStandIn::start(Settings { accounts, ..Settings::default() }).await.unwrap();
    let mut server = TestServer::open(&[
        ("POSTHOUSE_PLATFORMS__TWILIO__API_BASE_URL", &twilio.base_url()),
        ("POSTHOUSE_LOG__LEVEL", "trace"),
    ]);
    let token = server.secret_file("twilio-token", TOKEN);
    let mut riders = Vec::new();
    for (tenant, agent, platform) in [("acme", "heron", "sms"), ("umbrella", "otter", "whatsapp")] {
        server.does(&["tenant", "create", tenant]);
        let words =
            ["bot", "create", platform, "--open", "--auth-token-file", &token, "--set", "account_sid=AC1"];
        let made = server.does(&[&words[..], &["--set", "number=+15550100"]].concat());
        assert_eq!(made["id"], "15550100");
        let steps = made["setup_steps"].to_string();
        assert!(steps.contains(&format!("/door/{platform}/15550100")), "{steps}");
        let bot = format!("{platform}:15550100");
        let made = server.does(&["agent", "create", agent, "--tenant", tenant, "--bot", &bot]);
        riders.push(Rider::dial(&server, &made, &[(platform, "15550100")]).await);
    }
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    let says = |door: &str, what: Value| {
        twilio.set_webhook(Some(format!("{}/door/{door}/15550100", server.url)));
        twilio.inject(serde_json::from_value(what).unwrap()).unwrap()
    };
    let sent = |chat: &str| {
        let filter = serde_json::from_value(json!({ "chat": chat, "kind": "sent" })).unwrap();
        let rows = twilio.transcript(&filter).into_iter();
        rows.filter_map(|row| row.text).collect::<Vec<_>>()
    };
    says(
        "sms",
        json!({ "do": "message", "text": " hello ",
        "files": [{ "content_type": "image/png", "base64": "aGk=" }] }),
    );
    let heard = heron.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.chat_id.unwrap().as_str()), ("hello", "+15550177"));
    let file = reqwest::get(&heard.media_urls[0]).await.unwrap();
    assert_eq!(file.bytes().await.unwrap(), &b"hi"[..]);
    assert!(heron.sends("sms", "15550100", "+15550177", "**hello** back").await.success);
    assert_eq!(sent("+15550177"), ["hello back"]);
    // Twilio reports what became of it, signed, and that is accepted.
    let delivered = serde_json::from_value(json!({ "kind": "delivered" })).unwrap();
    assert!(twilio.wait(&delivered, 1, PATIENCE).await.is_ok());
    assert!(
        twilio.deliveries().iter().all(|attempt| attempt.status == Some(200)),
        "{:?}",
        twilio.deliveries()
    );
    // The number goes, and the conversation stays.
    says("whatsapp", json!({ "do": "message", "text": "one", "from": "whatsapp:US.77" }));
    assert_eq!(otter.hears().await.event.source.chat_id.unwrap().as_str(), "US.77");
    assert!(otter.sends("whatsapp", "15550100", "US.77", "heard").await.success);
    assert_eq!(sent("whatsapp:US.77"), ["heard"]);
    // A message for the other channel is not for this bot, though the signature is good.
    says("sms", json!({ "do": "message", "text": "stray", "from": "whatsapp:US.77" }));
    says("sms", json!({ "do": "message", "text": "mine" }));
    assert_eq!(heron.hears().await.event.text, "mine");
    for rider in &riders {
        rider.transport.disconnect().await;
    }
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("twilio") || log.contains("sms"), "the log was meant to be talkative");
    for canary in [TOKEN, "/storage/"] {
        assert!(!log.contains(canary), "in the log: {:?}", log.lines().find(|line| line.contains(canary)));
        for (path, bytes) in files(&server.folder()) {
            let holds = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!holds, "{canary} in {}", path.display());
        }
    }
}
