//! Follow-ups: a text in place of a card whose button somebody pressed, by the token of the press.

use http::Method;
use posthouse_wire::Outcome;
use serde::de::IgnoredAny;
use serde_json::json;

use super::api::FeishuCall;
use super::post_text::{card, chunks};
use super::{CARD_TOKEN, Feishu, LABEL};
use crate::bots::OpenedBot;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};

const CALLED: &str = "POST card update";

pub(super) async fn send(feishu: &Feishu, bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
    let nothing = |outcome| FollowedUp { outcome, called: "nothing", had_no_effect: true };
    if follow_up.kind.as_str() != CARD_TOKEN {
        return nothing(Outcome::no_capability());
    }
    let chunks = feishu.split_limits.run(&bot.id, follow_up.content, chunks).await;
    let [text] = chunks.as_slice() else {
        let error =
            if chunks.is_empty() { "message text is empty" } else { "the message is too long for a card" };
        return nothing(Outcome::failed(error));
    };
    let body = json!({ "token": follow_up.value.expose(), "card": card(text, Vec::new()) });
    let call = FeishuCall::json(CALLED, Method::POST, "/interactive/v1/card/update".to_owned(), body);
    let call = call.for_tenant(&follow_up.permitted.tenant);
    let mut calls = CallsWithDeadline::new(&feishu.timepiece, follow_up.permitted.deadline);
    let updated = calls
        .call(CALLED, RepeatRule::IfNothingWasDone, |left| feishu.call::<IgnoredAny>(bot, &call, left))
        .await;
    let Err(failure) = updated else {
        // The card is the message. Its id is not in the answer.
        return FollowedUp { outcome: Outcome::done(), called: CALLED, had_no_effect: false };
    };
    let outcome = match &failure {
        // The token has ended. The agent gets the same answer as for a capability that never existed.
        CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone | RefusalKind::Permanent, .. }) => {
            Outcome::no_capability()
        }
        failure => Outcome::failed(failure.error(LABEL)),
    };
    FollowedUp { outcome, called: CALLED, had_no_effect: failure.had_no_effect() }
}
