//! Applications of WeCom: callbacks in, calls of the API out.

use std::time::Duration;

use edge::platform::{BotTrouble, Platform};
use edge::wecom::WeComProduct;
use posthouse_wire::action::{MediaKind, Metadata, PromptKind, PromptOption};
use posthouse_wire::{Action, Outcome, Secret};
use relay::PermittedAction;
use serde_json::json;
use stand_ins::harness::{CallFault, CallFaultKind, RowFilter};

use super::actors::{CHAT, LONG, bot, error, follow_up, open_app, send};
use crate::telegram::media::stores;

const SESSION: &str = "agent:main:wecom_callback:dm:ww1:ana";
const CODE: &str = "wecom.response_code";

fn prompt(labels: &[&str], content: &str) -> Action {
    let options = labels.iter().enumerate().map(|(at, label)| PromptOption {
        id: format!("o{at}").as_str().into(),
        label: (*label).to_owned(),
        style: None,
    });
    Action::Prompt {
        chat_id: CHAT.into(),
        prompt_kind: PromptKind::Choice,
        prompt_id: "p1".into(),
        content: content.to_owned(),
        options: options.collect(),
        reply_to: None,
        metadata: Metadata::default(),
    }
}

#[tokio::test]
async fn a_message_comes_by_callback_and_the_answer_goes_by_the_api() {
    let fixture = open_app().await;
    fixture.says("你好 ]]> <b>");
    fixture.hears(&["你好 ]]> <b>"]).await;
    let sent = fixture.outcome(send(CHAT, "**done** 🎈")).await;
    assert!(sent.success && sent.message_id.is_some(), "{sent:?}");
    assert_eq!(fixture.sent(), ["done 🎈"]);
    let long = "回答的文字 🦉\n".repeat(500);
    assert!(fixture.outcome(send(CHAT, &long)).await.success);
    let all = fixture.sent();
    assert!(all.len() > 5);
    for row in fixture.rows("sent") {
        assert!(row.raw["text"]["content"].as_str().unwrap().len() <= 2048);
    }
    assert_eq!(all.iter().map(|text| text.matches('🦉').count()).sum::<usize>(), 500);
    assert_eq!(fixture.rows("token_granted").len(), 1, "one access token for all calls");
    for (chat, wanted) in
        [("ww2:ana", "chat not found"), ("ww1:@all", "chat not found"), ("ww1:a|b", "chat not")]
    {
        assert!(error(&fixture.outcome(send(chat, "x")).await).contains(wanted), "{chat}");
    }
    assert!(error(&fixture.outcome(send("ww1:nobody", "x")).await).contains("chat not found"));
    assert!(error(&fixture.outcome(send(CHAT, " ")).await).contains("empty"));
}

#[tokio::test]
async fn a_message_that_is_delivered_twice_is_one_event() {
    let fixture = open_app().await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DuplicateDelivery));
    fixture.says("once");
    fixture.says("marker");
    fixture.stand_in.wait(&RowFilter::kind("acknowledged"), 3, LONG).await.unwrap();
    let mut texts = fixture.server.texts().await;
    texts.sort();
    assert_eq!(texts, ["marker", "once"]);
}

#[tokio::test]
async fn an_access_token_that_has_ended_is_replaced_without_the_agents_notice() {
    let fixture = open_app().await;
    assert!(fixture.outcome(send(CHAT, "one")).await.success);
    fixture.stand_in.advance(Duration::from_secs(7200));
    assert!(fixture.outcome(send(CHAT, "two")).await.success);
    assert_eq!(fixture.rows("token_granted").len(), 2);
    assert_eq!(fixture.sent(), ["one", "two"]);
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_and_the_message_is_there_once() {
    let fixture = open_app().await;
    fixture.stand_in.fault(CallFault::new(CallFaultKind::DropAfterWrite).on("message/send"));
    assert!(fixture.outcome(send(CHAT, "once")).await.success);
    assert_eq!(fixture.sent(), ["once"]);
    let busy = CallFaultKind::TooManyRequests { retry_after: 1.0, global: false };
    fixture.stand_in.fault(CallFault::new(busy).on("message/send"));
    assert!(fixture.outcome(send(CHAT, "after a wait")).await.success);
}

#[tokio::test]
async fn a_press_answers_its_prompt_and_its_code_changes_the_card_once() {
    let fixture = open_app().await;
    let asked = fixture.outcome(prompt(&["Yes", "No"], "Deploy?")).await;
    let card = fixture.rows("sent").pop().unwrap().raw["template_card"].clone();
    assert_eq!(
        (&card["card_type"], &card["main_title"]["title"]),
        (&json!("button_interaction"), &json!("Deploy?"))
    );
    assert_eq!(card["button_list"][1]["key"], "hp1:p1:o1");
    fixture.wecom.close_prompt(&fixture.bot, &CHAT.into(), &asked.message_id.unwrap()).await;
    assert_eq!(fixture.rows("edited").len(), 1);
    assert!(fixture.outcome(prompt(&["Yes"], &"long ".repeat(600))).await.success);
    assert_eq!(fixture.rows("sent").len(), 4, "the question, in two parts, is above the card");
    assert!(error(&fixture.outcome(prompt(&["x"; 7], "?")).await).contains("at most 6"));

    fixture.inject(json!({ "do": "press", "key": "yes" }));
    fixture.hears(&["yes"]).await;
    let order = |kind: &str, content: &str| fixture.order(follow_up(SESSION, kind, content));
    for refused in [
        PermittedAction { instance: "inst_other".into(), ..order(CODE, "psst") },
        PermittedAction { tenant: "ten_other".into(), ..order(CODE, "psst") },
        order("wecom.response_url", "psst"),
        order("wecom_callback.response_code", "psst"),
        order("slack.response_url", "psst"),
    ] {
        assert_eq!(fixture.follows_up(refused).await, Outcome::no_capability());
    }
    let long = fixture.follows_up(order(CODE, &"x".repeat(31))).await;
    assert!(error(&long).contains("too long"), "and the code is not spent");
    assert!(fixture.follows_up(order(CODE, "Done")).await.success);
    assert_eq!(fixture.rows("edited").pop().unwrap().text.as_deref(), Some("Done"));
    assert_eq!(fixture.follows_up(order(CODE, "again")).await, Outcome::no_capability());
    let events = serde_json::to_string(&fixture.events().await).unwrap();
    assert!(!events.contains("response-code"), "{events}");
}

#[tokio::test]
async fn files_come_by_their_ids_and_go_by_uploads() {
    let fixture = open_app().await;
    fixture.inject(json!({ "do": "image", "base64": "aGk=" }));
    fixture.hears(&[""]).await;
    let store = fixture.server.relay.media();
    let begin = async || store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    fixture.stand_in.advance(Duration::from_secs(7200));
    let mut writer = begin().await;
    let media = (1..50).map(|number| format!("wecom:media:ww1/MEDIA{number}"));
    let mut found = false;
    for reference in media {
        found |= fixture.wecom.fetch_media(&fixture.bot, &reference, &mut writer).await.is_ok();
    }
    assert!(found, "the picture can be fetched");
    for foreign in ["wecom:media:ww2/MEDIA1", "wecom:media:ww1", "wecom:file:x/0", "https://evil.test/x"] {
        let mut writer = begin().await;
        assert!(fixture.wecom.fetch_media(&fixture.bot, foreign, &mut writer).await.is_err(), "{foreign}");
    }
    let media = stores(&fixture.server, "cat.png", "image/png", &b"picture"[..]).await;
    let action = fixture.order(Action::SendMedia {
        chat_id: CHAT.into(),
        media_kind: MediaKind::Image,
        source_url: String::new(),
        content: Some("**look**".to_owned()),
        filename: None,
        reply_to: None,
        metadata: Metadata::default(),
    });
    assert!(fixture.wecom.send_media(&fixture.bot, action, media).await.outcome.success);
    let kinds: Vec<_> = fixture.rows("sent").into_iter().map(|row| row.raw["msgtype"].clone()).collect();
    assert_eq!(kinds, ["image", "text"]);
}

#[tokio::test]
async fn the_application_is_checked_and_a_dead_secret_is_told() {
    let fixture = open_app().await;
    let met = fixture.wecom.check_credentials(&fixture.bot).await.unwrap();
    assert_eq!((met.id.as_str(), &met.settings["name"]), ("ww1-1000002", &json!("Stand-in")));
    for (setting, value) in [("corp_id", ""), ("corp_id", "ww/1"), ("agent_id", "x"), ("agent_id", "77")] {
        let mut wrong = fixture.bot.clone();
        wrong.settings.insert(setting.to_owned(), json!(value));
        let trouble = fixture.wecom.check_credentials(&wrong).await.unwrap_err();
        assert!(matches!(trouble, BotTrouble::Other(_)), "{setting} {value}: {trouble}");
    }
    let mut wrong = bot(WeComProduct::App, true);
    wrong.credentials.insert("encoding_aes_key", Secret::new("canary-short"));
    assert!(fixture.wecom.check_credentials(&wrong).await.unwrap_err().to_string().contains("43"));
    let doubted = fixture.wecom.credential_doubted(&fixture.bot);
    fixture.stand_in.revoke("ww1-1000002");
    let sent = async {
        let refused = fixture.outcome(send(CHAT, "x")).await;
        assert!(error(&refused).starts_with("unauthorized"));
    };
    tokio::join!(doubted, sent);
    let refused = fixture.wecom.check_credentials(&fixture.bot).await.unwrap_err();
    assert!(matches!(refused, BotTrouble::CredentialRefused(_)), "{refused}");
}
