//! Jobs in the admin API: listing, history, redrive, and firing by hand.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, ArmFilter, Arms, FireAttempt, FireLine};
use posthouse_wire::cron::FireAt;
use posthouse_wire::{InstanceId, JobId, ScheduleId};

use crate::Fault;
use crate::background::ClockTasks;
use crate::fire_targets::FireTargets;
use crate::heap::Heap;
use crate::prewake::Prewake;
use crate::target::FireOutcome;

/// Filter for armed jobs.
pub type JobFilter = ArmFilter;

/// Pending arm of a job, and how long its agent takes to wake, if that is known.
#[derive(Clone, Debug)]
pub struct JobStatus {
    pub arm: Arm,
    pub waking: Option<Duration>,
}

/// Outcome of a fire by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManualFire {
    /// The agent's answer.
    Answered {
        status: u16,
    },
    NoAnswer {
        why: String,
    },
    /// The job is not armed, so there is no known target.
    NoJob,
}

/// What the operator sees of jobs and does with them. A handle that is cheap to clone.
#[derive(Clone)]
pub struct CronJobs(Arc<CronJobParts>);

/// Dependencies of the operator's view.
pub(crate) struct CronJobParts {
    pub arms: Arc<dyn Arms>,
    pub heap: Arc<Heap>,
    pub targets: Arc<FireTargets>,
    pub prewake: Arc<Prewake>,
    pub background: ClockTasks,
}

impl CronJobs {
    pub(crate) fn new(parts: CronJobParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Armed jobs of agents, without alarms.
    pub async fn list(&self, filter: JobFilter, at_most: u32) -> Result<Vec<Arm>, Fault> {
        Ok(self.0.arms.arms(filter, at_most).await?)
    }

    pub async fn show(&self, instance: &InstanceId, job: &JobId) -> Result<Option<JobStatus>, Fault> {
        let Some(arm) = self.0.arms.pending(instance, job).await? else { return Ok(None) };
        Ok(Some(JobStatus { waking: self.waking(instance).await?, arm }))
    }

    /// How long an agent takes to wake, if that is known.
    pub async fn waking(&self, instance: &InstanceId) -> Result<Option<Duration>, Fault> {
        self.0.prewake.waking(instance).await
    }

    pub async fn history(
        &self,
        instance: &InstanceId,
        job: Option<&JobId>,
        before: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<FireLine>, Fault> {
        Ok(self.0.arms.history(instance, job, before, at_most).await?)
    }

    /// Tries a dead or waiting arm again now. False if the job has no pending arm.
    pub async fn redrive(&self, instance: &InstanceId, job: &JobId) -> Result<bool, Fault> {
        let (jobs, instance, job) = (self.clone(), instance.clone(), job.clone());
        // In its own task, because the caller may hang up between the commit and the steps that must follow it.
        let redriven = self.0.background.tasks.spawn(async move {
            let due = jobs.0.arms.redrive(&instance, &job, jobs.0.background.timepiece.now()).await?;
            due.into_iter().for_each(|due| jobs.0.heap.push(due));
            Ok(due.is_some())
        });
        redriven.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Fires a job once now, in addition to its arm. The arm stays: firing it early would make a stock agent arm
    /// the same time again and lose the job (contract section 3.2).
    pub async fn fire_now(&self, instance: &InstanceId, job: &JobId) -> Result<ManualFire, Fault> {
        let Some(armed) = self.0.arms.pending(instance, job).await? else { return Ok(ManualFire::NoJob) };
        let now = self.0.background.timepiece.now();
        let by_hand = Arm {
            fire_at: FireAt::from_micros(self.0.background.now_us()),
            schedule: ScheduleId::mint(now.millis()),
            ..armed
        };
        let Some(target) = self.0.targets.of(&by_hand) else { return Ok(ManualFire::NoJob) };
        let outcome = target.fire(&by_hand).await;
        let (answer, status, error) = match outcome {
            FireOutcome::Accepted { status, .. } => (ManualFire::Answered { status }, Some(status), None),
            FireOutcome::Refused { status, .. } => {
                (ManualFire::Answered { status }, Some(status), Some(format!("answered {status}")))
            }
            FireOutcome::NoAnswer { why, .. } => (ManualFire::NoAnswer { why: why.clone() }, None, Some(why)),
        };
        let attempt = FireAttempt { status, error, ..FireAttempt::default() };
        self.0.arms.note_fire(instance, job, &by_hand.fire_at, attempt, now).await?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use posthouse_wire::cron::Fired;

    use crate::tests::{CronRecords, FixedAnswerTarget};

    use super::*;

    #[tokio::test]
    async fn a_fire_by_hand_calls_the_target_and_leaves_the_arm() {
        let records = CronRecords::open().await;
        let accepted = FireOutcome::Accepted { status: 202, fired: Fired::Accepted };
        let target = FixedAnswerTarget::answering(accepted);
        let jobs = CronJobs::new(CronJobParts {
            arms: records.ledger.arms(),
            heap: Arc::clone(&records.heap),
            targets: target.everywhere(),
            prewake: records.prewake(false),
            background: records.background.clone(),
        });
        let arm = records.arm(&records.leases(), "report", 60_000).await;
        let fired = jobs.fire_now(&records.heron, &arm.job).await.unwrap();
        assert_eq!(fired, ManualFire::Answered { status: 202 });
        assert_eq!(target.fired.lock().len(), 1);
        let standing = jobs.show(&records.heron, &arm.job).await.unwrap().unwrap();
        assert_eq!(standing.arm.schedule, arm.schedule);
        assert_eq!(jobs.history(&records.heron, None, None, 9).await.unwrap().len(), 1);
        assert_eq!(jobs.fire_now(&records.heron, &"none".into()).await.unwrap(), ManualFire::NoJob);
        assert!(!jobs.redrive(&records.heron, &"none".into()).await.unwrap());
    }
}
