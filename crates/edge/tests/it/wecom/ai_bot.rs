//! AI bots of WeCom with callbacks: passive streams, response URLs and encrypted files.

use std::time::Duration;

use edge::platform::Platform;
use edge::wecom::WeComProduct;
use posthouse_time::Timepiece;
use posthouse_wire::Outcome;
use relay::PermittedAction;
use serde_json::json;
use stand_ins::harness::RowFilter;

use super::actors::{Fixture, LONG, error, follow_up, open, send};

const URL: &str = "wecom.response_url";

async fn open_bot() -> Fixture {
    open(WeComProduct::AiBot, false, Timepiece::wall()).await
}

#[tokio::test]
async fn an_answer_is_fetched_by_wecom_as_a_stream() {
    let fixture = open_bot().await;
    fixture.says("hello");
    fixture.hears(&["hello"]).await;
    let mut first = fixture.order(send("ana", "**one**"));
    first.ends_turn = false;
    assert!(fixture.wecom.perform(&fixture.bot, first).await.outcome.success);
    assert!(fixture.outcome(send("ana", "two")).await.success);
    let row = fixture.stand_in.wait(&RowFilter::sent("ana"), 1, LONG).await.unwrap().pop().unwrap();
    assert_eq!((&*row.call, row.text.as_deref()), ("stream", Some("**one**\n\ntwo")));
    let late = fixture.outcome(send("ana", "three")).await;
    assert!(error(&late).contains("long connection"));
    assert!(error(&fixture.outcome(send("nobody", "x")).await).contains("long connection"));
}

#[tokio::test]
async fn a_group_message_loses_its_mention_and_its_url_answers_once() {
    let fixture = open_bot().await;
    fixture.inject(json!({ "do": "message", "text": "status?", "chat": "wrG1" }));
    fixture.hears(&["status?"]).await;
    let session = "agent:main:wecom:group:wrG1:ana";
    let order = |kind: &str| fixture.order(follow_up(session, kind, "**fine**"));
    for refused in [
        PermittedAction { instance: "inst_other".into(), ..order(URL) },
        PermittedAction { tenant: "ten_other".into(), ..order(URL) },
        order("wecom.response_code"),
        order("discord.interaction_token"),
    ] {
        assert_eq!(fixture.follows_up(refused).await, Outcome::no_capability());
    }
    assert!(fixture.follows_up(order(URL)).await.success);
    let row = fixture.rows("sent").pop().unwrap();
    assert_eq!((&*row.call, row.text.as_deref()), ("response_url", Some("**fine**")));
    assert_eq!(fixture.follows_up(order(URL)).await, Outcome::no_capability());
    let events = serde_json::to_string(&fixture.events().await).unwrap();
    assert!(!events.contains("response_code") && !events.contains("response_url"), "{events}");
}

#[tokio::test]
async fn a_follow_up_after_the_end_of_its_url_looks_like_one_that_was_never_there() {
    let fixture = open_bot().await;
    fixture.says("too late");
    fixture.hears(&["too late"]).await;
    fixture.stand_in.advance(Duration::from_secs(3601));
    let order = fixture.order(follow_up("agent:main:wecom:dm:ana", URL, "hello?"));
    assert_eq!(fixture.follows_up(order).await, Outcome::no_capability());
    assert_eq!(fixture.stand_in.refusals(&RowFilter::default()).len(), 1, "WeCom itself refused it");
}

#[tokio::test]
async fn an_encrypted_file_is_decrypted_for_the_agent_and_its_url_stays_here() {
    let fixture = open_bot().await;
    let said = fixture.inject(json!({ "do": "image", "base64": "aGk=" }));
    fixture.hears(&[""]).await;
    let events = serde_json::to_string(&fixture.events().await).unwrap();
    assert!(!events.contains("sign=") && !events.contains("canary"), "{events}");
    let store = fixture.server.relay.media();
    let reference = format!("wecom:file:{}/0", said["message_id"].as_str().unwrap());
    let mut writer = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    fixture.wecom.fetch_media(&fixture.bot, &reference, &mut writer).await.unwrap();
    let mut writer = store.begin(&"ten_1".into(), &fixture.server.agent, None).await.unwrap();
    assert!(fixture.wecom.fetch_media(&fixture.bot, "wecom:file:other/0", &mut writer).await.is_err());
}

#[tokio::test]
async fn nobody_is_known_to_see_a_group_because_wecom_does_not_tell_its_members() {
    let fixture = open_bot().await;
    fixture.inject(json!({ "do": "message", "text": "status?", "chat": "wrG1" }));
    fixture.hears(&["status?"]).await;
    assert!(!fixture.wecom.sees(&fixture.bot, &"ana".into(), &"wrG1".into()).await);
}
