//! Tests of incoming Slack messages: names, mentions, threads, repeats, other bots and other workspaces.

use std::sync::Arc;

use edge::DeliveryResult;
use edge::platform::{Platform, UnverifiedRequest, VerifiedRequest};
use http::{HeaderMap, Method};
use identity::LinkResult;
use ledger::{Decision, Subject};
use posthouse_time::{Moment, Timepiece};
use serde_json::{Value, json};
use stand_ins::harness::RowFilter;

use super::actors::{
    BOT_USER, CHANNEL, DIRECT, Fixture, LONG, SIGNING_SECRET, bot, closed, form, open, send, settings_of_bot,
    slack,
};

/// A request with the signature of the app.
fn signed(door: &str, body: String, now: Moment) -> UnverifiedRequest {
    let timestamp = (now.millis() / 1000).to_string();
    let parts = [b"v0:", timestamp.as_bytes(), b":", body.as_bytes()].concat();
    let tag = edge::verification::mac(
        edge::verification::MacAlgorithm::Sha256,
        SIGNING_SECRET.as_bytes(),
        &[&parts],
    );
    let mut headers = HeaderMap::new();
    headers.insert("x-slack-request-timestamp", timestamp.parse().unwrap());
    headers.insert("x-slack-signature", format!("v0={}", hex::encode(tag.as_ref())).parse().unwrap());
    UnverifiedRequest {
        method: Method::POST,
        door: door.to_owned(),
        query: String::new(),
        headers,
        body: body.into(),
        received: now,
        server_url: "http://127.0.0.1:7678".into(),
    }
}

async fn receive(fixture: &Fixture, door: &str, body: String) -> DeliveryResult {
    let (intake, bot) = (fixture.server.intake(), Arc::new(fixture.bot.clone()));
    let platform: Arc<dyn Platform> = Arc::new(fixture.slack.clone());
    intake.receive(&platform, &bot, signed(door, body, fixture.clock.now())).await.unwrap()
}

fn event(team: &str, ts: &str, text: &str) -> String {
    json!({"type": "event_callback", "team_id": team, "event_id": format!("Ev{ts}"), "event": {"type": "message",
        "channel": "D9", "channel_type": "im", "user": "U9", "text": text, "ts": ts}})
    .to_string()
}

#[tokio::test]
async fn a_message_gets_the_names_that_slack_knows() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let source = &fixture.events().await[0].source;
    assert_eq!((source.user_name.as_deref(), source.chat_name.as_deref()), (Some("Ana"), Some(DIRECT)));
    assert_eq!(source.scope_id.as_ref().unwrap().as_str(), "T1");
    fixture.mentions("and here?");
    fixture.hears(&["hello", "and here?"]).await;
    let source = &fixture.events().await[1].source;
    assert_eq!((source.chat_name.as_deref(), &*source.chat_type), (Some("channel-c10"), "group"));
}

#[tokio::test]
async fn a_mention_that_comes_as_two_events_is_one_turn() {
    let fixture = open().await;
    let injected = fixture.mentions("once");
    assert_eq!(injected["events"].as_array().unwrap().len(), 2);
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    assert_eq!(fixture.server.texts().await, ["once"]);
}

#[tokio::test]
async fn in_a_channel_only_what_is_for_the_bot_is_a_turn() {
    let fixture = open().await;
    fixture.inject(json!({"do": "message", "text": "among people", "channel": CHANNEL}));
    let first = fixture.mentions("start")["ts"].as_str().unwrap().to_owned();
    fixture.hears(&["start"]).await;
    let answer = posthouse_wire::Action::Send {
        chat_id: CHANNEL.into(),
        content: "answer".to_owned(),
        reply_to: Some(first.as_str().into()),
        metadata: Default::default(),
    };
    assert!(fixture.outcome(answer).await.success);
    // In a thread in which the bot has written, nobody needs to mention it again.
    let reply = |thread: &str, text: &str| {
        fixture.inject(json!({"do": "message", "text": text, "channel": CHANNEL, "thread_ts": thread}));
    };
    reply(&first, "and then?");
    fixture.hears(&["start", "and then?"]).await;
    let other = fixture.inject(json!({"do": "message", "text": "elsewhere", "channel": CHANNEL}));
    reply(other["ts"].as_str().unwrap(), "not for the bot");
    fixture.mentions("end");
    fixture.hears(&["start", "and then?", "end"]).await;
    let events = fixture.events().await;
    assert_eq!(events[1].source.thread_id.as_ref().unwrap().as_str(), first);
}

#[tokio::test]
async fn in_a_group_direct_message_only_what_is_for_the_bot_is_a_turn() {
    let fixture = open().await;
    let says = |text: &str| {
        fixture.inject(json!({"do": "message", "text": text, "channel": "G5", "channel_type": "mpim"}));
    };
    says("among people");
    says(&format!("<@{BOT_USER}> hello"));
    fixture.hears(&["hello"]).await;
    let source = &fixture.events().await[0].source;
    assert_eq!(&*source.chat_type, "dm", "its session is that of a direct message");
}

#[tokio::test]
async fn a_known_person_is_admitted_alone_and_not_among_others_in_a_group_direct_message() {
    let fixture = closed().await;
    let access = fixture.server.identity.gate.access();
    let known = Subject::User("U77".into());
    access.decide(&fixture.bot.bot_ref(), &known, Decision::Allowed).await.unwrap();
    let text = format!("<@{BOT_USER}> among others");
    fixture.inject(json!({"do": "message", "text": text, "channel": "G5", "channel_type": "mpim"}));
    // A message comes as a mention too. Slack does not say there in what kind of channel it was.
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    let command = json!({"team_id": "T1", "channel_id": "G5", "channel_name": "mpdm-ana--ben-1", "user_id": "U77",
        "command": "/ask", "text": "among others", "trigger_id": "1.2.canary-trigger"});
    receive(&fixture, "/commands", form(&command)).await;
    fixture.says("alone");
    fixture.hears(&["alone"]).await;
    let group = Subject::Chat("G5".into());
    access.decide(&fixture.bot.bot_ref(), &group, Decision::Allowed).await.unwrap();
    fixture.inject(json!({"do": "message", "text": text, "channel": "G5", "channel_type": "mpim"}));
    fixture.hears(&["alone", "among others"]).await;
}

#[tokio::test]
async fn a_link_code_in_a_group_direct_message_links_nobody() {
    let fixture = open().await;
    let codes = fixture.server.identity.gate.link_codes();
    let code = codes.mint(&fixture.server.agent, None).await.unwrap().unwrap().code;
    let text = format!("<@{BOT_USER}> /link {code}");
    let event = json!({"type": "event_callback", "team_id": "T1", "event": {"type": "message", "channel": "G5",
        "channel_type": "mpim", "user": "U77", "text": text, "ts": "1765000000.000100"}});
    receive(&fixture, "/events", event.to_string()).await;
    fixture.hears(&[&format!("/link {code}")]).await;
    let on = fixture.bot.bot_ref();
    let redeemed = codes.redeem(&on, &"U77".into(), &DIRECT.into(), &code).await.unwrap();
    assert_eq!(redeemed, LinkResult::Wrong, "the others could read it, so it ended");
}

#[tokio::test]
async fn what_the_bot_writes_never_comes_back_and_edits_are_no_turns() {
    let fixture = open().await;
    let ts = fixture.says("first")["ts"].clone();
    fixture.hears(&["first"]).await;
    assert!(fixture.outcome(send(DIRECT, "my own words")).await.success);
    fixture.inject(json!({"do": "edit", "channel": DIRECT, "ts": ts, "text": "second"}));
    fixture.inject(json!({"do": "delete", "channel": DIRECT, "ts": ts}));
    fixture
        .inject(json!({"do": "event", "event": {"type": "message", "subtype": "bot_message", "bot_id": "B9",
        "channel": DIRECT, "channel_type": "im", "text": "another bot", "ts": "1765000000.000900"}}));
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 5, LONG).await.unwrap();
    fixture.says("third");
    fixture.hears(&["first", "third"]).await;
}

#[tokio::test]
async fn a_repeated_request_is_accepted_and_stored_once() {
    let fixture = open().await;
    for _ in 0..3 {
        let taken = receive(&fixture, "/events", event("T1", "1765000000.000100", "once")).await;
        assert!(matches!(taken, DeliveryResult::Taken { .. }));
    }
    let command = json!({"team_id": "T1", "channel_id": "D9", "user_id": "U9", "command": "/ask", "text": "twice?",
        "trigger_id": "1.2.canary-trigger", "response_url": "https://hooks.slack.com/commands/T1/1/canary-url"});
    for _ in 0..3 {
        receive(&fixture, "/commands", form(&command)).await;
    }
    assert_eq!(fixture.server.texts().await, ["once", "/ask twice?"]);
}

#[tokio::test]
async fn an_event_of_another_workspace_of_the_same_app_is_ignored() {
    let fixture = open().await;
    receive(&fixture, "/events", event("T2", "1765000000.000100", "foreign")).await;
    let command = json!({"team_id": "T2", "channel_id": "D9", "user_id": "U9", "command": "/ask"});
    receive(&fixture, "/commands", form(&command)).await;
    let press = json!({"type": "block_actions", "team": {"id": "T2"}, "user": {"id": "U9"}, "channel": {"id": "D9"},
        "actions": [{"action_id": "a", "value": "v"}]});
    receive(&fixture, "/interactions", form(&json!({"payload": press.to_string()}))).await;
    assert!(fixture.server.texts().await.is_empty());
    receive(&fixture, "/events", event("T1", "1765000000.000100", "own")).await;
    assert_eq!(fixture.server.texts().await, ["own"]);
}

#[tokio::test]
async fn bodies_that_cannot_be_read_are_refused() {
    let fixture = open().await;
    for (door, body) in [
        ("/events", "{"),
        ("/events", r#"{"type":"event_callback","type":"url_verification"}"#),
        ("/events", r#"{"type":"event_callback","team_id":"T1","event":{"type":"message","ts":7}}"#),
        ("/events", "[]"),
        ("/commands", "command=/ask&command=/other"),
        ("/interactions", "payload=%7B"),
        ("/interactions", "text=%zz"),
    ] {
        let refused = receive(&fixture, door, body.to_owned()).await;
        let DeliveryResult::Refused(refusal) = refused else { panic!("{body}: {refused:?}") };
        assert_eq!(refusal.status, 400, "{body}");
    }
    let checked = receive(&fixture, "/commands", "ssl_check=1&token=x".to_owned()).await;
    assert!(matches!(checked, DeliveryResult::Taken { reply, .. } if reply.status == 200));
}

#[test]
fn a_file_alone_a_moved_channel_and_an_empty_message_are_read() {
    let slack = slack("http://127.0.0.1:9/api", Timepiece::wall());
    let bot = bot(settings_of_bot());
    let read = |event: Value| {
        let body = json!({"type": "event_callback", "team_id": "T1", "event": event}).to_string();
        slack.normalize(&bot, VerifiedRequest::fetched(body, Moment::from_seconds(1))).unwrap()
    };
    let message = |more: Value| {
        let mut event = json!({"type": "message", "channel": "D9", "channel_type": "im", "user": "U9",
            "ts": "1765000000.000100"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let file = json!({"id": "F1", "name": "a.mp4", "mimetype": "audio/mp4", "subtype": "slack_audio"});
    let gone = json!({"id": "F2", "mode": "tombstone"});
    let reading = read(message(json!({"subtype": "file_share", "text": "", "files": [file, gone]})));
    let arrival = &reading.arrivals[0];
    assert_eq!((arrival.references.len(), &*arrival.event.media[0].kind), (1, "voice"));
    assert!(reading.incomplete, "the person is not known yet");
    assert_eq!(read(message(json!({"text": ""}))).ignored, ["empty"]);
    assert_eq!(read(message(json!({"subtype": "channel_join", "text": "x"}))).ignored, ["system"]);
    let moved = read(json!({"type": "channel_id_changed", "old_channel_id": "G1", "new_channel_id": "C1"}));
    assert_eq!((moved.moved[0].from.as_str(), moved.moved[0].to.as_str()), ("G1", "C1"));
    let own = read(message(json!({"text": "x", "app_id": "A1", "user": BOT_USER})));
    assert_eq!(own.ignored, ["self"]);
}
