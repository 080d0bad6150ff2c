//! Alarms: timers of other planes, stored and fired like jobs, but not visible to agents.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, ArmResult, Armed, Arms, Due, NewAlarm};
use posthouse_time::Moment;
use posthouse_wire::cron::FireAt;
use posthouse_wire::{JobId, ScheduleId, TenantId};

use crate::background::ClockTasks;
use crate::config::micros;
use crate::fire_targets::FireTargets;
use crate::heap::Heap;
use crate::leases::Leases;
use crate::metrics::ArmLabel;
use crate::target::FireTarget;
use crate::{Fault, Metrics};

/// Alarms that one tenant may have pending. They count in no agent's quota.
pub(crate) const PER_TENANT: u32 = 100_000;
/// Pause before an alarm whose target is not registered is checked again.
const REGISTRATION_CHECK: Duration = Duration::from_secs(5);

/// A request of another plane to be called at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// Name under which its target is registered.
    pub target: &'static str,
    pub tenant: TenantId,
    /// Unique per target and tenant.
    pub job: JobId,
    /// A time in the past fires at once.
    pub at: Moment,
}

/// Sets and removes alarms. A handle that is cheap to clone.
#[derive(Clone)]
pub struct Alarms(Arc<AlarmParts>);

/// Dependencies of alarms.
pub(crate) struct AlarmParts {
    pub arms: Arc<dyn Arms>,
    pub heap: Arc<Heap>,
    pub leases: Arc<Leases>,
    pub targets: Arc<FireTargets>,
    pub metrics: Arc<Metrics>,
    pub background: ClockTasks,
}

impl Alarms {
    pub(crate) fn new(parts: AlarmParts) -> Self {
        Self(Arc::new(parts))
    }

    /// Registers the target of all alarms with this name. Call it before the clock runs: an alarm whose
    /// target is not registered is only checked again after a pause. The arm that the target receives names
    /// the tenant and the job. After a crash during an attempt the same alarm fires again, so a target must
    /// tolerate repeats.
    pub fn register(&self, name: &'static str, target: Arc<dyn FireTarget>) {
        self.0.targets.register(name, target);
    }

    /// Stores an alarm. It replaces an alarm of the same job for another time; repeating the same alarm
    /// changes nothing. It fires however late it is, and is retried until its target accepts it. Returns
    /// false when the tenant has reached its quota.
    pub async fn set(&self, alarm: Alarm) -> Result<bool, Fault> {
        let now = self.0.background.timepiece.now();
        let new = NewAlarm {
            target: alarm.target.to_owned(),
            tenant: alarm.tenant,
            job: alarm.job,
            schedule: ScheduleId::mint(now.millis()),
            fire_at: FireAt::from_micros(alarm.at.millis().saturating_mul(1000)),
        };
        let alarms = self.clone();
        // In its own task, because the caller's future may be dropped between the commit and the steps that
        // must follow it.
        let set = self.0.background.tasks.spawn(async move {
            let next_us = new.fire_at.due_us();
            Ok(match alarms.0.arms.set_alarm(new, PER_TENANT, now).await? {
                Armed::New { key, superseded } => {
                    alarms.0.metrics.arms.get_or_create(&ArmLabel { why: "alarm" }).inc();
                    superseded.into_iter().for_each(|old| alarms.0.leases.drop_cancelled(old));
                    alarms.0.heap.push(Due { next_us, key });
                    true
                }
                Armed::Same { due, .. } => {
                    alarms.0.heap.push(due);
                    true
                }
                Armed::Delivered { .. } => true,
                Armed::OverQuota => false,
            })
        });
        set.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Removes a pending alarm, if there is one. After it returns, no attempt of that alarm begins.
    pub async fn unset(&self, target: &str, tenant: &TenantId, job: &JobId) -> Result<(), Fault> {
        let (alarms, target, tenant, job) = (self.clone(), target.to_owned(), tenant.clone(), job.clone());
        let unset = self.0.background.tasks.spawn(async move {
            if let Some(key) = alarms.0.arms.unset_alarm(&target, &tenant, &job).await? {
                alarms.0.leases.drop_cancelled(key);
            }
            Ok(())
        });
        unset.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Removes all pending alarms whose job begins with this text. After it returns, no attempt of them begins.
    pub async fn unset_all(&self, target: &str, tenant: &TenantId, beginning: &str) -> Result<(), Fault> {
        let (alarms, target, tenant) = (self.clone(), target.to_owned(), tenant.clone());
        let beginning = beginning.to_owned();
        let unset = self.0.background.tasks.spawn(async move {
            let ended = alarms.0.arms.unset_alarms(&target, &tenant, &beginning).await?;
            ended.into_iter().for_each(|key| alarms.0.leases.drop_cancelled(key));
            Ok(())
        });
        unset.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Puts back an alarm whose target is not registered (yet), so that it is checked again.
    pub(crate) fn wait_for_target(&self, alarm: Arm) {
        let alarms = self.clone();
        self.0.background.tasks.spawn(async move {
            if !alarms.0.leases.begin(&alarm) {
                return;
            }
            // Log once per alarm, not at every check.
            if alarm.next_us == alarm.fire_at.due_us() {
                tracing::warn!(
                    registered = alarm.target,
                    "an alarm is due, but its target is not registered; it waits"
                );
            }
            let next_us = Some(alarms.0.background.now_us().saturating_add(micros(REGISTRATION_CHECK)));
            alarms.0.leases.settle_with_retries(&alarm, ArmResult::PutBack { next_us }).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::target::FireOutcome;
    use crate::tests::{CronRecords, FixedAnswerTarget};

    use super::*;

    #[tokio::test]
    async fn an_alarm_is_set_once_per_time_and_none_is_left_after_it_was_unset() {
        let records = CronRecords::open().await;
        let target = FixedAnswerTarget::answering(FireOutcome::Refused { status: 500, retry_after: None });
        let alarms = Alarms::new(AlarmParts {
            arms: records.ledger.arms(),
            heap: Arc::clone(&records.heap),
            leases: records.leases(),
            targets: target.everywhere(),
            metrics: Arc::clone(&records.metrics),
            background: records.background.clone(),
        });
        let tenant = records.ledger.roster().instance(&records.heron).await.unwrap().unwrap().tenant;
        let at = records.background.timepiece.now() + Duration::from_secs(60);
        let alarm = Alarm { target: "wakes", tenant: tenant.clone(), job: "r1".into(), at };
        for _ in 0..2 {
            assert!(alarms.set(alarm.clone()).await.unwrap());
        }
        let due = records.heap.pop(i64::MAX, 9);
        assert_eq!(due[0], due[1], "a repeat is the same alarm");
        alarms.unset("wakes", &tenant, &"r1".into()).await.unwrap();
        assert!(alarms.0.leases.claim_due(due).await.unwrap().is_empty());
    }
}
