//! Admin API: access decisions and pairing requests of bots.

use axum::extract::{Path, State};
use axum::{Extension, Json};
use http_kit::Page;
use ledger::{AccessRule, BotRef, Decision, Pairing, Subject};
use posthouse_wire::{BotId, Platform, UserId};
use serde::{Deserialize, Serialize};

use crate::audit::AuditSubject;
use crate::extract::{JsonBody, PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccessQuery {
    platform: Option<Platform>,
    bot: Option<BotId>,
    after: Option<String>,
    limit: Option<usize>,
}

/// A sender with a decision, or with a pending request.
#[derive(Serialize)]
pub(crate) struct ShownAccess {
    platform: Platform,
    bot: BotId,
    /// `user:ID` or `chat:ID`.
    subject: String,
    /// `allowed`, `denied` or `pending`.
    state: &'static str,
    /// The name that the sender uses on the platform. It is not verified.
    name: Option<String>,
    /// The pairing code of a pending request.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    /// The author of the message: for a chat, the person who wrote in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked_by: Option<UserId>,
    since: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
}

fn shown_rule(rule: AccessRule) -> ShownAccess {
    ShownAccess {
        platform: rule.on.platform,
        bot: rule.on.bot,
        subject: rule.subject.to_string(),
        state: rule.decision.as_str(),
        name: rule.name,
        code: None,
        asked_by: None,
        since: rule.decided.to_string(),
        expires_at: None,
    }
}

fn shown_pairing(pairing: Pairing) -> ShownAccess {
    ShownAccess {
        platform: pairing.on.platform,
        bot: pairing.on.bot,
        subject: pairing.subject.to_string(),
        state: "pending",
        name: pairing.name,
        code: Some(pairing.code),
        asked_by: pairing.asked_by,
        since: pairing.asked.to_string(),
        expires_at: Some(pairing.expires.to_string()),
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<AccessQuery>,
) -> Result<Json<Page<ShownAccess>>, AdminProblem> {
    let on = match (which.platform, which.bot) {
        (Some(platform), Some(bot)) => Some(console.closable(platform.as_str(), bot.as_str()).await?),
        (None, None) => None,
        _ => return Err(AdminProblem::malformed("`platform` and `bot` must be given together")),
    };
    let access = console.identity.gate.access();
    let mut all: Vec<ShownAccess> =
        access.pairings(on.as_ref()).await?.into_iter().map(shown_pairing).collect();
    all.extend(access.rules(on.as_ref()).await?.into_iter().map(shown_rule));
    let key = |one: &ShownAccess| format!("{}:{} {} {}", one.platform, one.bot, one.subject, one.state);
    all.sort_by_key(key);
    Ok(Json(Page::of_sorted(all, key, which.after.as_deref(), PAGE.clamp(which.limit))))
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verb {
    Allow,
    Deny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewDecision {
    decision: Verb,
    /// The pairing code that the bot gave to the sender.
    #[serde(default)]
    code: Option<String>,
    /// `user:ID`, `chat:ID` or `group:ID`.
    #[serde(default)]
    subject: Option<String>,
}

pub(crate) async fn decide(
    State(console): State<Console>,
    Path((platform, bot)): Path<(String, String)>,
    JsonBody(new): JsonBody<NewDecision>,
) -> Result<(Extension<AuditSubject>, Json<ShownAccess>), AdminProblem> {
    let on = console.closable(&platform, &bot).await?;
    let decision = match new.decision {
        Verb::Allow => Decision::Allowed,
        Verb::Deny => Decision::Denied,
    };
    let access = console.identity.gate.access();
    let rule = match (new.code, new.subject) {
        (Some(code), None) => access.decide_by_code(&on, &code, decision).await?.ok_or_else(|| {
            let detail =
                format!("{platform}:{bot} has no pending pairing code `{code}`: codes expire after an hour");
            AdminProblem::absent("no_such_code", detail)
        })?,
        (None, Some(subject)) => {
            let subject = read_subject(&subject)?;
            if !access.decide(&on, &subject, decision).await? {
                return Err(AdminProblem::absent("no_such_bot", format!("there is no bot {platform}:{bot}")));
            }
            let rules = access.rules(Some(&on)).await?;
            let made = rules.into_iter().find(|rule| rule.subject == subject);
            made.ok_or_else(|| {
                AdminProblem::conflict("changed", "the decision was changed at the same time: try again")
            })?
        }
        _ => return Err(AdminProblem::malformed("give either `code` or `subject`")),
    };
    let about = AuditSubject::new(format!("{} {} on {platform}:{bot}", decision.as_str(), rule.subject));
    Ok((Extension(about), Json(shown_rule(rule))))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OneSubject {
    subject: String,
}

#[derive(Serialize)]
pub(crate) struct RemovedAccess {
    platform: Platform,
    bot: BotId,
    subject: String,
}

/// Deletes a decision or a pending request.
pub(crate) async fn remove(
    State(console): State<Console>,
    Path((platform, bot)): Path<(String, String)>,
    QueryParams(one): QueryParams<OneSubject>,
) -> Result<Json<RemovedAccess>, AdminProblem> {
    let on = console.closable(&platform, &bot).await?;
    let subject = read_subject(&one.subject)?;
    if !console.identity.gate.access().forget(&on, &subject).await? {
        let detail = format!("there is no decision and no request of {subject} for {platform}:{bot}");
        return Err(AdminProblem::absent("no_such_subject", detail));
    }
    Ok(Json(RemovedAccess { platform: on.platform, bot: on.bot, subject: subject.to_string() }))
}

fn read_subject(text: &str) -> Result<Subject, AdminProblem> {
    text.parse().map_err(|()| {
        let detail = format!("`{text}` is not a subject: use user:ID, chat:ID or group:ID");
        AdminProblem::unfit("bad_subject", detail)
    })
}

impl Parts {
    /// A bot whose senders the operator admits.
    async fn closable(&self, platform: &str, bot: &str) -> Result<BotRef, AdminProblem> {
        let record = self.bot(platform, bot).await?;
        if self.is_built_in(&record.platform) {
            let detail =
                format!("platform `{platform}` admits senders by invitation: use `posthouse invite`");
            return Err(AdminProblem::conflict("built_in", detail));
        }
        Ok(BotRef { platform: record.platform, bot: record.id })
    }
}
