//! Jobs in the admin API: listing, history, redrive, and firing by hand.

use std::time::Duration;

use ledger::{Arm, ArmFilter, FireAttempt, FireLine};
use posthouse_wire::cron::FireAt;
use posthouse_wire::{InstanceId, JobId, ScheduleId};

use crate::target::FireOutcome;
use crate::{Clock, Fault};

/// Filter for armed jobs.
pub type JobFilter = ArmFilter;

/// Pending arm of a job, and how long its agent takes to wake, if that is known.
#[derive(Clone, Debug)]
pub struct JobStanding {
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

impl Clock {
    /// Armed jobs of agents, without alarms.
    pub async fn jobs(&self, filter: JobFilter, at_most: u32) -> Result<Vec<Arm>, Fault> {
        Ok(self.0.arms.arms(filter, at_most).await?)
    }

    pub async fn job(&self, instance: &InstanceId, job: &JobId) -> Result<Option<JobStanding>, Fault> {
        let Some(arm) = self.0.arms.pending(instance, job).await? else { return Ok(None) };
        Ok(Some(JobStanding { waking: self.waking(instance).await?, arm }))
    }

    pub async fn job_history(
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
        let (clock, instance, job) = (self.clone(), instance.clone(), job.clone());
        // In its own task, because the caller may hang up between the commit and the steps that must follow it.
        let redriven = self.0.tasks.spawn(async move {
            let due = clock.0.arms.redrive(&instance, &job, clock.0.timepiece.now()).await?;
            due.into_iter().for_each(|due| clock.0.heap.push(due));
            Ok(due.is_some())
        });
        redriven.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Fires a job once now, in addition to its arm. The arm stays: firing it early would make a stock agent arm
    /// the same time again and lose the job (contract section 3.2).
    pub async fn fire_now(&self, instance: &InstanceId, job: &JobId) -> Result<ManualFire, Fault> {
        let Some(armed) = self.0.arms.pending(instance, job).await? else { return Ok(ManualFire::NoJob) };
        let now = self.0.timepiece.now();
        let by_hand = Arm {
            fire_at: FireAt::from_micros(self.now_us()),
            schedule: ScheduleId::mint(now.millis()),
            ..armed
        };
        let Some(target) = self.target_of(&by_hand) else { return Ok(ManualFire::NoJob) };
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
