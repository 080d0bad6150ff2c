//! Tests of Discord interactions: slash commands and buttons, over the gateway and by webhook, and their follow-ups.

use std::sync::Arc;

use edge::DeliveryResult;
use edge::platform::{Platform, UnverifiedRequest};
use http::{HeaderMap, Method};
use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use posthouse_wire::{Action, Event};
use relay::{Egress, PermittedAction};
use serde_json::{Value, json};
use stand_ins::harness::{CallFault, CallFaultKind};

use super::actors::{APPLICATION, CHANNEL, Feed, Fixture, GUILD, LONG, TOKEN, error, open_on_wall_time};

const KEY: &str = "agent:main:discord:group:910:77";

fn follow_up(content: &str) -> Action {
    Action::FollowUp {
        session_key: KEY.into(),
        kind: "discord.interaction_token".into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

impl Fixture {
    fn commands(&self, text: &str) -> Value {
        self.inject(json!({"do": "command", "name": "ask", "unregistered": true,
            "options": [{"name": "q", "type": 3, "value": text}], "in": {"guild_id": GUILD, "channel_id": CHANNEL}}))
    }

    pub async fn events(&self) -> Vec<Event> {
        let unread =
            self.server.ledger.inbox().unread(&self.server.agent, ledger::Seq(0), 100).await.unwrap();
        unread.iter().map(|entry| serde_json::from_slice(&entry.event).unwrap()).collect()
    }
}

#[tokio::test]
async fn a_slash_command_is_a_message_whose_follow_ups_answer_it() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.commands("is it raining?");
    fixture.hears(&["/ask is it raining?"]).await;
    let edge = fixture.server.edge();
    // The first answer to the interaction is a call of its own. Before it there is nothing to follow.
    let answered = async {
        loop {
            let first = edge.perform(fixture.order(follow_up("yes"))).await.outcome;
            if first.success {
                return first;
            }
        }
    };
    let first = tokio::time::timeout(LONG, answered).await.expect("the follow-up never succeeds");
    let second = edge.perform(fixture.order(follow_up("take an umbrella"))).await.outcome;
    assert!(second.success, "{second:?}");
    assert_ne!(first.message_id, second.message_id, "the first fills the deferred answer");
    let calls: Vec<String> =
        fixture.stand_in.transcript(&Default::default()).iter().map(|row| row.call.to_string()).collect();
    let count = |call: &str| calls.iter().filter(|one| one.as_str() == call).count();
    assert_eq!(count("PATCH /webhooks/{application}/{token}/messages/{message}"), 1, "{calls:?}");
    assert_eq!(count("POST /webhooks/{application}/{token}"), 1, "{calls:?}");

    // Another agent of the same tenant, and another tenant, get the answer that everybody gets.
    for order in [
        PermittedAction { instance: "inst_other".into(), ..fixture.order(follow_up("psst")) },
        PermittedAction { tenant: "ten_other".into(), ..fixture.order(follow_up("psst")) },
    ] {
        let refused = edge.perform(order).await.outcome;
        assert_eq!(refused, posthouse_wire::Outcome::no_capability());
    }
    for event in fixture.events().await {
        assert!(
            !serde_json::to_string(&event).unwrap().contains("interaction-token"),
            "the token stays here"
        );
    }
    feed.stop().await;
}

#[tokio::test]
async fn an_interaction_at_the_door_is_verified_and_answered_in_the_response() {
    let fixture = open_on_wall_time().await;
    let (url, mut bodies) = door(&fixture).await;
    fixture.stand_in.set_interactions_url(APPLICATION, &url);
    fixture.commands("by webhook");
    fixture.hears(&["/ask by webhook"]).await;
    let reply = tokio::time::timeout(LONG, bodies.recv()).await.unwrap().unwrap();
    assert_eq!(reply, (200, json!({"type": 5})));
}

#[tokio::test]
async fn a_press_answers_its_prompt_and_takes_the_buttons_away() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    let prompt = Action::Prompt {
        chat_id: CHANNEL.into(),
        prompt_kind: PromptKind::Approval,
        prompt_id: "a1b2c3.00112233".into(),
        content: "**Deploy**?".to_owned(),
        options: ["once", "deny"]
            .map(|id| PromptOption { id: id.into(), label: id.to_owned(), style: None })
            .to_vec(),
        reply_to: None,
        metadata: Metadata::default(),
    };
    let asked = fixture.server.edge().perform(fixture.order(prompt)).await.outcome;
    assert!(asked.success, "{asked:?}");
    let message = asked.message_id.unwrap();
    fixture.inject(json!({"do": "press", "message_id": message, "custom_id": "hp1:a1b2c3.00112233:once"}));
    let closed = serde_json::from_value(json!({"kind": "edited"})).unwrap();
    let edits = fixture.stand_in.wait(&closed, 1, LONG).await.unwrap();
    assert_eq!(edits[0].message_id.as_deref(), Some(message.as_str()));
    fixture.hears(&["/once"]).await;
    let events = fixture.events().await;
    let answer = events[0].prompt_response.as_ref().unwrap();
    assert_eq!((answer.prompt_id.as_str(), answer.option_id.as_str()), ("a1b2c3.00112233", "once"));
    feed.stop().await;
}

/// A listener for the interactions of the bot. Every response is also sent into the channel.
async fn door(fixture: &Fixture) -> (String, tokio::sync::mpsc::UnboundedReceiver<(u16, Value)>) {
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let (intake, bot) = (fixture.server.intake(), Arc::new(fixture.bot.clone()));
    let platform: Arc<dyn Platform> = Arc::new(fixture.discord.clone());
    let clock = fixture.clock.clone();
    let take = move |headers: HeaderMap, body: axum::body::Bytes| async move {
        let raw = UnverifiedRequest {
            method: Method::POST,
            door: "/interactions".to_owned(),
            query: String::new(),
            headers,
            body,
            received: clock.now(),
            server_url: "http://127.0.0.1:7678".into(),
        };
        let (status, body) = match intake.receive(&platform, &bot, raw).await.unwrap() {
            DeliveryResult::Taken { reply, .. } => (reply.status, reply.body),
            DeliveryResult::Refused(refusal) => (refusal.status, axum::body::Bytes::new()),
        };
        let _ = sender.send((status.as_u16(), serde_json::from_slice(&body).unwrap_or_default()));
        (status, [("content-type", "application/json")], body)
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/interactions", listener.local_addr().unwrap());
    let routes = axum::Router::new().route("/interactions", axum::routing::post(take));
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (url, receiver)
}

#[tokio::test]
async fn the_file_of_a_slash_command_is_attached_and_its_signed_url_reaches_nobody() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    let file = json!({"name": "notes.txt", "content_type": "text/plain", "base64": "aGVsbG8="});
    let posted = fixture.inject(json!({"do": "message", "text": "a file to borrow", "files": [file],
        "in": {"guild_id": GUILD, "channel_id": CHANNEL}}));
    let path = format!("/channels/{CHANNEL}/messages/{}", posted["message_id"].as_str().unwrap());
    let request = reqwest::Client::new()
        .get(format!("{}{path}", fixture.stand_in.api_url()))
        .header("user-agent", "DiscordBot (https://example.org, 1)")
        .header("authorization", format!("Bot {TOKEN}"));
    let message: Value =
        serde_json::from_slice(&request.send().await.unwrap().bytes().await.unwrap()).unwrap();
    let attachment = message["attachments"][0].clone();
    let (id, url) = (attachment["id"].as_str().unwrap(), attachment["url"].as_str().unwrap());
    let user = json!({"id": "77", "username": "ana"});
    fixture.inject(json!({"do": "event", "t": "INTERACTION_CREATE", "d": {
        "id": "1201", "application_id": APPLICATION, "type": 2, "token": "canary", "version": 1,
        "guild_id": GUILD, "channel_id": CHANNEL, "member": {"user": user},
        "data": {"id": "5", "type": 1, "name": "read", "options": [{"type": 11, "name": "what", "value": id}],
            "resolved": {"attachments": {id: attachment}}}}}));
    fixture.hears(&["/read"]).await;
    let unread =
        fixture.server.ledger.inbox().unread(&fixture.server.agent, ledger::Seq(0), 9).await.unwrap();
    let written = String::from_utf8_lossy(&unread[0].event).into_owned();
    assert!(!written.contains(url), "{written}");
    let event = &fixture.events().await[0];
    assert_eq!(event.media[0].filename.as_deref(), Some("notes.txt"));
    let store = fixture.server.relay.media();
    let mut writer = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    let reference = format!("discord:command-file:{id}");
    let fetched = fixture.discord.fetch_media(&fixture.bot, &reference, &mut writer).await.unwrap();
    assert_eq!(fetched.filename.as_deref(), Some("notes.txt"));
    feed.stop().await;
}

#[tokio::test]
async fn a_follow_up_that_may_have_been_carried_out_is_not_repeated() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.commands("twice");
    fixture.hears(&["/ask twice"]).await;
    assert!(fixture.server.edge().perform(fixture.order(follow_up("first"))).await.outcome.success);
    let fault = CallFault::new(CallFaultKind::ServerError { status: 502 }).times(9);
    let fault = fixture.stand_in.fault(fault.on("POST /webhooks/{application}/{token}"));
    let unknown = fixture.server.edge().perform(fixture.order(follow_up("second"))).await.outcome;
    assert!(error(&unknown).contains("timed out"), "these words keep a gateway from sending it again");
    assert_eq!(fixture.stand_in.struck(fault), 1);
    feed.stop().await;
}

#[tokio::test]
async fn a_follow_up_of_an_ended_token_looks_like_one_that_was_never_there() {
    let fixture = open_on_wall_time().await;
    let feed = Feed::start(&fixture);
    fixture.connected().await;
    fixture.commands("too late");
    fixture.hears(&["/ask too late"]).await;
    fixture.stand_in.advance(std::time::Duration::from_secs(901));
    let refused = fixture.server.edge().perform(fixture.order(follow_up("hello?"))).await.outcome;
    assert_eq!(error(&refused), posthouse_wire::Outcome::no_capability().error.unwrap());
    feed.stop().await;
}
