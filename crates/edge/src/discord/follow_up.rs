//! Follow-ups: answers to an interaction, sent with its token.
//!
//! An interaction that was deferred visibly ("is thinking") already has a message, `@original`. The first follow-up
//! fills it, and the others are new messages.

use std::time::Duration;

use http::Method;
use moka::sync::Cache;
use posthouse_wire::{Outcome, TenantId};
use serde::Deserialize;
use serde_json::Value;

use super::api::DiscordCall;
use super::egress::{CreatedMessage, message};
use super::normalize::InteractionToken;
use super::{Discord, INTERACTION_TOKEN, LABEL};
use crate::bots::OpenedBot;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};

/// Type of a deferral that people see as "is thinking".
const VISIBLE: u8 = 5;
/// Flag of an answer that is still to come.
const LOADING: u64 = 1 << 7;
/// Longer than the life of any token.
const REMEMBERED: Duration = Duration::from_secs(1200);

/// Interactions whose first answer was given by this process. Clones share one state.
#[derive(Clone)]
pub(super) struct FirstAnswers(Cache<String, ()>);

impl Default for FirstAnswers {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(100_000).time_to_live(REMEMBERED).build())
    }
}

#[derive(Deserialize)]
struct OriginalAnswer {
    #[serde(default)]
    flags: u64,
}

pub(super) async fn send(discord: &Discord, bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
    let nothing =
        |error: &str| FollowedUp { outcome: Outcome::failed(error), called: "nothing", had_no_effect: true };
    if follow_up.kind.as_str() != INTERACTION_TOKEN {
        return FollowedUp { outcome: Outcome::no_capability(), ..nothing("") };
    }
    let Ok(token) = serde_json::from_str::<InteractionToken>(follow_up.value.expose()) else {
        return FollowedUp { outcome: Outcome::no_capability(), ..nothing("") };
    };
    let chunks = discord.chunks(bot, follow_up.content).await;
    if chunks.is_empty() {
        return nothing("message text is empty");
    }
    let mut answer = InteractionAnswer {
        discord,
        bot,
        token: &token,
        tenant: &follow_up.permitted.tenant,
        calls: CallsWithDeadline::new(&discord.timepiece, follow_up.permitted.deadline),
    };
    let (mut last, mut sent) = (None, 0);
    for chunk in &chunks {
        match answer.post(chunk).await {
            Ok(created) => {
                sent += 1;
                last = Some(created.id);
            }
            Err(failure) => {
                let outcome = match &failure {
                    // The token has ended. The agent gets the same answer as for a capability that never existed.
                    CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. }) if sent == 0 => {
                        Outcome::no_capability()
                    }
                    failure if sent == 0 => Outcome::failed(failure.error(LABEL)),
                    failure => {
                        let (of, cause) = (chunks.len(), failure.cause(LABEL));
                        Outcome::failed(format!(
                            "only {sent} of {of} messages were sent, then it failed or timed out: {cause}"
                        ))
                    }
                };
                let had_no_effect = sent == 0 && failure.had_no_effect();
                return FollowedUp { outcome, called: "answer to an interaction", had_no_effect };
            }
        }
    }
    let outcome = last.map_or_else(Outcome::done, |id| Outcome::sent(id.into()));
    FollowedUp { outcome, called: "answer to an interaction", had_no_effect: false }
}

struct InteractionAnswer<'a> {
    discord: &'a Discord,
    bot: &'a OpenedBot,
    token: &'a InteractionToken,
    tenant: &'a TenantId,
    calls: CallsWithDeadline<'a>,
}

impl InteractionAnswer<'_> {
    async fn post(&mut self, text: &str) -> Result<CreatedMessage, CallFailure> {
        let id = &self.token.interaction_id;
        let body = message(text);
        if self.token.deferred == VISIBLE && !self.discord.first_answers.0.contains_key(id) {
            // After a restart only Discord knows whether the first answer was sent.
            let awaited = self.is_awaited().await?;
            self.discord.first_answers.0.insert(id.clone(), ());
            if awaited {
                let filled = self.call(Method::PATCH, "/messages/@original", Some(body)).await;
                if filled.as_ref().is_err_and(CallFailure::had_no_effect) {
                    self.discord.first_answers.0.invalidate(id);
                }
                return filled;
            }
        }
        self.call(Method::POST, "?wait=true", Some(body)).await
    }

    async fn is_awaited(&mut self) -> Result<bool, CallFailure> {
        let original: OriginalAnswer = self.call(Method::GET, "/messages/@original", None).await?;
        Ok(original.flags & LOADING != 0)
    }

    async fn call<R: serde::de::DeserializeOwned>(
        &mut self,
        method: Method,
        rest: &str,
        body: Option<Value>,
    ) -> Result<R, CallFailure> {
        let InteractionToken { application_id, token, .. } = self.token;
        let (name, repeat) = match method {
            Method::GET => ("GET /webhooks/ID/TOKEN/messages/@original", RepeatRule::Harmless),
            Method::PATCH => ("PATCH /webhooks/ID/TOKEN/messages/@original", RepeatRule::Harmless),
            // Here Discord takes no nonce by which it would recognise a repeat.
            _ => ("POST /webhooks/ID/TOKEN", RepeatRule::IfRefused),
        };
        let path = format!("/webhooks/{application_id}/{token}{rest}");
        // The rate-limit key is the interaction's id and not its token, because keys of tables must not be secrets.
        let call =
            DiscordCall::new(method, name, path).of(self.token.interaction_id.as_str()).without_token();
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        let call = call.for_tenant(self.tenant);
        let (discord, bot) = (self.discord, self.bot);
        self.calls.call(name, repeat, |left| discord.call(bot, call.clone(), left)).await
    }
}
