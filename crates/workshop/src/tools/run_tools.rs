//! The tool `execute_skill`, and what was recorded of runs: `health_metrics` and `blocked_shell_attempts`.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{RunFilter, StoredRun};
use post::Caller;
use posthouse_time::Moment;
use serde_json::{Map, Value, json};
use skill::{RunTrigger, SkillObject, SkillValue};

use super::tool_failure::ToolFailure;
use super::tool_list::ToolSurface;
use crate::running::{RunOrder, RunText, SkillRunner, own_runs};

/// Runs that statistics look at.
const RECORDS: u32 = 1000;
const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Runs a skill. A skill that may not run or fails is a result; only bad arguments are an error.
pub async fn execute(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
    surface: ToolSurface,
) -> Result<Value, ToolFailure> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = match (text("name"), text("skill_name")) {
        (Some(name), Some(other)) if name != other => {
            return Err(ToolFailure::arguments(
                "execute_skill: `name` and `skill_name` mean the same; give one of them",
            ));
        }
        (name, other) => name.or(other),
    };
    let text = match (name, text("source")) {
        (Some(name), None) => RunText::Stored(name.to_owned()),
        (None, Some(source)) => {
            let source = super::skill_tools::given_text("execute_skill", source)?;
            // An agent cannot approve its own texts, so their effects would need nobody's approval.
            let may_approve = runner.runs().workshop().skills().may_approve(by).await;
            let may_approve = super::skill_tools::answered(may_approve)?;
            let with_effects = surface == ToolSurface::Rpc && may_approve;
            RunText::Given { source, with_effects }
        }
        _ => {
            let message = "execute_skill: exactly one of `name` or `source` is required.";
            return Err(ToolFailure::arguments(message));
        }
    };
    let order = RunOrder {
        text,
        inputs: inputs(arguments)?,
        is_mechanical: arguments.get("mechanical") == Some(&Value::Bool(true)),
        trigger: RunTrigger {
            source: if by.agent_id().is_some() { "agent" } else { "inline" }.into(),
            name: "execute_skill".into(),
            fired_at_ms: runner.runs().timepiece().now().millis(),
            trigger_id: None,
        },
        variables: Vec::new(),
        caller_agent: by.agent_id(),
    };
    let report = runner.runs().execute(by, order).await.map_err(|fault| ToolFailure::fault(&fault))?;
    let mut envelope = report.envelope;
    if let (ToolSurface::Mcp, Some(id)) = (surface, report.id) {
        envelope["run_id"] = id.to_string().into();
    }
    Ok(envelope)
}

/// The inputs of a run. They keep their JSON types.
pub fn inputs(arguments: &Map<String, Value>) -> Result<SkillObject, ToolFailure> {
    let unusable = || ToolFailure::arguments("`inputs` must be an object");
    match arguments.get("inputs") {
        None | Some(Value::Null) => Ok(SkillObject::default()),
        Some(inputs @ Value::Object(_)) => {
            let read = SkillValue::from_json(&inputs.to_string()).map_err(|_| unusable())?;
            read.as_object().cloned().ok_or_else(unusable)
        }
        Some(_) => Err(unusable()),
    }
}

/// Counts of triggered runs and of their tool calls, by skill and by connector.
pub async fn health(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let now = runner.runs().timepiece().now();
    let since = moment(arguments, "since_ms").unwrap_or(Moment::from_millis(now.millis() - millis(DAY)));
    let until = moment(arguments, "until_ms").unwrap_or(now);
    let wanted = |name: &str| -> Option<Vec<String>> {
        let list = arguments.get(name)?.as_array()?;
        Some(list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect())
    };
    let (skills, connectors) = (wanted("skills"), wanted("connectors"));
    let filter = RunFilter { since: Some(since), triggered: true, ..RunFilter::default() };
    let records = records(runner, by, filter).await?;
    let records = records.iter().filter(|run| run.run.fired <= until);
    let (mut per_skill, mut per_connector) =
        (BTreeMap::<String, Tally>::new(), BTreeMap::<String, Tally>::new());
    let mut total = 0;
    for run in records {
        if skills.as_ref().is_some_and(|skills| !skills.contains(&run.run.skill)) {
            continue;
        }
        total += 1;
        let duration =
            run.ended.zip(run.started).map_or(0, |(ended, started)| ended.millis() - started.millis());
        per_skill.entry(run.run.skill.clone()).or_default().count(duration, run.error.is_some());
        for op in ops(run) {
            let Some(connector) = op["connector"].as_str() else { continue };
            if connectors.as_ref().is_none_or(|connectors| connectors.iter().any(|name| name == connector)) {
                let duration = op["duration_ms"].as_i64().unwrap_or_default();
                let has_failed = op["errored"] == Value::Bool(true);
                per_connector.entry(connector.to_owned()).or_default().count(duration, has_failed);
            }
        }
    }
    let shown = |tallies: BTreeMap<String, Tally>| -> Map<String, Value> {
        tallies.into_iter().map(|(name, tally)| (name, tally.into_value())).collect()
    };
    Ok(json!({
        "windowStart_ms": since.millis(),
        "windowEnd_ms": until.millis(),
        "perSkill": shown(per_skill),
        "perConnector": shown(per_connector),
        "totalFires": total,
    }))
}

/// Commands that were refused because their program is not allowed, newest first. A command can hold what only the
/// caller of its run may know, so an agent sees those of its own runs.
pub async fn blocked_commands(
    runner: &SkillRunner,
    by: &Caller,
    arguments: &Map<String, Value>,
) -> Result<Value, ToolFailure> {
    let now = runner.runs().timepiece().now();
    let since = moment(arguments, "since_ms").unwrap_or(Moment::from_millis(now.millis() - millis(WEEK)));
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(100);
    let filter = RunFilter { since: Some(since), caller: own_runs(by), ..RunFilter::default() };
    let records = records(runner, by, filter).await?;
    let mut attempts = Vec::new();
    for run in &records {
        for op in ops(run).into_iter().filter(|op| op.get("blocked_reason").is_some()) {
            let body = op["body"].as_str().unwrap_or_default();
            let command = body.split_once('"').map_or(body, |(_, behind)| behind);
            attempts.push(json!({
                "skill_name": run.run.skill,
                "target": op["target"],
                "binary": command.split([' ', '"']).next(),
                "body": body,
                "fired_at_ms": run.run.fired.millis(),
            }));
        }
    }
    let total = attempts.len();
    attempts.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(json!({ "attempts": attempts, "total": total }))
}

/// The last triggered runs of a skill.
pub async fn recent_fires(
    runner: &SkillRunner,
    by: &Caller,
    skill: &str,
    limit: u32,
) -> Result<Value, ToolFailure> {
    let filter = RunFilter { skill: Some(skill.to_owned()), triggered: true, ..RunFilter::default() };
    let runs = runner.runs().records().runs(&by.tenant, filter, None, limit.min(RECORDS)).await;
    let runs = runs.map_err(|fault| ToolFailure::fault(&fault))?;
    let shown = runs.iter().map(|run| {
        json!({
            "trace_id": run.run.id,
            "fired_at_ms": run.run.fired.millis(),
            "trigger": { "source": run.run.source, "name": run.run.trigger_name },
            "state": run.state.word(),
            "error": run.error,
        })
    });
    Ok(shown.collect())
}

async fn records(
    runner: &SkillRunner,
    by: &Caller,
    filter: RunFilter,
) -> Result<Vec<StoredRun>, ToolFailure> {
    let records = runner.runs().records().run_records(&by.tenant, filter, RECORDS).await;
    records.map_err(|fault| ToolFailure::fault(&fault))
}

/// The recorded operations of a run, with those of the skills that it ran.
fn ops(run: &StoredRun) -> Vec<Value> {
    let record = run.record.as_deref().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(mut record) = record else { return Vec::new() };
    let mut ops = record["ops"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for child in record["skills"].as_array_mut().into_iter().flatten() {
        ops.extend(child["ops"].as_array_mut().map(std::mem::take).unwrap_or_default());
    }
    ops
}

#[derive(Default)]
struct Tally {
    fires: u64,
    errors: u64,
    durations: Vec<i64>,
}

impl Tally {
    fn count(&mut self, duration: i64, has_failed: bool) {
        self.fires += 1;
        self.errors += u64::from(has_failed);
        self.durations.push(duration);
    }

    fn into_value(mut self) -> Value {
        self.durations.sort_unstable();
        let at = |share: usize| {
            let index = (self.durations.len() * share / 100).min(self.durations.len().saturating_sub(1));
            self.durations.get(index).copied().unwrap_or_default()
        };
        json!({ "fires": self.fires, "errors": self.errors, "p50_ms": at(50), "p95_ms": at(95) })
    }
}

fn moment(arguments: &Map<String, Value>, name: &str) -> Option<Moment> {
    arguments.get(name).and_then(Value::as_i64).map(Moment::from_millis)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
