//! Attempts to fire an arm, and recording their outcome.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, ArmFate, ArmResult, FireAttempt, Successor};
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::ScheduleId;
use posthouse_wire::cron::{FireAt, Fired, Provision};

use crate::arm::next_us;
use crate::background::ClockTasks;
use crate::config::{ATTEMPT_TIMEOUT, IN_FLIGHT_PER_HOST};
use crate::fire_queue::{FireQueue, Limits};
use crate::leases::Leases;
use crate::metrics::{self, ArmLabel};
use crate::missed::{self, MissedDecision};
use crate::prewake::Prewake;
use crate::revivals::Revivals;
use crate::target::{FireOutcome, FireTarget};
use crate::wake_requests::WakeRequests;
use crate::{Config, Metrics, retry};

/// Number of failures after which a warning is logged. An agent that is starting up often refuses the first two.
const ALARM_AFTER: u32 = 3;
/// A fire that is accepted later than this after its due time and guard counts as late.
const LATE: Duration = Duration::from_secs(1);

/// A held arm that is due.
pub(crate) struct HeldArm {
    pub arm: Arm,
    pub host: String,
    pub target: Arc<dyn FireTarget>,
    /// Nothing may be sent before this time.
    not_before_us: i64,
}

impl HeldArm {
    pub fn new(target: Arc<dyn FireTarget>, arm: Arm, not_before_us: i64) -> Self {
        Self { host: target.host(&arm), arm, target, not_before_us }
    }
}

/// Makes the attempts of due arms, in turns between tenants, hosts and agents.
pub(crate) struct Firing {
    queue: Mutex<FireQueue<HeldArm>>,
    config: Config,
    leases: Arc<Leases>,
    prewake: Arc<Prewake>,
    revivals: Arc<Revivals>,
    wake_requests: Arc<WakeRequests>,
    metrics: Arc<Metrics>,
    background: ClockTasks,
}

/// Dependencies of firing.
pub(crate) struct FiringParts {
    pub config: Config,
    pub leases: Arc<Leases>,
    pub prewake: Arc<Prewake>,
    pub revivals: Arc<Revivals>,
    pub wake_requests: Arc<WakeRequests>,
    pub metrics: Arc<Metrics>,
    pub background: ClockTasks,
}

impl Firing {
    pub fn new(parts: FiringParts) -> Self {
        let FiringParts { config, leases, prewake, revivals, wake_requests, metrics, background } = parts;
        let limits = Limits {
            in_all: config.in_flight,
            per_instance: config.in_flight_per_agent,
            per_host: IN_FLIGHT_PER_HOST,
        };
        let queue = Mutex::new(FireQueue::new(limits));
        Self { queue, config, leases, prewake, revivals, wake_requests, metrics, background }
    }

    /// Queues due arms, and starts those that may start.
    pub fn release(self: &Arc<Self>, due: impl Iterator<Item = HeldArm>) {
        let mut queue = self.queue.lock();
        for held in due {
            let (tenant, host, instance) =
                (held.arm.tenant.clone(), held.host.clone(), held.arm.instance.clone());
            queue.join(tenant, host, instance, held);
        }
        drop(queue);
        self.start_who_may();
    }

    /// Puts back the arms whose fires have not begun.
    pub async fn close(&self) {
        let waiting = self.queue.lock().drain();
        for held in waiting {
            self.leases.put_back(&held.arm).await;
        }
    }

    /// Starts as many waiting fires as there are free places.
    fn start_who_may(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        while !self.background.closing.is_cancelled()
            && let Some(held) = queue.next()
        {
            let this = Arc::clone(self);
            self.background.tasks.spawn(async move {
                this.fire(&held).await;
                this.queue.lock().leave(&held.arm.tenant, &held.host, &held.arm.instance);
                this.start_who_may();
            });
        }
        self.metrics.in_flight.set(i64::try_from(queue.in_flight()).unwrap_or(i64::MAX));
    }

    async fn fire(&self, held: &HeldArm) {
        let arm = &held.arm;
        if !self.leases.begin(arm) {
            return;
        }
        // The wall clock may have been set back while the fire waited for its place.
        let settled = if self.background.now_us() < held.not_before_us {
            ArmResult::PutBack { next_us: None }
        } else {
            match missed::decide(arm, self.background.now_us()) {
                MissedDecision::Fire => self.attempt(&*held.target, arm).await,
                MissedDecision::PassOver { also, next, then } => self.pass_over(arm, also, next, then),
            }
        };
        self.leases.settle_with_retries(arm, settled).await;
    }

    fn pass_over(&self, arm: &Arm, also: Vec<FireAt>, next: Option<FireAt>, then: Vec<FireAt>) -> ArmResult {
        let times = 1 + also.len();
        let missed = metrics::FireLabel { fate: ArmFate::Missed.word() };
        self.metrics.fires.get_or_create(&missed).inc_by(times as u64);
        tracing::warn!(instance.id = %arm.instance, job.id = %arm.job, times,
            "skipped due times that have passed, as the job's policy says");
        ArmResult::Ended {
            fate: ArmFate::Missed,
            attempt: FireAttempt { late_ms: self.late_ms(arm), ..FireAttempt::default() },
            missed: also,
            successor: next.map(|next| self.successor(arm, next, then)),
        }
    }

    /// Makes one attempt and decides what happens to the arm.
    pub async fn attempt(&self, target: &dyn FireTarget, arm: &Arm) -> ArmResult {
        let started = self.background.timepiece.instant();
        let late_ms = self.late_ms(arm);
        let past_guard = Duration::from_millis(u64::try_from(late_ms).unwrap_or(0))
            .saturating_sub(self.config.guard.0 + Duration::from_secs(u64::from(arm.policy.jitter)));
        if arm.attempts == 0 {
            self.metrics.lateness.observe(past_guard.as_secs_f64());
        }
        let outcome = target.fire(arm).await;
        let now = self.background.timepiece.now();
        match &outcome {
            FireOutcome::Accepted { status, fired } => {
                let fate = fate(*fired);
                self.metrics.fires.get_or_create(&metrics::FireLabel { fate: fate.word() }).inc();
                if past_guard > LATE {
                    self.metrics.late_runs.inc();
                }
                if let Some(since) = arm.failing_since {
                    self.metrics.waking.observe(now.since(since).as_secs_f64());
                    self.prewake.forget(&arm.instance);
                }
                ArmResult::Ended {
                    fate,
                    attempt: FireAttempt { status: Some(*status), late_ms, ..FireAttempt::default() },
                    missed: Vec::new(),
                    successor: self.next_known(arm),
                }
            }
            _ => {
                self.failed(arm, &outcome, self.background.timepiece.instant().since(started), now, late_ms)
                    .await
            }
        }
    }

    async fn failed(
        &self,
        arm: &Arm,
        outcome: &FireOutcome,
        took: Duration,
        now: Moment,
        late_ms: i64,
    ) -> ArmResult {
        let (status, error, asked) = match outcome {
            FireOutcome::Refused { status, retry_after } => {
                (Some(*status), format!("answered {status}"), *retry_after)
            }
            // The agent may have got the call. A second call before the first has certainly ended might run the
            // job twice.
            FireOutcome::NoAnswer { why, nothing_was_sent: false } => {
                let rest = ATTEMPT_TIMEOUT.saturating_sub(took);
                (None, why.clone(), Some(rest).filter(|rest| *rest > Duration::from_secs(1)))
            }
            FireOutcome::NoAnswer { why, .. } => (None, why.clone(), None),
            FireOutcome::Accepted { .. } => (None, String::new(), None),
        };
        let label = if status.is_some() { "status" } else { "unreachable" };
        self.metrics.attempts_failed.get_or_create(&ArmLabel { why: label }).inc();
        if arm.attempts + 1 == ALARM_AFTER {
            tracing::warn!(instance.id = %arm.instance, job.id = %arm.job, why = error,
                "a fire has failed {ALARM_AFTER} times; retrying");
        }
        // An alarm has no agent that could be woken or give a sign of life.
        let poked = !arm.is_alarm() && {
            self.revivals.note_trouble(&arm.instance);
            arm.poked || (outcome.is_asleep() && self.wake_requests.wake(&arm.instance, "asleep").await)
        };
        let unsure = matches!(outcome, FireOutcome::NoAnswer { nothing_was_sent: false, .. });
        let attempt = FireAttempt { status, error: Some(error), late_ms, unsure };
        match retry::next(&self.config, arm, asked, now) {
            Some((next_us, pause)) => ArmResult::Postponed { attempt, next_us, pause, poked },
            None => self.given_up(arm, attempt),
        }
    }

    fn given_up(&self, arm: &Arm, attempt: FireAttempt) -> ArmResult {
        self.metrics.dead.inc();
        tracing::error!(instance.id = %arm.instance, job.id = %arm.job, fire_at = %arm.fire_at,
            "a fire was given up after {} attempts", arm.attempts + 1);
        match self.next_known(arm) {
            Some(successor) => ArmResult::Ended {
                fate: ArmFate::Dead,
                attempt,
                missed: Vec::new(),
                successor: Some(successor),
            },
            None => ArmResult::Dead { attempt },
        }
    }

    fn next_known(&self, arm: &Arm) -> Option<Successor> {
        let (next, then) = arm.then.split_first()?;
        Some(self.successor(arm, next.clone(), then.to_vec()))
    }

    fn successor(&self, arm: &Arm, fire_at: FireAt, then: Vec<FireAt>) -> Successor {
        Successor {
            schedule: ScheduleId::mint(self.background.timepiece.now().millis()),
            dedup: Provision::dedup_key(&arm.job, &fire_at),
            next_us: next_us(&arm.instance, &arm.job, &fire_at, &arm.policy),
            fire_at,
            then,
        }
    }

    fn late_ms(&self, arm: &Arm) -> i64 {
        (self.background.now_us().saturating_sub(arm.fire_at.due_us())).div_euclid(1000).max(0)
    }
}

fn fate(fired: Fired) -> ArmFate {
    match fired {
        Fired::Accepted => ArmFate::Delivered,
        Fired::Gone => ArmFate::Gone,
        Fired::Stopped => ArmFate::Dropped,
        Fired::Duplicate => ArmFate::Duplicate,
        Fired::Overlap => ArmFate::Overlap,
    }
}

#[cfg(test)]
mod tests {
    use crate::held::Stage;
    use crate::tests::{CronRecords, FixedAnswerTarget};

    use super::*;

    #[tokio::test]
    async fn a_refused_fire_is_retried_after_a_pause_and_an_accepted_one_ends_the_arm() {
        let records = CronRecords::open().await;
        let (leases, revivals) = (records.leases(), records.revivals());
        let firing = records.firing(&leases, &revivals);
        let arm = records.arm(&leases, "report", 0).await;
        let refusing = FixedAnswerTarget::answering(FireOutcome::Refused { status: 500, retry_after: None });
        let settled = firing.attempt(&*refusing, &arm).await;
        let ArmResult::Postponed { next_us, .. } = settled else { panic!("{settled:?}") };
        assert!(next_us > records.background.now_us());
        let accepted = FireOutcome::Accepted { status: 202, fired: Fired::Accepted };
        let accepting = FixedAnswerTarget::answering(accepted);
        let claimed = leases.claim_due(vec![arm.key]).await.unwrap().remove(0);
        assert!(leases.hold(&claimed, Stage::Waiting));
        let not_before_us = records.background.now_us();
        firing.release([HeldArm::new(accepting.clone(), claimed, not_before_us)].into_iter());
        records.background.wait().await;
        assert_eq!(*accepting.fired.lock(), std::slice::from_ref(&arm.job));
        let pending = records.ledger.arms().pending(&records.heron, &arm.job).await.unwrap();
        assert!(pending.is_none(), "an accepted fire is not repeated");
    }
}
