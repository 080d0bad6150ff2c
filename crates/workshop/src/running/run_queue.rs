//! Queue of runs that triggers started: durable, bounded, and fair between tenants.

use std::collections::HashMap;
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
/// How often the queue is counted, for the metrics.
const COUNT: Duration = Duration::from_secs(10);
/// How often the queue is looked at even if nobody said that there is something.
const LOOK: Duration = Duration::from_secs(30);

/// Begins queued runs.
pub struct RunQueue {
    runs: Runs,
    counts: Mutex<HashMap<TenantId, usize>>,
    changed: Notify,
    tasks: TaskTracker,
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
            let (mut tenants, total) = self.busy();
            let full = self.runs.slots().full();
            let some_wait_for_a_place = full.as_ref().is_none_or(|full| !full.is_empty());
            let next = match full {
                Some(full) if total < AT_ONCE => {
                    tenants.extend(full);
                    self.runs.claim(&last, &BusyRuns { tenants, ..BusyRuns::default() }).await?
                }
                _ => None,
            };
            if let Some((next, run)) = next {
                last = next.run.tenant.clone();
                self.begin(next, run);
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

    /// Tenants that may not begin another run now, and the number of all runs.
    fn busy(&self) -> (Vec<TenantId>, usize) {
        let counts = self.counts.lock();
        let busy = counts.iter().filter(|(_, count)| **count >= OF_A_TENANT);
        (busy.map(|(tenant, _)| tenant.clone()).collect(), counts.values().sum())
    }

    fn begin(self: &Arc<Self>, stored: StoredRun, run: ActiveRun) {
        let tenant = stored.run.tenant.clone();
        *self.counts.lock().entry(tenant.clone()).or_default() += 1;
        let queue = Arc::clone(self);
        self.tasks.spawn(async move {
            let skill = stored.run.skill.clone();
            let by = trigger_caller(&tenant, stored.run.trigger_id.as_deref().unwrap_or_default());
            match queue.runs.execute_active(&by, order(stored), run).await {
                Ok(report) => {
                    tracing::info!(%tenant, skill, state = report.state.word(), "a triggered skill ran")
                }
                Err(fault) => tracing::error!(%fault, %tenant, skill, "a triggered skill could not be run"),
            }
            let mut counts = queue.counts.lock();
            if let Some(count) = counts.get_mut(&tenant) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&tenant);
                }
            }
            drop(counts);
            queue.changed.notify_one();
        });
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
