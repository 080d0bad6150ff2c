//! Reactions on Matrix: events of their own, which a redaction takes back.

use http::Method;
use posthouse_wire::{ChatId, MessageId, Outcome};
use serde::Deserialize;
use serde_json::json;

use super::calls::MatrixCalls;
use super::{no_chat, room_of};
use crate::matrix::api::MatrixCall;
use crate::matrix::ids::is_event_id;
use crate::matrix::{LABEL, USER_ID};
use crate::platform_calls::{CallFailure, RepeatRule};

/// Longest reaction, in bytes. Matrix allows any text.
const LONGEST: usize = 64;
/// Most reactions of one message among which that of the bot is looked for.
const MOST: &str = "500";

#[derive(Deserialize)]
struct RelatedEvents {
    #[serde(default)]
    chunk: Vec<ReactionEvent>,
}

#[derive(Deserialize)]
struct ReactionEvent {
    event_id: String,
    sender: String,
    #[serde(default)]
    content: ReactionContent,
}

#[derive(Default, Deserialize)]
struct ReactionContent {
    #[serde(rename = "m.relates_to")]
    relation: Option<ReactionRelation>,
}

#[derive(Deserialize)]
struct ReactionRelation {
    key: Option<String>,
}

impl MatrixCalls<'_> {
    pub(super) async fn react(
        &mut self,
        chat: &ChatId,
        message: &MessageId,
        (emoji, remove): (&str, bool),
    ) -> Outcome {
        let Some(room) = room_of(chat) else { return no_chat() };
        if !is_event_id(message.as_str()) {
            return Outcome::failed("message not found");
        }
        let emoji = emoji.trim();
        if !remove && (emoji.is_empty() || emoji.len() > LONGEST) {
            return Outcome::failed("a reaction is one emoji");
        }
        let own = match self.own_reactions(room, message.as_str()).await {
            Ok(own) => own,
            Err(failure) => return Outcome::failed(failure.error(LABEL)),
        };
        // Without an emoji, all reactions of the bot are taken back.
        let mut same = own.into_iter().filter(|(_, key)| emoji.is_empty() || key == emoji);
        if remove {
            for (event, _) in same {
                if let Err(failure) = self.redact(room, &event).await {
                    return Outcome::failed(failure.error(LABEL));
                }
            }
            return Outcome::done();
        }
        if same.next().is_some() {
            return Outcome::done();
        }
        let relation = json!({ "rel_type": "m.annotation", "event_id": message, "key": emoji });
        let content = json!({ "m.relates_to": relation });
        match self.put_event(room, "m.reaction", "PUT reaction", content).await {
            Ok(_) => Outcome::done(),
            Err(refusal) => refusal.outcome(0, 1),
        }
    }

    /// The reactions of the bot to a message: the event and the emoji of each.
    async fn own_reactions(
        &mut self,
        room: &str,
        message: &str,
    ) -> Result<Vec<(String, String)>, CallFailure> {
        let path = ["client", "v1", "rooms", room, "relations", message, "m.annotation", "m.reaction"];
        let call = MatrixCall::new(Method::GET, "GET relations", &path).with_query("limit", MOST);
        let found: RelatedEvents = self.ask(call, RepeatRule::Harmless).await?;
        let own = self.bot.setting(USER_ID).unwrap_or_default();
        let reactions = found.chunk.into_iter().filter(|reaction| reaction.sender == own);
        Ok(reactions
            .filter_map(|reaction| {
                let key = reaction.content.relation.and_then(|relation| relation.key)?;
                Some((reaction.event_id, key))
            })
            .collect())
    }
}
