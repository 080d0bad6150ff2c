//! Alarms: other planes' own appointments, kept and rung as exactly as a job's, and seen by no agent.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, Armed, Due, NewAlarm, Settled};
use posthouse_time::Moment;
use posthouse_wire::cron::FireAt;
use posthouse_wire::{JobId, ScheduleId, TenantId};

use crate::bell::Bell;
use crate::config::micros;
use crate::metrics::Why;
use crate::{Clock, Fault};

/// Alarms that one tenant may have pending. They count in no agent's quota.
pub(crate) const PER_TENANT: u32 = 100_000;
/// How long an alarm waits for its bell to be hung before it is looked at again.
const BELL_WAIT: Duration = Duration::from_secs(5);

/// A wish of another plane's to be called at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// What it rings, by the name under which that was hung.
    pub bell: &'static str,
    pub tenant: TenantId,
    /// Unique for its bell and tenant.
    pub job: JobId,
    /// One in the past rings at once.
    pub at: Moment,
}

impl Clock {
    /// Hangs what alarms of this name ring. Best before the clock runs: an alarm that finds its bell not
    /// hung waits a little and looks again. The arm that is rung names the tenant and the job. After a
    /// crash amid a ring the same alarm rings once more, so a bell must bear being rung twice.
    pub fn hang(&self, name: &'static str, bell: Arc<dyn Bell>) {
        self.0.hung.insert(name, bell);
    }

    pub(crate) fn hung(&self, name: &str) -> Option<Arc<dyn Bell>> {
        self.0.hung.get(name).map(|bell| Arc::clone(&bell))
    }

    /// Keeps an alarm, in place of the one that its job had for another time; the same again changes
    /// nothing. It rings however late it is, and again until its bell took it. False when the tenant has
    /// as many as it may.
    pub async fn set_alarm(&self, alarm: Alarm) -> Result<bool, Fault> {
        let now = self.0.timepiece.now();
        let new = NewAlarm {
            bell: alarm.bell.to_owned(),
            tenant: alarm.tenant,
            job: alarm.job,
            schedule: ScheduleId::mint(now.millis()),
            fire_at: FireAt::from_micros(alarm.at.millis().saturating_mul(1000)),
        };
        let clock = self.clone();
        // In a task of its own: whoever asked may be dropped between the commit and what must follow it.
        let set = self.0.tasks.spawn(async move {
            let next_us = new.fire_at.due_us();
            Ok(match clock.0.arms.set_alarm(new, PER_TENANT, now).await? {
                Armed::New { key, superseded } => {
                    clock.0.metrics.arms.get_or_create(&Why { why: "alarm" }).inc();
                    superseded.into_iter().for_each(|old| clock.withdraw(old));
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

    /// Ends a pending alarm; none is fine. Answered only after no ring of it can begin any more.
    pub async fn unset_alarm(&self, bell: &str, tenant: &TenantId, job: &JobId) -> Result<(), Fault> {
        let (clock, bell, tenant, job) = (self.clone(), bell.to_owned(), tenant.clone(), job.clone());
        let unset = self.0.tasks.spawn(async move {
            if let Some(key) = clock.0.arms.unset_alarm(&bell, &tenant, &job).await? {
                clock.withdraw(key);
            }
            Ok(())
        });
        unset.await.unwrap_or(Err(ledger::Fault::Closed.into()))
    }

    /// An alarm whose bell is not hung (yet): it is put back as it was, to be looked at again.
    pub(crate) fn wait_for_bell(&self, alarm: Arm) {
        let clock = self.clone();
        self.0.tasks.spawn(async move {
            if !clock.begin(&alarm) {
                return;
            }
            // Once an alarm, not at every look.
            if alarm.next_us == alarm.fire_at.due_us() {
                tracing::warn!(bell = alarm.bell, "an alarm waits for a bell that is not hung");
            }
            let next_us = clock.now_us().saturating_add(micros(BELL_WAIT));
            clock.settle_at_last(&alarm, Settled::PutBack { next_us }).await;
        });
    }
}
