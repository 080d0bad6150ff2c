//! Tests of Slack interactions: slash commands and buttons, and their follow-ups.

use std::time::Duration;

use posthouse_wire::action::{Metadata, PromptKind, PromptOption, PromptStyle};
use posthouse_wire::{Action, Outcome};
use relay::{Egress, PermittedAction};
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};

use super::actors::{CHANNEL, Feed, Fixture, LONG, error, open};

const KEY: &str = "agent:main:slack:group:C10:U77";

fn follow_up(content: &str) -> Action {
    follow_up_with("slack.response_url", content)
}

fn follow_up_with(kind: &str, content: &str) -> Action {
    Action::FollowUp {
        session_key: KEY.into(),
        kind: kind.into(),
        content: content.to_owned(),
        metadata: Metadata::default(),
    }
}

fn prompt() -> Action {
    Action::Prompt {
        chat_id: CHANNEL.into(),
        prompt_kind: PromptKind::Approval,
        prompt_id: "a1b2c3.00112233".into(),
        content: "**Deploy** <now>?".to_owned(),
        options: [("once", Some(PromptStyle::Primary)), ("deny", Some(PromptStyle::Danger)), ("later", None)]
            .map(|(id, style)| PromptOption { id: id.into(), label: id.to_owned(), style })
            .to_vec(),
        reply_to: None,
        metadata: Metadata::default(),
    }
}

impl Fixture {
    fn commands(&self, text: &str) {
        self.inject(json!({"do": "command", "command": "/ask", "text": text, "channel": CHANNEL}));
    }

    async fn follows_up(&self, content: &str) -> Outcome {
        self.server.edge().perform(self.order(follow_up(content))).await.outcome
    }
}

#[tokio::test]
async fn a_slash_command_is_a_message_whose_follow_ups_answer_its_person() {
    let fixture = open().await;
    fixture.commands("is it raining?");
    fixture.hears(&["/ask is it raining?"]).await;
    assert!(fixture.follows_up("**yes**").await.success);
    let row = fixture.stand_in.transcript(&RowFilter::sent(CHANNEL)).pop().unwrap();
    assert_eq!((&*row.call, row.text.as_deref()), ("response_url", Some("*yes*")));
    assert_eq!(row.raw["response_type"], "ephemeral");

    // Another agent of the same tenant, and another tenant, get the answer that everybody gets.
    for order in [
        PermittedAction { instance: "inst_other".into(), ..fixture.order(follow_up("psst")) },
        PermittedAction { tenant: "ten_other".into(), ..fixture.order(follow_up("psst")) },
        fixture.order(follow_up_with("slack.trigger_id", "psst")),
        fixture.order(follow_up_with("discord.interaction_token", "psst")),
    ] {
        assert_eq!(fixture.server.edge().perform(order).await.outcome, Outcome::no_capability());
    }
    for event in fixture.events().await {
        let written = serde_json::to_string(&event).unwrap();
        for secret in ["response-token", "response_url", "trigger", "legacy-verification"] {
            assert!(!written.contains(secret), "{written}");
        }
    }
}

#[tokio::test]
async fn a_response_url_is_used_five_times_and_a_refused_call_does_not_count() {
    let fixture = open().await;
    fixture.commands("many answers");
    fixture.hears(&["/ask many answers"]).await;
    fixture.stand_in.fault(
        CallFault::new(CallFaultKind::TooManyRequests { retry_after: 60.0, global: false })
            .on("response_url"),
    );
    assert!(error(&fixture.follows_up("too early").await).contains("rate limit"));
    for number in 0..5 {
        let sent = fixture.follows_up(&format!("answer {number}")).await;
        assert!(sent.success, "{number}: {sent:?}");
    }
    assert_eq!(fixture.follows_up("one too many").await, Outcome::no_capability());
}

#[tokio::test]
async fn a_follow_up_after_the_end_of_its_url_looks_like_one_that_was_never_there() {
    let fixture = open().await;
    fixture.commands("too late");
    fixture.hears(&["/ask too late"]).await;
    fixture.stand_in.advance(Duration::from_secs(1801));
    assert_eq!(fixture.follows_up("hello?").await, Outcome::no_capability());
}

#[tokio::test]
async fn a_press_answers_its_prompt_and_takes_the_buttons_away() {
    let fixture = open().await;
    fixture.mentions("hello");
    fixture.hears(&["hello"]).await;
    let asked = fixture.server.edge().perform(fixture.order(prompt())).await.outcome;
    assert!(asked.success, "{asked:?}");
    let message = asked.message_id.unwrap();
    let row = fixture.stand_in.transcript(&RowFilter::sent(CHANNEL)).pop().unwrap();
    let blocks = row.raw["blocks"].clone();
    assert_eq!(blocks[0]["text"]["text"], "*Deploy* &lt;now&gt;?");
    assert_eq!(blocks[1]["elements"].as_array().unwrap().len(), 3);
    let styles: Vec<_> =
        blocks[1]["elements"].as_array().unwrap().iter().map(|one| one["style"].clone()).collect();
    assert_eq!(json!(styles), json!(["primary", "danger", null]));
    let press = |option: &str| {
        fixture.inject(json!({"do": "press", "channel": CHANNEL, "ts": message,
            "action_id": format!("hp1:a1b2c3.00112233:{option}")}))
    };
    press("once");
    let closed = fixture.stand_in.wait(&RowFilter::kind("edited"), 1, LONG).await.unwrap();
    assert_eq!(closed[0].message_id.as_deref(), Some(message.as_str()));
    assert_eq!(closed[0].text.as_deref(), Some("*Deploy* &lt;now&gt;?"), "the question stays");
    fixture.hears(&["hello", "/once"]).await;
    let answer = fixture.events().await[1].prompt_response.clone().unwrap();
    assert_eq!((answer.prompt_id.as_str(), answer.option_id.as_str()), ("a1b2c3.00112233", "once"));
}

#[tokio::test]
async fn a_prompt_that_slack_cannot_show_is_refused_and_a_long_one_is_split() {
    let fixture = open().await;
    fixture.mentions("hello");
    fixture.hears(&["hello"]).await;
    let Action::Prompt { options, .. } = prompt() else { panic!() };
    let with = |count: usize, text: &str| {
        let mut asked = prompt();
        if let Action::Prompt { options: all, content, .. } = &mut asked {
            *all = (0..count)
                .map(|n| PromptOption { id: format!("o{n}").as_str().into(), ..options[0].clone() })
                .collect();
            *content = text.to_owned();
        }
        asked
    };
    assert!(error(&fixture.outcome(with(26, "x")).await).contains("malformed prompt"));
    assert!(fixture.outcome(with(25, &"many words ".repeat(500))).await.success);
    let rows = fixture.stand_in.transcript(&RowFilter::sent(CHANNEL));
    assert_eq!(rows.len(), 2);
    assert!(rows[0].raw.get("blocks").is_none() && rows[1].raw["blocks"].is_array());
}

#[tokio::test]
async fn forms_and_buttons_without_a_channel_become_direct_messages_of_their_person() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let values = json!({"b1": {"name": {"type": "plain_text_input", "value": "Ana"}},
        "b2": {"size": {"type": "static_select", "selected_option": {"value": "large"}}}});
    fixture.inject(json!({"do": "submit_view", "callback_id": "order", "values": values}));
    fixture.hears(&["hello", "Ana\nlarge"]).await;
    let source = &fixture.events().await[1].source;
    assert_eq!((source.chat_id.as_ref().unwrap().as_str(), &*source.chat_type), ("U77", "dm"));
}

#[tokio::test]
async fn interactions_over_a_socket_are_acknowledged_after_they_are_stored() {
    let fixture = open().await;
    let feed = Feed::start(&fixture);
    assert!(fixture.stand_in.until(LONG, |stand_in| stand_in.sockets("A1") == 1).await);
    fixture.commands("by socket");
    fixture.hears(&["/ask by socket"]).await;
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 1, LONG).await.unwrap();
    assert!(fixture.follows_up("yes").await.success);
    feed.stop().await;
}
