//! `SkillRunner`: the handle that runs skills in the server, on request and by triggers.

use std::sync::Arc;

use clock::Alarms;
use errand::Errand;
use ledger::{RunState, SkillRuns, SkillTriggers};
use post::Post;
use posthouse_time::Timepiece;
use vault::SkillSecrets;

use super::run_queue::RunQueue;
use super::runs::{RunParts, Runs};
use super::tenant_resources::TenantResources;
use super::trigger_follower::TriggerFollower;
use super::triggers::Triggers;
use crate::config::Config;
use crate::fault::Fault;
use crate::workshop::Workshop;

/// Dependencies of the runner.
pub struct RunnerParts {
    pub config: Config,
    pub workshop: Workshop,
    pub post: Post,
    pub runs: Arc<dyn SkillRuns>,
    pub triggers: Arc<dyn SkillTriggers>,
    pub secrets: SkillSecrets,
    pub errand: Errand,
    pub alarms: Alarms,
    pub timepiece: Timepiece,
}

/// Runs skills. A cheap handle to clone.
#[derive(Clone)]
pub struct SkillRunner(Arc<RunnerComponents>);

/// The components. Each owns its state, and holds only the components that it calls.
struct RunnerComponents {
    runs: Runs,
    queue: Arc<RunQueue>,
    triggers: Arc<Triggers>,
    follower: Arc<TriggerFollower>,
}

impl SkillRunner {
    pub fn new(parts: RunnerParts) -> Self {
        let RunnerParts { config, workshop, post, runs, triggers, secrets, errand, alarms, timepiece } =
            parts;
        let resources = Arc::new(TenantResources::new(config, secrets, errand, timepiece.clone()));
        let runs = Runs::new(RunParts { workshop, post, records: runs, resources, timepiece });
        let queue = RunQueue::new(runs.clone());
        let triggers = Triggers::new(triggers, alarms, runs.clone(), Arc::clone(&queue));
        let follower = TriggerFollower::new(runs.clone(), Arc::clone(&triggers));
        Self(Arc::new(RunnerComponents { runs, queue, triggers, follower }))
    }

    /// Takes over the runs that a crashed server left. Called before the server accepts requests.
    pub async fn take_over(&self) -> Result<(), Fault> {
        let now = self.runs().timepiece().now();
        let (again, interrupted) = self.runs().records().take_over_runs(now).await?;
        // Their sources were not read.
        let count = u64::try_from(interrupted).unwrap_or(u64::MAX);
        self.runs().metrics().runs_ended("", RunState::Interrupted, count);
        if again + interrupted > 0 {
            tracing::warn!(again, interrupted, "runs of skills were under way when the server stopped");
        }
        Ok(())
    }

    /// Begins queued runs, and keeps triggers as the skills say, until shutdown.
    pub async fn run(&self) -> Result<(), Fault> {
        // A tenant with many triggers must not delay the runs of all others.
        let alarms = self.0.triggers.set_alarms_again();
        tokio::try_join!(alarms, self.0.queue.run(), self.0.queue.count(), self.0.follower.run()).map(|_| ())
    }

    /// Ends all runs and waits for them.
    pub async fn close(&self) {
        self.0.runs.close();
        self.0.queue.close().await;
    }

    pub fn runs(&self) -> &Runs {
        &self.0.runs
    }

    pub fn triggers(&self) -> &Triggers {
        &self.0.triggers
    }

    /// Run settings and secrets of tenants.
    pub fn resources(&self) -> &TenantResources {
        self.0.runs.resources()
    }
}
