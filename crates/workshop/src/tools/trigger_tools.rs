//! The tools for triggers: `list_triggers`, `register_trigger`, `unregister_trigger`, `set_trigger_enabled`.

use ledger::TriggerRecord;
use post::Caller;
use posthouse_time::Moment;
use serde_json::{Map, Value, json};
use skill::CronFields;

use super::skill_tools::required;
use super::tool_failure::ToolFailure;
use crate::running::{EnableOutcome, RegisterOutcome, SkillRunner, trigger_id};
use crate::store_refusal::StoreRefusal;

const TOO_MANY: &str = "the tenant has too many triggers";

pub async fn list(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let wanted = |name: &str| arguments.get(name).and_then(Value::as_str);
    let (skill, source) = (wanted("skill"), wanted("source"));
    let all = refused(runner.triggers().list(&by.tenant).await.map_err(|fault| ToolFailure::fault(&fault))?)?;
    let shown = all.iter().filter(|found| {
        skill.is_none_or(|skill| found.trigger.skill == skill)
            && source.is_none_or(|source| found.trigger.source == source)
    });
    Ok(shown.map(registration).collect())
}

/// Adds a trigger for a stored skill. An agent may do this only if it may approve skills.
pub async fn register(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    check_caller(runner, by).await?;
    let skill = required(arguments, "register_trigger", "skill_name")?;
    let source = required(arguments, "register_trigger", "source")?;
    let name = required(arguments, "register_trigger", "name")?;
    match source {
        "cron" if CronFields::read(name).is_none() => {
            return Err(ToolFailure::arguments("register_trigger: a cron expression has five fields"));
        }
        "cron" | "event" => {}
        _ => return Err(ToolFailure::arguments("register_trigger: `source` must be cron or event")),
    }
    let expires = arguments.get("expires_at").and_then(Value::as_i64).map(Moment::from_seconds);
    let added = runner.triggers().register(&by.tenant, skill, source, name, expires).await;
    match refused(added.map_err(|fault| ToolFailure::fault(&fault))?)? {
        RegisterOutcome::Added(added) => Ok(registration(&added)),
        RegisterOutcome::NeverFires => {
            Err(ToolFailure::arguments("register_trigger: no date matches this cron expression"))
        }
        RegisterOutcome::TooMany => Err(ToolFailure::refused(TOO_MANY)),
    }
}

pub async fn unregister(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    check_caller(runner, by).await?;
    let number = number(required(arguments, "unregister_trigger", "trigger_id")?);
    let removed = match number {
        Some(number) => runner.triggers().remove(&by.tenant, number).await,
        None => Ok(false),
    };
    Ok(json!({ "removed": removed.map_err(|fault| ToolFailure::fault(&fault))? }))
}

pub async fn set_enabled(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    check_caller(runner, by).await?;
    let number = number(required(arguments, "set_trigger_enabled", "trigger_id")?);
    let Some(enabled) = arguments.get("enabled").and_then(Value::as_bool) else {
        return Err(ToolFailure::arguments("set_trigger_enabled: `enabled` must be true or false"));
    };
    let outcome = match number {
        Some(number) => runner.triggers().enable(&by.tenant, number, enabled).await,
        None => Ok(EnableOutcome::Absent),
    };
    match outcome.map_err(|fault| ToolFailure::fault(&fault))? {
        EnableOutcome::Changed(changed) => Ok(registration(&changed)),
        EnableOutcome::Absent => Ok(Value::Null),
        EnableOutcome::TooMany => Err(ToolFailure::refused(TOO_MANY)),
    }
}

/// Triggers decide what runs without being asked, so an agent needs the same right as for an approval.
async fn check_caller(runner: &SkillRunner, by: &Caller) -> Result<(), ToolFailure> {
    let may = super::skill_tools::answered(runner.runs().workshop().skills().may_approve(by).await)?;
    if may { Ok(()) } else { Err(ToolFailure::refused("agents of this tenant may not change triggers")) }
}

fn refused<T>(answer: Result<T, StoreRefusal>) -> Result<T, ToolFailure> {
    super::skill_tools::answered(Ok(answer))
}

fn number(id: &str) -> Option<i64> {
    id.strip_prefix("trig-")?.parse().ok()
}

/// A trigger in the words of the reference runtime.
fn registration(of: &TriggerRecord) -> Value {
    let trigger = &of.trigger;
    let mut shown = json!({
        "id": trigger_id(of.number),
        "skillName": trigger.skill,
        "source": trigger.source,
        "name": trigger.name,
        "registeredAt": of.registered.millis().div_euclid(1000),
        "declarative": trigger.declarative,
        "enabled": of.enabled,
    });
    if let Some(params) = &trigger.params {
        shown["params"] = json!(params);
    }
    if let Some(expires) = trigger.expires {
        shown["expiresAt"] = expires.millis().div_euclid(1000).into();
    }
    shown
}
