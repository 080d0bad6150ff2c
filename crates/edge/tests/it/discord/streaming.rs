//! Texts that an agent streams by edits: joined to what Discord allows, and the last text always arrives.

use posthouse_time::Timepiece;
use posthouse_wire::action::Metadata;
use posthouse_wire::{Action, MessageId};
use relay::Egress;
use serde_json::json;
use stand_ins::discord::{DiscordLimits, Settings};

use super::actors::{CHANNEL, open, send};

fn edit(message: &MessageId, content: String) -> Action {
    Action::Edit {
        chat_id: CHANNEL.into(),
        message_id: message.clone(),
        content,
        metadata: Metadata::default(),
    }
}

#[tokio::test]
async fn an_agent_that_edits_many_times_a_second_meets_no_limit_and_its_last_text_arrives() {
    let settings = Settings { limits: Some(DiscordLimits::default()), ..Settings::default() };
    let fixture = open(Timepiece::wall(), settings).await;
    let edge = fixture.server.edge();
    let message = edge.perform(fixture.order(send(CHANNEL, "…"))).await.outcome.message_id.unwrap();
    let edits = (0..60).map(|number| edge.perform(fixture.order(edit(&message, format!("text {number}")))));
    let results = futures_util::future::join_all(edits).await;
    assert!(results.iter().all(|result| result.outcome.success), "{results:?}");
    let filter = serde_json::from_value(json!({"kind": "edited"})).unwrap();
    let shown: Vec<_> = fixture.stand_in.transcript(&filter).into_iter().filter_map(|row| row.text).collect();
    assert_eq!(shown, ["text 0", "text 59"]);
    let called = results.iter().filter(|result| result.called.is_some()).count();
    assert_eq!(called, 2, "the others made no call");
    assert!(fixture.stand_in.refusals(&Default::default()).is_empty());
}
