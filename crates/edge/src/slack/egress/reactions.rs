//! Reactions on Slack, which names emoji instead of writing them.

use posthouse_wire::action::Metadata;
use posthouse_wire::{ChatId, MessageId, Outcome};
use serde::de::IgnoredAny;
use serde_json::json;

use super::calls::SlackCalls;
use super::message_time;
use crate::platform_calls::{CallFailure, RepeatRule};
use crate::slack::LABEL;
use crate::slack::api::WebApiCall;
use crate::slack::emoji::name_of;

impl SlackCalls<'_> {
    pub(super) async fn react(
        &mut self,
        chat: &ChatId,
        message: &MessageId,
        (emoji, remove): (&str, bool),
    ) -> Outcome {
        let Some(ts) = message_time(message.as_str()) else { return Outcome::failed("message not found") };
        let Some(name) = name_of(emoji) else {
            return Outcome::failed(
                "this emoji is not known here by its name on Slack; use the name instead",
            );
        };
        let place = match self.place(chat, &Metadata::default(), None).await {
            Ok(place) => place,
            Err(refusal) => return refusal,
        };
        let method = if remove { "reactions.remove" } else { "reactions.add" };
        let body = json!({ "channel": place.channel, "timestamp": ts, "name": name });
        match self.ask::<IgnoredAny>(WebApiCall::json(method, body), RepeatRule::Harmless).await {
            Ok(_) => Outcome::done(),
            // It is as the agent wants it.
            Err(CallFailure::Refused(refusal))
                if refusal.says("already_reacted") || refusal.says("no_reaction") =>
            {
                Outcome::done()
            }
            Err(failure) => Outcome::failed(failure.error(LABEL)),
        }
    }
}
