//! Queue of runs that triggers started: durable, bounded, and fair between tenants.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ledger::{BusyRuns, NewRun, StoredRun};
use parking_lot::Mutex;
use posthouse_wire::TenantId;
use skill::{RunTrigger, SkillObject, SkillValue};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

use super::active_runs::ActiveRun;
use super::runs::{RunOrder, RunText, Runs};
use super::triggers::trigger_caller;
use crate::fault::Fault;
use crate::metrics::RefusedRun;

/// Runs of the queue at once.
const AT_ONCE: usize = 256;
/// Of these, runs of one tenant at once.
const OF_A_TENANT: usize = 32;
/// Of these, runs of one skill at once. Its other runs wait, and those of the tenant's other skills pass them.
const OF_A_SKILL: usize = 16;
/// How often the queue is counted, for the metrics.
const COUNT: Duration = Duration::from_secs(10);
/// How often the queue is looked at even if nobody said that there is something.
const LOOK: Duration = Duration::from_secs(30);

/// Begins queued runs.
pub struct RunQueue {
    runs: Runs,
    counts: Mutex<RunCounts>,
    changed: Notify,
    tasks: TaskTracker,
}

/// Runs that have begun and not ended, by tenant and by skill. Only what has some is in it.
#[derive(Default)]
struct RunCounts {
    tenants: HashMap<TenantId, usize>,
    skills: HashMap<(TenantId, String), usize>,
}

impl RunQueue {
    pub fn new(runs: Runs) -> Arc<Self> {
        let (counts, changed) = (Mutex::default(), Notify::new());
        Arc::new(Self { runs, counts, changed, tasks: TaskTracker::new() })
    }

    /// Stores a run that waits. False if its tenant has too many.
    pub async fn add(&self, run: NewRun) -> Result<bool, Fault> {
        let added = self.runs.records().queue_run(run).await?;
        if !added {
            self.runs.metrics().run_refused(RefusedRun::QueueFull);
        }
        self.changed.notify_one();
        Ok(added)
    }

    /// Begins runs until shutdown.
    pub async fn run(self: &Arc<Self>) -> Result<(), Fault> {
        let closing = self.runs.closing().clone();
        let mut last = TenantId::from("");
        while !closing.is_cancelled() {
            // Registered before the look, so that no place is missed that becomes free in between.
            let mut freed = pin!(self.runs.slots().freed());
            freed.as_mut().enable();
            let (mut busy, total) = self.busy();
            let full = self.runs.slots().full();
            let some_wait_for_a_place = full.as_ref().is_none_or(|full| !full.is_empty());
            let next = match full {
                Some(full) if total < AT_ONCE => {
                    busy.tenants.extend(full);
                    self.begin_next(last.clone(), busy).await?
                }
                _ => None,
            };
            if let Some(tenant) = next {
                last = tenant;
                continue;
            }
            tokio::select! {
                () = closing.cancelled() => {}
                () = self.changed.notified() => {}
                () = freed, if some_wait_for_a_place => {}
                () = self.runs.timepiece().after(LOOK) => {}
            }
        }
        Ok(())
    }

    /// Counts the queue until shutdown.
    pub async fn count(&self) -> Result<(), Fault> {
        let closing = self.runs.closing().clone();
        while !closing.is_cancelled() {
            self.runs.metrics().runs_queued(self.runs.records().queued_runs().await?);
            tokio::select! {
                () = closing.cancelled() => {}
                () = self.runs.timepiece().after(COUNT) => {}
            }
        }
        Ok(())
    }

    /// Waits for the runs that have begun.
    pub async fn close(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Tenants and skills that may not begin another run now, and the number of all runs.
    fn busy(&self) -> (BusyRuns, usize) {
        let counts = self.counts.lock();
        let (tenants, skills) =
            (busy_keys(&counts.tenants, OF_A_TENANT), busy_keys(&counts.skills, OF_A_SKILL));
        (BusyRuns { tenants, skills }, counts.tenants.values().sum())
    }

    /// Begins the next run, if one may begin, and returns its tenant. A task of its own does it: if the caller stopped
    /// waiting between the record and the run, the run would count as running and never end.
    async fn begin_next(
        self: &Arc<Self>,
        after: TenantId,
        busy: BusyRuns,
    ) -> Result<Option<TenantId>, Fault> {
        let queue = Arc::clone(self);
        let begun = self.tasks.spawn(async move {
            let claimed = queue.runs.claim(&after, &busy).await?;
            Ok(claimed.map(|(stored, run)| queue.begin(stored, run)))
        });
        begun.await.map_err(|why| Fault::Io(format!("beginning a queued run: {why}")))?
    }

    /// Runs a skill in a task of its own. Returns its tenant.
    fn begin(self: &Arc<Self>, stored: StoredRun, run: ActiveRun) -> TenantId {
        let (tenant, skill) = (stored.run.tenant.clone(), stored.run.skill.clone());
        let of_skill = (tenant.clone(), skill.clone());
        let mut counts = self.counts.lock();
        *counts.tenants.entry(tenant.clone()).or_default() += 1;
        *counts.skills.entry(of_skill.clone()).or_default() += 1;
        drop(counts);
        let (queue, of) = (Arc::clone(self), tenant.clone());
        self.tasks.spawn(async move {
            let by = trigger_caller(&tenant, stored.run.trigger_id.as_deref().unwrap_or_default());
            match queue.runs.execute_active(&by, order(stored), run).await {
                Ok(report) => {
                    tracing::info!(%tenant, skill, state = report.state.word(), "a triggered skill ran")
                }
                Err(fault) => tracing::error!(%fault, %tenant, skill, "a triggered skill could not be run"),
            }
            let mut counts = queue.counts.lock();
            count_down(&mut counts.tenants, &tenant);
            count_down(&mut counts.skills, &of_skill);
            drop(counts);
            queue.changed.notify_one();
        });
        of
    }
}

/// What has at least this many runs.
fn busy_keys<K: Clone>(counts: &HashMap<K, usize>, most: usize) -> Vec<K> {
    counts.iter().filter(|(_, count)| **count >= most).map(|(key, _)| key.clone()).collect()
}

fn count_down<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// What a queued run asks for. The parameters of an event are inputs, and variables with their own types.
fn order(stored: StoredRun) -> RunOrder {
    let run = stored.run;
    let params = run.inputs.as_deref().and_then(|text| SkillValue::from_json(text).ok());
    let inputs: SkillObject = params.as_ref().and_then(SkillValue::as_object).cloned().unwrap_or_default();
    let mut variables: Vec<(Arc<str>, SkillValue)> =
        inputs.iter().map(|(name, value)| (Arc::clone(name), value.clone())).collect();
    if run.source == "cron" {
        variables.push(("TRIGGER_TYPE".into(), "cron".into()));
        variables.push(("TRIGGER_PAYLOAD".into(), run.trigger_name.as_str().into()));
    }
    RunOrder {
        text: RunText::Stored(run.skill),
        inputs,
        is_mechanical: false,
        trigger: RunTrigger {
            source: run.source.into(),
            name: run.trigger_name.into(),
            fired_at_ms: run.fired.millis(),
            trigger_id: run.trigger_id.map(Into::into),
        },
        variables,
        caller_agent: None,
    }
}
