//! Texts that an agent streams by edits: joined to what Slack allows, and the last text always arrives.

use posthouse_time::Timepiece;
use posthouse_wire::Action;
use posthouse_wire::action::Metadata;
use relay::Egress;
use serde_json::json;
use stand_ins::slack::{Settings, SlackLimits};

use super::actors::{DIRECT, open_with, send};

#[tokio::test]
async fn an_agent_that_edits_many_times_a_second_meets_no_limit_and_its_last_text_arrives() {
    let settings = Settings { limits: Some(SlackLimits::default()), ..Settings::default() };
    let fixture = open_with(Timepiece::wall(), settings).await;
    // This creates the conversation.
    fixture.inject(json!({"do": "message", "text": "hello"}));
    let edge = fixture.server.edge();
    let message = edge.perform(fixture.order(send(DIRECT, "…"))).await.outcome.message_id.unwrap();
    let edit = |content| Action::Edit {
        chat_id: DIRECT.into(),
        message_id: message.clone(),
        content,
        metadata: Metadata::default(),
    };
    let edits = (0..60).map(|number| edge.perform(fixture.order(edit(format!("text {number}")))));
    let results = futures_util::future::join_all(edits).await;
    assert!(results.iter().all(|result| result.outcome.success), "{results:?}");
    let shown: Vec<_> = fixture.rows("edited").into_iter().filter_map(|row| row.text).collect();
    assert_eq!(shown, ["text 0", "text 59"]);
    let called = results.iter().filter(|result| result.called.is_some()).count();
    assert_eq!(called, 2, "the others made no call");
    assert!(fixture.stand_in.refusals(&Default::default()).is_empty());
}
