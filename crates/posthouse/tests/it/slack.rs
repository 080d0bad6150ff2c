//! Slack with the real binary: webhooks and Socket Mode, two workspaces of one bot, follow-ups, and what stays secret.

use aws_lc_rs::hmac;
use posthouse_agent::RelayTransport;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, Outcome};
use serde_json::{Value, json};
use stand_ins::harness::RowFilter;
use stand_ins::slack::{AppUrls, Settings, SlackApp, SlackStandIn};

use crate::talk::{PATIENCE, Rider, provide_crypto};
use crate::test_server::{TestServer, files};

const BOT: &str = "UBOT1";
const ON: &str = "slack:UBOT1";
const TOKEN: &str = "xoxb-CANARY-token";
const APP_TOKEN: &str = "xapp-CANARY-token";
const SIGNING_SECRET: &str = "CANARY-signing-secret";
/// The session of U77 in the channel C10, and in their direct message with the bot.
const IN_CHANNEL: &str = "agent:main:slack:group:C10:U77";
const SLACK_URL: &str = "POSTHOUSE_PLATFORMS__SLACK__API_BASE_URL";

async fn slack() -> SlackStandIn {
    provide_crypto();
    let apps = vec![SlackApp::new("A1", TOKEN, APP_TOKEN, SIGNING_SECRET, "posty")];
    SlackStandIn::start(Settings { apps, ..Settings::default() }).await.unwrap()
}

/// A bot that gets its events by webhook.
async fn make_webhook_bot(server: &TestServer, stand_in: &SlackStandIn, more: &[&str]) -> Value {
    let token = server.secret_file("slack-token", TOKEN);
    let secret = server.secret_file("slack-secret", SIGNING_SECRET);
    let words =
        ["bot", "create", "slack", "--open", "--token-file", &token, "--signing-secret-file", &secret];
    let made = server.does(&[&words, more].concat());
    assert_eq!((&made["id"], &made["delivery"]), (&json!(BOT), &json!("webhook")));
    let door = format!("{}/door/slack/{BOT}", server.url);
    let at = |path: &str| Some(format!("{door}{path}"));
    let urls =
        AppUrls { events: at("/events"), interactivity: at("/interactions"), commands: at("/commands") };
    let manifest = made["setup_steps"].to_string();
    for url in [&urls.events, &urls.interactivity, &urls.commands] {
        assert!(manifest.contains(url.as_deref().unwrap()), "{manifest}");
    }
    stand_in.set_urls("A1", urls);
    stand_in.wait(&RowFilter::kind("events_url_verified"), 1, PATIENCE).await.expect("the challenge");
    made
}

async fn make_socket_bot(server: &TestServer, stand_in: &SlackStandIn) -> Value {
    let token = server.secret_file("slack-token", TOKEN);
    let app_token = server.secret_file("slack-app-token", APP_TOKEN);
    let words = ["bot", "create", "slack", "--open", "--token-file", &token, "--app-token-file", &app_token];
    let made = server.does(&words);
    assert_eq!(made["delivery"], "socket");
    assert!(stand_in.until(PATIENCE, |stand_in| stand_in.sockets("A1") == 1).await, "no socket");
    made
}

fn inject(stand_in: &SlackStandIn, what: Value) -> Value {
    stand_in.inject(serde_json::from_value(what).unwrap()).unwrap()
}

fn sent(stand_in: &SlackStandIn, channel: &str) -> Vec<String> {
    stand_in.transcript(&RowFilter::sent(channel)).into_iter().filter_map(|row| row.text).collect()
}

fn follow_up(session_key: &str, content: &str) -> Action {
    Action::FollowUp {
        session_key: session_key.into(),
        kind: "slack.response_url".into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Delivers a body to the door of the bot, with the signature of the app.
async fn delivers(server: &TestServer, body: String) -> u16 {
    let now = posthouse_time::Timepiece::wall().now().millis() / 1000;
    let key = hmac::Key::new(hmac::HMAC_SHA256, SIGNING_SECRET.as_bytes());
    let tag = hmac::sign(&key, format!("v0:{now}:{body}").as_bytes());
    let request = reqwest::Client::new()
        .post(format!("{}/door/slack/{BOT}/events", server.url))
        .header("x-slack-request-timestamp", now.to_string())
        .header("x-slack-signature", format!("v0={}", hex(tag.as_ref())))
        .body(body);
    request.send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_by_webhook_is_answered_in_its_thread_and_a_command_by_its_response_url() {
    let slack = slack().await;
    let server = TestServer::open(&[(SLACK_URL, &slack.api_url())]);
    server.does(&["tenant", "create", "acme"]);
    make_webhook_bot(&server, &slack, &[]).await;
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", ON]);
    let mut rider = Rider::dial(&server, &heron, &[("slack", BOT)]).await;
    let said = inject(&slack, json!({"do": "message", "text": "hello &amp; good day", "user_name": "Ana"}));
    let heard = rider.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.source.user_name.as_deref()), ("hello & good day", Some("Ana")));
    let (chat, ts) = (said["channel"].as_str().unwrap(), said["ts"].as_str().unwrap());
    let answer = rider.replies("slack", BOT, chat, "**noon**", heard.message_id.unwrap()).await;
    assert!(answer.success, "{answer:?}");
    let row = slack.transcript(&RowFilter::sent(chat)).pop().unwrap();
    assert_eq!((row.text.as_deref(), row.thread_id.as_deref()), (Some("*noon*"), Some(ts)));

    inject(&slack, json!({"do": "command", "command": "/ask", "text": "why", "channel": "C10"}));
    assert_eq!(rider.hears().await.event.text, "/ask why");
    let followed = rider.asks("slack", BOT, follow_up(IN_CHANNEL, "because")).await;
    assert!(followed.success, "{followed:?}");
    assert_eq!(sent(&slack, "C10"), ["because"]);
    // Slack ends the URL after half an hour.
    slack.advance(std::time::Duration::from_secs(1801));
    let ended = rider.asks("slack", BOT, follow_up(IN_CHANNEL, "too late")).await;
    assert_eq!(ended.error, Outcome::no_capability().error);
}

#[tokio::test(flavor = "multi_thread")]
async fn events_over_a_socket_reach_the_agent_and_its_files_come_by_handle() {
    let slack = slack().await;
    let server = TestServer::open(&[(SLACK_URL, &slack.api_url())]);
    server.does(&["tenant", "create", "acme"]);
    make_socket_bot(&server, &slack).await;
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", ON]);
    let mut rider = Rider::dial(&server, &heron, &[("slack", BOT)]).await;
    let file = json!({"name": "a.txt", "mimetype": "text/plain", "base64": "aGVsbG8="});
    inject(&slack, json!({"do": "message", "text": "see", "files": [file]}));
    let heard = rider.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.media_urls.len()), ("see", 1));
    assert!(heard.media_urls[0].starts_with(&server.url), "{:?}", heard.media_urls);
    slack.wait(&RowFilter::kind("acknowledged"), 1, PATIENCE).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn two_workspaces_of_one_bot_never_meet() {
    let slack = slack().await;
    let server = TestServer::open(&[(SLACK_URL, &slack.api_url())]);
    // One token for all workspaces of an organization.
    make_webhook_bot(&server, &slack, &["--shared", "--set", "enterprise_id=E1"]).await;
    let mut riders = Vec::new();
    for (tenant, agent, team) in [("acme", "heron", "T1"), ("umbrella", "otter", "T2")] {
        server.does(&["tenant", "create", tenant]);
        let made = server.does(&["agent", "create", agent, "--tenant", tenant]);
        server.does(&["route", "create", ON, &format!("scope:{team}"), agent, "--tenant", tenant]);
        riders.push(Rider::dial(&server, &made, &[("slack", BOT)]).await);
    }
    let [heron, otter] = &mut riders[..] else { panic!("two riders") };
    let event = |enterprise: &str, team: &str, channel: &str, ts: &str| {
        // In a channel that two workspaces share, the author may be of the other one.
        json!({"type": "event_callback", "team_id": team, "enterprise_id": enterprise, "event": {"type": "app_mention",
            "channel": channel, "user": "U77", "team": "T2", "text": format!("for {team}"), "ts": ts}})
        .to_string()
    };
    assert_eq!(delivers(&server, event("E1", "T1", "C10", "1765000000.000100")).await, 200);
    assert_eq!(delivers(&server, event("E2", "T2", "C20", "1765000000.000200")).await, 200, "ignored");
    assert_eq!(delivers(&server, event("E1", "T2", "C20", "1765000000.000300")).await, 200);
    assert_eq!(heron.hears().await.event.text, "for T1");
    let heard = otter.hears().await.event;
    assert_eq!((heard.text.as_str(), heard.message_id.unwrap().as_str()), ("for T2", "1765000000.000300"));

    // Neither speaks in the other's workspace, nor answers the other's command.
    let command = format!(
        "team_id=T1&enterprise_id=E1&channel_id=C10&channel_name=general&user_id=U77&command=%2Fask&text=x&\
         trigger_id=1.2.CANARY&response_url=http%3A%2F%2F127.0.0.1%3A{}%2Fresponse%2FT1%2Fnone",
        slack.address().port()
    );
    assert_eq!(delivers(&server, command).await, 200);
    assert_eq!(heron.hears().await.event.text, "/ask x");
    let declined = otter.sends("slack", BOT, "C10", "psst").await;
    assert!(!declined.success);
    assert_eq!(
        otter.sends("slack", BOT, "C404", "psst").await,
        declined,
        "a channel of nobody looks the same"
    );
    let foreign = otter.asks("slack", BOT, follow_up(IN_CHANNEL, "psst")).await;
    assert_eq!(foreign.error, Outcome::no_capability().error);
    assert!(slack.transcript(&RowFilter::kind("sent")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_credential_of_slack_is_in_any_frame_log_trace_or_file() {
    let slack = slack().await;
    let mut server = TestServer::open(&[(SLACK_URL, &slack.api_url()), ("POSTHOUSE_LOG__LEVEL", "trace")]);
    server.does(&["tenant", "create", "acme"]);
    let mut answers = vec![make_socket_bot(&server, &slack).await.to_string()];
    let heron = server.does(&["agent", "create", "heron", "--tenant", "acme", "--bot", ON]);
    let mut rider = Rider::dial(&server, &heron, &[("slack", BOT)]).await;
    let command = json!({"do": "command", "command": "/ask", "text": "why", "channel": "C10"});
    let injected = inject(&slack, command);
    let captured = ["response_url", "trigger_id"].map(|name| injected[name].as_str().unwrap());
    let heard = rider.hears().await;
    answers.push(format!("{:?} {}", heard.event, serde_json::to_string(&heard.event).unwrap()));
    answers.push(format!("{:?}", rider.asks("slack", BOT, follow_up(IN_CHANNEL, "yes")).await));
    answers.push(format!("{:?}", rider.sends("slack", BOT, "C404", "nobody").await));
    let entry = heard.entry.unwrap().to_string();
    for words in [vec!["message", "trace", &entry], vec!["bot", "show", ON], vec!["bot", "list"]] {
        answers.push(format!("{:?}", server.tries(&words)));
    }
    rider.transport.disconnect().await;
    assert!(server.stop(), "a clean stop exits 0");
    let log = server.log.lock().unwrap().clone();
    assert!(log.contains("slack"), "the log was meant to be talkative");
    // The tickets of the stand-in's sockets and its verification tokens contain these words.
    let secrets = ["CANARY", "response-token", "ticket-", "legacy-verification"];
    for canary in secrets.into_iter().chain(captured) {
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
