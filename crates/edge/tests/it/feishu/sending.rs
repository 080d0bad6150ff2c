//! Messages, edits, cards and reactions to Feishu.

use std::time::Duration;

use edge::platform::{BotTrouble, Platform};
use posthouse_time::Timepiece;
use posthouse_wire::action::{Metadata, PromptKind, PromptOption};
use posthouse_wire::{Action, Outcome};
use relay::Egress;
use serde_json::json;
use stand_ins::feishu::{FeishuLimits, Settings};
use stand_ins::harness::RowFilter;

use super::actors::{APP, DIRECT, Fixture, GROUP, LONG, credentials, edit, error, open, open_with, send};

fn growing(chat: &str, content: &str) -> Action {
    let metadata = Metadata { expect_edits: Some(true), ..Metadata::default() };
    Action::Send { chat_id: chat.into(), content: content.to_owned(), reply_to: None, metadata }
}

fn id(outcome: &Outcome) -> String {
    assert!(outcome.success, "{outcome:?}");
    outcome.message_id.as_ref().unwrap().to_string()
}

fn edited(fixture: &Fixture) -> Vec<String> {
    fixture.rows("edited").into_iter().filter_map(|row| row.text).collect()
}

#[tokio::test]
async fn an_answer_is_a_rich_text_that_mentions_nobody_and_a_long_one_is_several() {
    let fixture = open().await;
    let said = fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let reply = Action::Send {
        chat_id: DIRECT.into(),
        content: "**noon** <at user_id=\"all\"></at>".to_owned(),
        reply_to: Some(said.as_str().into()),
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(reply).await.success);
    let row = fixture.stand_in.transcript(&RowFilter::sent(DIRECT)).pop().unwrap();
    assert_eq!(row.reply_to.as_deref(), Some(said.as_str()));
    assert!(row.text.as_deref().unwrap().starts_with("**noon** <\u{200b}at"), "{row:?}");
    assert!(fixture.outcome(send(DIRECT, &"word ".repeat(3_000))).await.success);
    assert_eq!(fixture.sent(DIRECT).len(), 3);
    assert!(error(&fixture.outcome(send("oc_404", "psst")).await).contains("forbidden"));
    assert_eq!(error(&fixture.outcome(send("oc/../x", "psst")).await), "chat not found");
}

#[tokio::test]
async fn a_text_that_grows_is_a_card_with_any_number_of_edits_and_an_end() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let message = id(&fixture.outcome(growing(DIRECT, "a")).await);
    for number in 0..30 {
        assert!(fixture.outcome(edit(DIRECT, &message, &format!("text {number}"))).await.success);
    }
    assert_eq!(edited(&fixture).last().map(String::as_str), Some("text 29"));
    assert_eq!(fixture.sent(DIRECT).len(), 1);
    let (chat, known) = (DIRECT.into(), message.as_str().into());
    assert_eq!(fixture.feishu.message_edit_limits(&fixture.bot, &chat, &known).most, None);
    fixture.feishu.text_is_final(&fixture.bot, &known).await;
    assert_eq!(fixture.rows("stream_ended").len(), 1);
    // It can be edited after that too, also by a server that has just started.
    assert!(fixture.outcome(edit(DIRECT, &message, "corrected")).await.success);
    let restarted = edge::feishu::Feishu::new(&fixture.stand_in.base_url(), Timepiece::wall());
    let again = restarted.perform(&fixture.bot, fixture.order(edit(DIRECT, &message, "once more"))).await;
    assert!(again.outcome.success, "{:?}", again.outcome);
    assert_eq!(edited(&fixture)[30..], ["corrected", "once more"]);
}

#[tokio::test]
async fn a_rich_text_takes_twenty_edits_and_says_so() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let message = id(&fixture.outcome(send(DIRECT, "first")).await);
    let limits = fixture.feishu.message_edit_limits(&fixture.bot, &DIRECT.into(), &message.as_str().into());
    assert_eq!(limits.most, Some(20));
    for number in 0..20 {
        assert!(fixture.outcome(edit(DIRECT, &message, &format!("{number}"))).await.success);
    }
    assert!(error(&fixture.outcome(edit(DIRECT, &message, "late")).await).contains("20 times"));
}

#[tokio::test]
async fn a_message_of_another_chat_is_neither_edited_nor_answered_nor_reacted_to() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let there = fixture.inject(json!({"do": "message", "text": "x", "chat": GROUP, "mention": true}));
    fixture.hears(&["hello", "x"]).await;
    let own = id(&fixture.outcome(send(GROUP, "in the group")).await);
    // Also where the server does not remember the messages.
    let restarted = edge::feishu::Feishu::new(&fixture.stand_in.base_url(), Timepiece::wall());
    for feishu in [&fixture.feishu, &restarted] {
        let outcome = async |action| feishu.perform(&fixture.bot, fixture.order(action)).await.outcome;
        for message in [own.as_str(), there["message"].as_str().unwrap(), "om_404"] {
            let edit = outcome(edit(DIRECT, message, "psst")).await;
            assert_eq!(error(&edit), "message to edit not found", "{message}");
            let react = Action::React {
                chat_id: DIRECT.into(),
                message_id: message.into(),
                emoji: "👍".to_owned(),
                remove: false,
                metadata: Metadata::default(),
            };
            assert_eq!(error(&outcome(react).await), "message to edit not found", "{message}");
            let reply = Action::Send {
                chat_id: DIRECT.into(),
                content: "here".to_owned(),
                reply_to: Some(message.into()),
                metadata: Metadata::default(),
            };
            assert!(outcome(reply).await.success, "an ordinary message of the own chat");
            let metadata = Metadata { thread_id: Some(message.into()), ..Metadata::default() };
            let threaded =
                Action::Send { chat_id: DIRECT.into(), content: "psst".to_owned(), reply_to: None, metadata };
            assert_eq!(error(&outcome(threaded).await), "thread not found", "{message}");
        }
    }
    assert_eq!(fixture.sent(GROUP), ["in the group"]);
    assert!(fixture.rows("edited").is_empty() && fixture.rows("reacted").is_empty());
}

#[tokio::test]
async fn a_thread_is_written_to_by_answers_below_its_message() {
    let fixture = open().await;
    let said = fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let create = Action::ThreadCreate {
        chat_id: DIRECT.into(),
        thread_name: "plans".to_owned(),
        message_id: Some(said.as_str().into()),
        metadata: Metadata::default(),
    };
    let thread = fixture.outcome(create).await.thread_id.unwrap();
    assert_eq!(thread.as_str(), said.replacen("om_", "omt_", 1));
    let metadata = Metadata { thread_id: Some(thread.clone()), ..Metadata::default() };
    let restarted = edge::feishu::Feishu::new(&fixture.stand_in.base_url(), Timepiece::wall());
    for feishu in [&fixture.feishu, &restarted] {
        let action = Action::Send {
            chat_id: DIRECT.into(),
            content: "below".to_owned(),
            reply_to: None,
            metadata: metadata.clone(),
        };
        let sent = feishu.perform(&fixture.bot, fixture.order(action)).await.outcome;
        assert!(sent.success, "{sent:?}");
    }
    let rows = fixture.stand_in.transcript(&RowFilter::sent(DIRECT).saying("below"));
    assert!(rows.len() == 2 && rows.iter().all(|row| row.thread_id.as_deref() == Some(thread.as_str())));
    // An answer in a thread in which the bot has written is for the bot.
    fixture.inject(json!({"do": "message", "text": "and then?", "parent": said, "in_thread": true}));
    fixture.hears(&["hello", "and then?"]).await;
    assert_eq!(fixture.events().await[1].source.thread_id, Some(thread));
}

#[tokio::test]
async fn a_prompt_is_a_card_and_a_press_brings_a_token_that_replaces_it() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let option = |id: &str, label: &str| PromptOption { id: id.into(), label: label.to_owned(), style: None };
    let prompt = Action::Prompt {
        chat_id: DIRECT.into(),
        prompt_kind: PromptKind::Choice,
        prompt_id: "p1".into(),
        content: "Go?".to_owned(),
        options: vec![option("yes", "Yes"), option("no", "No")],
        reply_to: None,
        metadata: Metadata::default(),
    };
    let message = id(&fixture.outcome(prompt).await);
    let pressed = fixture.inject(json!({"do": "press", "message": message, "value": "yes"}));
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 2, LONG).await.unwrap();
    let token = pressed["token"].as_str().unwrap();
    let kept = serde_json::to_string(&fixture.events().await).unwrap();
    assert!(!kept.contains(token), "{kept}");
    fixture.feishu.close_prompt(&fixture.bot, &DIRECT.into(), &message.as_str().into()).await;
    let row = fixture.rows("edited").pop().unwrap();
    assert_eq!((row.message_id.as_deref(), row.text.as_deref()), (Some(message.as_str()), Some("Go?")));
}

#[tokio::test]
async fn a_reaction_is_added_and_taken_away() {
    let fixture = open().await;
    let said = fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let react = |emoji: &str, remove| Action::React {
        chat_id: DIRECT.into(),
        message_id: said.as_str().into(),
        emoji: emoji.to_owned(),
        remove,
        metadata: Metadata::default(),
    };
    assert!(fixture.outcome(react("👍", false)).await.success);
    assert_eq!(fixture.rows("reacted")[0].text.as_deref(), Some("THUMBSUP"));
    // A server that has just started finds it among those of the message.
    let restarted = edge::feishu::Feishu::new(&fixture.stand_in.base_url(), Timepiece::wall());
    for _ in 0..2 {
        let removed = restarted.perform(&fixture.bot, fixture.order(react("👍", true))).await.outcome;
        assert!(removed.success, "{removed:?}");
    }
    assert_eq!(fixture.rows("unreacted").len(), 1);
    assert!(error(&fixture.outcome(react("🦉", false)).await).contains("not known"));
}

#[tokio::test]
async fn more_messages_than_a_chat_takes_arrive_all_the_same() {
    let limits = Some(FeishuLimits::default());
    let fixture = open_with(Timepiece::wall(), Settings { limits, ..Settings::default() }).await;
    fixture.serve_door().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let texts: Vec<String> = (0..8).map(|number| format!("text {number}")).collect();
    for text in &texts {
        let sent = fixture.outcome(send(DIRECT, text)).await;
        assert!(sent.success, "{sent:?}");
    }
    assert_eq!(fixture.sent(DIRECT), texts);
}

#[tokio::test]
async fn an_access_token_that_ends_is_replaced_and_a_bot_whose_secret_ends_is_marked_dead() {
    let fixture = open().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    assert!(fixture.outcome(send(DIRECT, "one")).await.success);
    fixture.stand_in.forget_tokens();
    assert!(fixture.outcome(send(DIRECT, "two")).await.success);
    fixture.server.start_edge();
    fixture.stand_in.change_secret(APP, "canary-new-secret");
    let edge = fixture.server.edge();
    assert!(
        error(&edge.perform(fixture.order(send(DIRECT, "three"))).await.outcome).contains("unauthorized")
    );
    let marked = async {
        while !edge.health().is_dead(&fixture.bot.bot_ref()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, marked).await.expect("the bot is marked as dead");
    let refused = edge.perform(fixture.order(send(DIRECT, "four"))).await.outcome;
    assert_eq!(error(&refused), "unauthorized: this bot's credential is not accepted");
    let refused = fixture.feishu.check_credentials(&fixture.bot).await.unwrap_err();
    assert!(matches!(refused, BotTrouble::CredentialRefused(_)), "{refused}");
    let mut renewed = fixture.bot.clone();
    renewed.credentials = credentials(&[("app_secret", "canary-new-secret")]);
    assert_eq!(fixture.feishu.check_credentials(&renewed).await.unwrap().id, APP);
}
