//! Admin API: armed cron jobs and their fires.

use std::collections::HashMap;

use axum::Json;
use axum::extract::{Path, State};
use clock::{JobFilter, ManualFire};
use http_kit::{Page, PageSize};
use ledger::{Arm, ArmKey, ArmState};
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, JobId, TenantId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agents::TenantQuery;
use crate::extract::{PAGE, QueryParams};
use crate::problem::AdminProblem;
use crate::routes::{Console, Parts};

/// Number of history lines per page.
const HISTORY: PageSize = PageSize { default: 100, largest: 1000 };

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JobsQuery {
    agent: Option<String>,
    tenant: Option<String>,
    state: Option<String>,
    after: Option<i64>,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FireHistoryQuery {
    agent: String,
    tenant: Option<String>,
    job: Option<String>,
    before: Option<i64>,
    limit: Option<usize>,
}

#[derive(Serialize)]
pub(crate) struct ShownJob {
    tenant: String,
    agent: String,
    instance_id: InstanceId,
    job_id: JobId,
    schedule_id: String,
    fire_at: String,
    state: &'static str,
    attempts: u32,
    next_attempt: String,
    last_status: Option<u16>,
    last_error: Option<String>,
    armed_at: String,
    /// The callback URL; none if it fires over the socket.
    callback: Option<String>,
    policy: Value,
    then: Vec<String>,
}

/// Names of the tenants and agents in an answer, fetched on demand.
#[derive(Default)]
struct JobNames {
    tenants: HashMap<TenantId, String>,
    agents: HashMap<InstanceId, String>,
}

impl JobNames {
    async fn shown(&mut self, console: &Parts, arm: Arm) -> Result<ShownJob, AdminProblem> {
        let roster = console.identity.roster.records();
        if !self.agents.contains_key(&arm.instance) {
            let found = roster.instance(&arm.instance).await?;
            self.agents.insert(arm.instance.clone(), found.map_or_else(String::new, |agent| agent.name));
        }
        if !self.tenants.contains_key(&arm.tenant) {
            let found = roster.tenant(arm.tenant.as_str()).await?;
            self.tenants.insert(arm.tenant.clone(), found.map_or_else(String::new, |tenant| tenant.name));
        }
        Ok(ShownJob {
            tenant: self.tenants.get(&arm.tenant).cloned().unwrap_or_default(),
            agent: self.agents.get(&arm.instance).cloned().unwrap_or_default(),
            instance_id: arm.instance,
            job_id: arm.job,
            schedule_id: arm.schedule.to_string(),
            fire_at: arm.fire_at.text().to_owned(),
            state: arm.state.word(),
            attempts: arm.attempts,
            next_attempt: Moment::from_millis(arm.next_us.div_euclid(1000)).to_string(),
            last_status: arm.last_status,
            last_error: arm.last_error,
            armed_at: arm.created.to_string(),
            callback: arm.callback,
            policy: serde_json::to_value(&arm.policy).unwrap_or_default(),
            then: arm.then.iter().map(|time| time.text().to_owned()).collect(),
        })
    }
}

pub(crate) async fn list(
    State(console): State<Console>,
    QueryParams(which): QueryParams<JobsQuery>,
) -> Result<Json<Page<ShownJob>>, AdminProblem> {
    let mut filter = JobFilter { after: which.after.map(ArmKey), ..JobFilter::default() };
    match (&which.agent, &which.tenant) {
        (Some(agent), tenant) => {
            filter.instance = Some(console.agent(agent, tenant.as_deref()).await?.1.id);
        }
        (None, Some(tenant)) => filter.tenant = Some(console.tenant(tenant).await?.id),
        (None, None) => {}
    }
    filter.state = match which.state.as_deref() {
        None => None,
        Some("armed") => Some(ArmState::Armed),
        Some("dispatching") => Some(ArmState::Dispatching),
        Some("dead") => Some(ArmState::Dead),
        Some(_) => return Err(AdminProblem::malformed("`state` must be armed, dispatching or dead")),
    };
    let limit = PAGE.clamp(which.limit);
    let arms = console.clock.jobs().list(filter, u32::try_from(limit).unwrap_or(u32::MAX)).await?;
    let page = Page::up_to(limit, arms, |arm| arm.key.0.to_string());
    let (mut names, mut items) = (JobNames::default(), Vec::new());
    for arm in page.items {
        items.push(names.shown(&console, arm).await?);
    }
    Ok(Json(Page { items, next: page.next }))
}

pub(crate) async fn show(
    State(console): State<Console>,
    Path((agent, job)): Path<(String, String)>,
    QueryParams(query): QueryParams<TenantQuery>,
) -> Result<Json<Value>, AdminProblem> {
    let (_, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    let standing = console.clock.jobs().show(&instance.id, &JobId::new(&job)).await?;
    let standing = standing.ok_or_else(|| no_job(&agent, &job))?;
    let shown = JobNames::default().shown(&console, standing.arm).await?;
    let mut shown = serde_json::to_value(shown).unwrap_or_default();
    // How long its agent took to wake recently; null if it was always connected.
    let waking = standing.waking.map(|took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
    shown["waking_ms"] = json!(waking);
    Ok(Json(shown))
}

pub(crate) async fn history(
    State(console): State<Console>,
    QueryParams(lines): QueryParams<FireHistoryQuery>,
) -> Result<Json<Page<Value>>, AdminProblem> {
    let (_, instance) = console.agent(&lines.agent, lines.tenant.as_deref()).await?;
    let job = lines.job.as_deref().map(JobId::new);
    let limit = HISTORY.clamp(lines.limit);
    let at_most = u32::try_from(limit).unwrap_or(u32::MAX);
    let history = console.clock.jobs().history(&instance.id, job.as_ref(), lines.before, at_most).await?;
    let page = Page::up_to(limit, history, |line| line.number.to_string());
    Ok(Json(page.map(|line| clock::render_fire(&line))))
}

pub(crate) async fn fire_now(
    State(console): State<Console>,
    Path((agent, job)): Path<(String, String)>,
    QueryParams(query): QueryParams<TenantQuery>,
) -> Result<Json<Value>, AdminProblem> {
    let (_, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    match console.clock.jobs().fire_now(&instance.id, &JobId::new(&job)).await? {
        ManualFire::Answered { status } => {
            Ok(Json(json!({ "job_id": job, "taken": (200..300).contains(&status), "status": status })))
        }
        ManualFire::NoAnswer { why } => Ok(Json(json!({ "job_id": job, "taken": false, "error": why }))),
        ManualFire::NoJob => Err(no_job(&agent, &job)),
    }
}

/// Retries a dead or waiting job now.
pub(crate) async fn redrive(
    State(console): State<Console>,
    Path((agent, job)): Path<(String, String)>,
    QueryParams(query): QueryParams<TenantQuery>,
) -> Result<Json<Value>, AdminProblem> {
    let (_, instance) = console.agent(&agent, query.tenant.as_deref()).await?;
    match console.clock.jobs().redrive(&instance.id, &JobId::new(&job)).await? {
        true => Ok(Json(json!({ "job_id": job, "redriven": true }))),
        false => Err(no_job(&agent, &job)),
    }
}

fn no_job(agent: &str, job: &str) -> AdminProblem {
    AdminProblem::absent("no_such_job", format!("agent `{agent}` has no job `{job}` armed"))
}
