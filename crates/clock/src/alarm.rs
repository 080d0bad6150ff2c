//! Alarms: timers of other planes, stored and fired like jobs, but not visible to agents.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, ArmResult, Armed, Due, NewAlarm};
use posthouse_time::Moment;
use posthouse_wire::cron::FireAt;
use posthouse_wire::{JobId, ScheduleId, TenantId};

use crate::config::micros;
use crate::metrics::ArmLabel;
use crate::target::FireTarget;
use crate::{Clock, Fault};

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

impl Clock {
    /// Registers the target of all alarms with this name. Call it before the clock runs: an alarm whose
    /// target is not registered is only checked again after a pause. The arm that the target receives names
    /// the tenant and the job. After a crash during an attempt the same alarm fires again, so a target must
    /// tolerate repeats.
    pub fn register(&self, name: &'static str, target: Arc<dyn FireTarget>) {
        self.0.targets.insert(name, target);
    }

    pub(crate) fn target(&self, name: &str) -> Option<Arc<dyn FireTarget>> {
        self.0.targets.get(name).map(|target| Arc::clone(&target))
    }

    /// Stores an alarm. It replaces an alarm of the same job for another time; repeating the same alarm
    /// changes nothing. It fires however late it is, and is retried until its target accepts it. Returns
    /// false when the tenant has reached its quota.
    pub async fn set_alarm(&self, alarm: Alarm) -> Result<bool, Fault> {
        let now = self.0.timepiece.now();
        let new = NewAlarm {
            target: alarm.target.to_owned(),
            tenant: alarm.tenant,
            job: alarm.job,
            schedule: ScheduleId::mint(now.millis()),
            fire_at: FireAt::from_micros(alarm.at.millis().saturating_mul(1000)),
        };
        let clock = self.clone();
        // In its own task, because the caller's future may be dropped between the commit and the steps that
        // must follow it.
        let set = self.0.tasks.spawn(async move {
            let next_us = new.fire_at.due_us();
            Ok(match clock.0.arms.set_alarm(new, PER_TENANT, now).await? {
                Armed::New { key, superseded } => {
                    clock.0.metrics.arms.get_or_create(&ArmLabel { why: "alarm" }).inc();
                    superseded.into_iter().for_each(|old| clock.drop_cancelled(old));
                    clock.0.heap.push(Due { next_us, key });
                    true
                }
                Armed::Same { due, .. } => {
                    clock.0.heap.push(due);
                    true
                }
                Armed::Delivered { .. } => true,
                Armed::OverQuota => false,
            })
        });
        set.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Removes a pending alarm, if there is one. After it returns, no attempt of that alarm begins.
    pub async fn unset_alarm(&self, target: &str, tenant: &TenantId, job: &JobId) -> Result<(), Fault> {
        let (clock, target, tenant, job) = (self.clone(), target.to_owned(), tenant.clone(), job.clone());
        let unset = self.0.tasks.spawn(async move {
            if let Some(key) = clock.0.arms.unset_alarm(&target, &tenant, &job).await? {
                clock.drop_cancelled(key);
            }
            Ok(())
        });
        unset.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// Puts back an alarm whose target is not registered (yet), so that it is checked again.
    pub(crate) fn wait_for_target(&self, alarm: Arm) {
        let clock = self.clone();
        self.0.tasks.spawn(async move {
            if !clock.begin(&alarm) {
                return;
            }
            // Log once per alarm, not at every check.
            if alarm.next_us == alarm.fire_at.due_us() {
                tracing::warn!(
                    registered = alarm.target,
                    "an alarm is due, but its target is not registered; it waits"
                );
            }
            let next_us = Some(clock.now_us().saturating_add(micros(REGISTRATION_CHECK)));
            clock.settle_at_last(&alarm, ArmResult::PutBack { next_us }).await;
        });
    }
}
