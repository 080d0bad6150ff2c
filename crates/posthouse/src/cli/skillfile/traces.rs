//! `posthouse skillfile fires`, `replay` and `health`: the recorded runs of a home folder.

use posthouse_time::{Moment, Timepiece};
use serde_json::{Map, Value, json};
use skill::check::render_plain;
use skill::{ContentHash, SkillObject, SkillOutcome, SkillValue, TraceMode};

use super::{NO_INPUT, UNEXPECTED, USAGE, failure};
use crate::cli::Exit;
use crate::cli::output::{Output, at, cell, without_control_characters};
use crate::cli::skill::given_skill::{GivenLibrary, GivenSkill};
use crate::cli::skill_home::{ConnectorSource, LocalEnd, LocalHost, LocalOrder, SkillHome};

/// The window of the statistics: a day.
const WINDOW_MS: i64 = 24 * 3600 * 1000;

/// The recorded runs of a skill, newest first.
pub fn fires(
    output: &Output,
    home: &SkillHome,
    skill: &str,
    limit: usize,
    human: bool,
) -> anyhow::Result<()> {
    let traces = home.traces();
    let mut records = traces.records(Some(skill))?;
    records.truncate(limit);
    if !human {
        return output.value(&Value::Array(records));
    }
    if records.is_empty() {
        return output.text(&format!("no run of '{skill}' is recorded in {}\n", traces.folder().display()));
    }
    let mut lines = String::new();
    for record in &records {
        let status = match record["errors"][0]["class"].as_str() {
            Some(class) => format!("err:{class}"),
            None => "ok".to_owned(),
        };
        let (id, millis) = (cell(&record["trace_id"]), cell(&record["duration_ms"]));
        let ops = record["ops"].as_array().map_or(0, Vec::len);
        lines.push_str(&format!("{}  {id}  {status}  {millis}ms  {ops} ops\n", at(&record["fired_at_ms"])));
    }
    output.text(&without_control_characters(&lines))
}

/// Runs the skill of a recorded run again as it is stored now: mechanically, with the defaults of its variables.
pub async fn replay(output: &Output, home: &SkillHome, id: &str, connectors: &str) -> anyhow::Result<()> {
    if connectors != "current" {
        let words = format!("--connectors '{connectors}' is not supported; use `current`");
        return Err(Exit { code: USAGE, words }.into());
    }
    let traces = home.traces();
    let missing = |words: String| Exit { code: NO_INPUT, words };
    let record = traces.find(id)?;
    let record = record
        .ok_or_else(|| missing(format!("there is no trace '{id}' in {}", traces.folder().display())))?;
    let name = record["skill_name"].as_str().unwrap_or_default();
    let source = home.stored_text(name);
    let source = source.ok_or_else(|| missing(format!("the skill '{name}' is no longer stored")))?;
    let version = ContentHash::of(&source).version().to_owned();
    let library = GivenLibrary::Folder { folder: home.skills(), policy: home.policy()? };
    // A run that only shows what it would do needs no approval.
    let text = GivenSkill { label: name.to_owned(), source, version: None, is_stored: false, library };
    let order = LocalOrder {
        inputs: SkillObject::default(),
        is_mechanical: true,
        gates_files: false,
        trace: TraceMode::Off,
    };
    let unexpected = |words: String| Exit { code: UNEXPECTED, words };
    let outcome = match LocalHost::open(home, ConnectorSource::Nowhere).await?.run(&text, &order).await {
        LocalEnd::Ended { outcome, .. } => outcome,
        LocalEnd::Refused(refusal) => return Err(unexpected(refusal.message).into()),
        LocalEnd::LintErrors(findings) => return Err(unexpected(render_plain(&findings)).into()),
    };
    output.value(&json!({
        "replayed_trace_id": id,
        "replay_skill_version": version,
        "original_skill_version": record["skill_version"],
        "result": result(&outcome)?,
    }))?;
    if outcome.errors.is_empty() { Ok(()) } else { Err(failure(format!("'{name}' failed in the replay"))) }
}

/// The result of a run with the field names of the reference.
fn result(outcome: &SkillOutcome) -> anyhow::Result<Value> {
    let mut envelope = serde_json::to_value(SkillValue::from(outcome.envelope("", &[])))?;
    let variables = outcome.variables.iter().filter_map(|(name, value)| Some((&**name, value?.clone())));
    let variables = serde_json::to_value(SkillValue::from(variables.collect::<SkillObject>()))?;
    let mut result = json!({ "finalVars": variables });
    for (own, theirs) in [
        ("transcript", "emissions"),
        ("outputs", "outputs"),
        ("errors", "errors"),
        ("fallbacks", "fallbacks"),
        ("target_order", "targetOrder"),
        ("agent_delivery_receipts", "agentDeliveryReceipts"),
        ("agent_wake_receipts", "agentWakeReceipts"),
    ] {
        result[theirs] = envelope[own].take();
    }
    Ok(result)
}

/// Which runs and calls the statistics count.
pub struct HealthFilter {
    pub skill: Option<String>,
    pub connector: Option<String>,
    pub since_ms: Option<i64>,
}

/// Counts of recorded runs by skill, and of tool calls by connector.
pub fn health(output: &Output, home: &SkillHome, filter: &HealthFilter, human: bool) -> anyhow::Result<()> {
    let now = Timepiece::wall().now().millis();
    let since = filter.since_ms.unwrap_or(now - WINDOW_MS);
    let mut records = home.traces().records(filter.skill.as_deref())?;
    records
        .retain(|record| record["fired_at_ms"].as_i64().is_some_and(|fired| (since..=now).contains(&fired)));
    let (skills, connectors) = (per_skill(&records), per_connector(&records, filter.connector.as_deref()));
    if !human {
        return output.value(&json!({
            "windowStart_ms": since,
            "windowEnd_ms": now,
            "perSkill": skills,
            "perConnector": connectors,
            "totalFires": records.len(),
        }));
    }
    let moment = |millis| Moment::from_millis(millis).to_string();
    let mut text = format!("{} to {}: {} runs\n", moment(since), moment(now), records.len());
    for (name, counts) in &skills {
        let [runs, good, bad] = ["fireCount", "successCount", "errorCount"].map(|field| cell(&counts[field]));
        text.push_str(&format!("skill {name}: {runs} runs, {good} succeeded, {bad} with errors\n"));
    }
    for (name, counts) in &connectors {
        let latency = &counts["latencyMs"];
        let [calls, bad] = ["callCount", "errorCount"].map(|field| cell(&counts[field]));
        let [p50, p95, p99] = ["p50", "p95", "p99"].map(|field| cell(&latency[field]));
        text.push_str(&format!(
            "connector {name}: {calls} calls, {bad} with errors, p50 {p50} ms, p95 {p95} ms, p99 {p99} ms\n"
        ));
    }
    output.text(&without_control_characters(&text))
}

fn items<'r>(record: &'r Value, field: &str) -> &'r [Value] {
    record[field].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[expect(clippy::cast_precision_loss, reason = "a count of runs is below 2^53")]
fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

fn per_skill(records: &[Value]) -> Map<String, Value> {
    let mut skills = Map::new();
    for record in records {
        let name = record["skill_name"].as_str().unwrap_or_default();
        if skills.contains_key(name) {
            continue;
        }
        let own: Vec<&Value> = records.iter().filter(|other| other["skill_name"] == name).collect();
        let count = |matches: &dyn Fn(&Value) -> bool| own.iter().filter(|record| matches(record)).count();
        let failed = count(&|record| !items(record, "errors").is_empty());
        let mut categories = json!({});
        for error in own.iter().flat_map(|record| items(record, "errors")) {
            let [kind, class] = ["opKind", "class"].map(|field| error[field].as_str().unwrap_or_default());
            categories[kind][class] = (categories[kind][class].as_u64().unwrap_or(0) + 1).into();
        }
        let is_cut = |record: &Value| record["deadline_exceeded"] == Value::Bool(true);
        let is_uncertain = |record: &Value| !items(record, "uncertain_effects").is_empty();
        let is_clean =
            |record: &Value| items(record, "errors").is_empty() && !is_cut(record) && !is_uncertain(record);
        let last_failure =
            own.iter().filter(|record| !is_clean(record)).filter_map(|r| r["fired_at_ms"].as_i64());
        let mut counts = json!({
            "fireCount": own.len(),
            "successCount": own.len() - failed,
            "errorCount": failed,
            "deadlineExceededCount": count(&is_cut),
            "uncertainEffectCount": count(&is_uncertain),
            "successRate": share(own.len() - failed, own.len()),
            "errorCategories": categories,
        });
        if let Some(last) = last_failure.max() {
            counts["lastFailure_ms"] = last.into();
        }
        skills.insert(name.to_owned(), counts);
    }
    skills
}

fn per_connector(records: &[Value], only: Option<&str>) -> Map<String, Value> {
    let calls: Vec<(&str, &Value)> = records
        .iter()
        .flat_map(|record| items(record, "ops"))
        .filter_map(|op| Some((op["connector"].as_str()?, op)))
        .filter(|(name, _)| only.is_none_or(|only| only == *name))
        .collect();
    let mut connectors = Map::new();
    for (name, _) in &calls {
        if connectors.contains_key(*name) {
            continue;
        }
        let own: Vec<&Value> = calls.iter().filter(|(other, _)| other == name).map(|(_, op)| *op).collect();
        let has_failed = |op: &&&Value| op["errored"] == Value::Bool(true);
        let failed = own.iter().filter(has_failed).count();
        let mut latencies: Vec<i64> = own.iter().filter_map(|op| op["duration_ms"].as_i64()).collect();
        latencies.sort_unstable();
        let percentile = |percent: usize| {
            let index = (latencies.len() * percent / 100).min(latencies.len().saturating_sub(1));
            latencies.get(index).copied().unwrap_or(0)
        };
        let mut counts = json!({
            "callCount": own.len(),
            "errorCount": failed,
            "errorRate": share(failed, own.len()),
            "latencyMs": { "p50": percentile(50), "p95": percentile(95), "p99": percentile(99) },
        });
        let good = own.iter().filter(|op| !has_failed(op));
        let ends = good.filter_map(|op| Some(op["started_at_ms"].as_i64()? + op["duration_ms"].as_i64()?));
        if let Some(last) = ends.max() {
            counts["lastSuccess_ms"] = last.into();
        }
        connectors.insert((*name).to_owned(), counts);
    }
    connectors
}
