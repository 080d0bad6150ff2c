//! Attempts to fire an arm, and recording their outcome.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, ArmFate, ArmResult, FireAttempt, Successor};
use posthouse_time::Moment;
use posthouse_wire::ScheduleId;
use posthouse_wire::cron::{FireAt, Fired, Provision};

use crate::arm::next_us;
use crate::config::ATTEMPT_TIMEOUT;
use crate::metrics::{self, ArmLabel};
use crate::missed::{self, MissedDecision};
use crate::target::{FireOutcome, FireTarget};
use crate::{Clock, Fault, retry};

/// Number of failures after which a warning is logged. An agent that is starting up often refuses the first two.
const ALARM_AFTER: u32 = 3;
/// First and longest pause after a fault of the ledger.
const TROUBLE: Duration = Duration::from_secs(1);
const LONGEST_TROUBLE: Duration = Duration::from_secs(30);
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

impl Clock {
    /// Target of an arm; `None` for an alarm whose target is not registered.
    pub(crate) fn target_of(&self, arm: &Arm) -> Option<Arc<dyn FireTarget>> {
        match (&arm.target, &arm.callback) {
            (Some(name), _) => self.target(name),
            (None, Some(_)) => Some(Arc::clone(&self.0.callback)),
            (None, None) => Some(Arc::clone(&self.0.socket)),
        }
    }

    /// Starts as many waiting fires as there are free places.
    pub(crate) fn start_who_may(&self) {
        let mut queue = self.0.queue.lock();
        while !self.0.closing.is_cancelled()
            && let Some(held) = queue.next()
        {
            let clock = self.clone();
            self.0.tasks.spawn(async move {
                clock.fire(&held).await;
                clock.0.queue.lock().leave(&held.arm.tenant, &held.host, &held.arm.instance);
                clock.start_who_may();
            });
        }
        self.0.metrics.in_flight.set(i64::try_from(queue.in_flight()).unwrap_or(i64::MAX));
    }

    async fn fire(&self, held: &HeldArm) {
        let arm = &held.arm;
        if !self.begin(arm) {
            return;
        }
        // The wall clock may have been set back while the fire waited for its place.
        let settled = if self.now_us() < held.not_before_us {
            ArmResult::PutBack { next_us: None }
        } else {
            match missed::decide(arm, self.now_us()) {
                MissedDecision::Fire => self.attempt(&*held.target, arm).await,
                MissedDecision::PassOver { also, next, then } => self.pass_over(arm, also, next, then),
            }
        };
        self.settle_at_last(arm, settled).await;
    }

    /// Records the outcome, and retries until the ledger has stored it: an accepted fire must be on record
    /// before anything else happens to the arm. The arm stays held meanwhile, so it does not fire again.
    pub(crate) async fn settle_at_last(&self, arm: &Arm, settled: ArmResult) {
        let mut pause = TROUBLE;
        while let Err(fault) = self.settle(arm, settled.clone()).await {
            tracing::error!(%fault, job.id = %arm.job, "could not record the outcome of a fire; retrying");
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = self.0.timepiece.after(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_TROUBLE);
        }
    }

    fn pass_over(&self, arm: &Arm, also: Vec<FireAt>, next: Option<FireAt>, then: Vec<FireAt>) -> ArmResult {
        let times = 1 + also.len();
        let missed = metrics::FireLabel { fate: ArmFate::Missed.word() };
        self.0.metrics.fires.get_or_create(&missed).inc_by(times as u64);
        tracing::warn!(instance.id = %arm.instance, job.id = %arm.job, times,
            "skipped due times that have passed, as the job's policy says");
        ArmResult::Ended {
            fate: ArmFate::Missed,
            attempt: FireAttempt { late_ms: self.late_ms(arm), ..FireAttempt::default() },
            missed: also,
            successor: next.map(|next| self.successor(arm, next, then)),
        }
    }

    /// Marks an arm as being fired. False if it is no longer held. From here on a cancel comes too late.
    pub(crate) fn begin(&self, arm: &Arm) -> bool {
        self.0.held.begin(arm.key)
    }

    /// Makes one attempt and decides what happens to the arm.
    pub(crate) async fn attempt(&self, target: &dyn FireTarget, arm: &Arm) -> ArmResult {
        let started = self.0.timepiece.instant();
        let late_ms = self.late_ms(arm);
        let past_guard = Duration::from_millis(u64::try_from(late_ms).unwrap_or(0))
            .saturating_sub(self.0.config.guard.0 + Duration::from_secs(u64::from(arm.policy.jitter)));
        if arm.attempts == 0 {
            self.0.metrics.lateness.observe(past_guard.as_secs_f64());
        }
        let outcome = target.fire(arm).await;
        let now = self.0.timepiece.now();
        match &outcome {
            FireOutcome::Accepted { status, fired } => {
                let fate = fate(*fired);
                self.0.metrics.fires.get_or_create(&metrics::FireLabel { fate: fate.word() }).inc();
                if past_guard > LATE {
                    self.0.metrics.late_runs.inc();
                }
                if let Some(since) = arm.failing_since {
                    self.0.metrics.waking.observe(now.since(since).as_secs_f64());
                    self.0.prewake.forget(&arm.instance);
                }
                ArmResult::Ended {
                    fate,
                    attempt: FireAttempt { status: Some(*status), late_ms, ..FireAttempt::default() },
                    missed: Vec::new(),
                    successor: self.next_known(arm),
                }
            }
            _ => self.failed(arm, &outcome, self.0.timepiece.instant().since(started), now, late_ms).await,
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
        self.0.metrics.attempts_failed.get_or_create(&ArmLabel { why: label }).inc();
        if arm.attempts + 1 == ALARM_AFTER {
            tracing::warn!(instance.id = %arm.instance, job.id = %arm.job, why = error,
                "a fire has failed {ALARM_AFTER} times; retrying");
        }
        // An alarm has no agent that could be woken or give a sign of life.
        let poked = !arm.is_alarm() && {
            self.0.troubled.insert(arm.instance.clone());
            arm.poked || (outcome.is_asleep() && self.poke(arm, "asleep").await)
        };
        let unsure = matches!(outcome, FireOutcome::NoAnswer { nothing_was_sent: false, .. });
        let attempt = FireAttempt { status, error: Some(error), late_ms, unsure };
        match retry::next(&self.0.config, arm, asked, now) {
            Some((next_us, pause)) => ArmResult::Postponed { attempt, next_us, pause, poked },
            None => self.given_up(arm, attempt),
        }
    }

    fn given_up(&self, arm: &Arm, attempt: FireAttempt) -> ArmResult {
        self.0.metrics.dead.inc();
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

    /// Calls the wake URL of an agent that is not running, once per series of attempts. The answer does not
    /// matter, so the call runs in the background. Returns false if the agent has no wake URL.
    async fn poke(&self, arm: &Arm, occasion: &'static str) -> bool {
        match self.0.identity.roster.records().instance(&arm.instance).await {
            Ok(Some(instance)) if instance.wake_url.is_some() => {
                self.poke_soon(&arm.instance, occasion);
                true
            }
            Ok(_) => false,
            Err(fault) => {
                tracing::error!(%fault, "could not look up a wake URL");
                false
            }
        }
    }

    pub(crate) fn poke_soon(&self, instance: &posthouse_wire::InstanceId, occasion: &'static str) {
        self.0.metrics.pokes.get_or_create(&ArmLabel { why: occasion }).inc();
        let (relay, instance) = (self.0.relay.clone(), instance.clone());
        self.0.tasks.spawn(async move { relay.wake_calls().wake(&instance).await });
    }

    /// Records the outcome of a held arm and releases it.
    async fn settle(&self, arm: &Arm, settled: ArmResult) -> Result<(), Fault> {
        let next = self.0.arms.settle(arm.key, &self.0.owner, settled, self.0.timepiece.now()).await?;
        self.0.held.remove(arm.key);
        // The main loop may be waiting for a free place.
        self.0.heap.nudge.notify_one();
        if let Some(due) = next {
            self.0.heap.push(due);
            if !arm.is_alarm() {
                self.consider_waking_ahead(&arm.instance, due.next_us);
            }
        }
        Ok(())
    }

    /// Releases a held arm that was not fired. False if that failed and the arm stays held.
    pub(crate) async fn put_back(&self, arm: &Arm) -> bool {
        if !self.0.held.contains(arm.key) {
            return true;
        }
        let put_back = self.settle(arm, ArmResult::PutBack { next_us: None }).await;
        if let Err(fault) = &put_back {
            tracing::error!(%fault, "could not release a held arm");
        }
        put_back.is_ok()
    }

    fn next_known(&self, arm: &Arm) -> Option<Successor> {
        let (next, then) = arm.then.split_first()?;
        Some(self.successor(arm, next.clone(), then.to_vec()))
    }

    fn successor(&self, arm: &Arm, fire_at: FireAt, then: Vec<FireAt>) -> Successor {
        Successor {
            schedule: ScheduleId::mint(self.0.timepiece.now().millis()),
            dedup: Provision::dedup_key(&arm.job, &fire_at),
            next_us: next_us(&arm.instance, &arm.job, &fire_at, &arm.policy),
            fire_at,
            then,
        }
    }

    pub(crate) fn late_ms(&self, arm: &Arm) -> i64 {
        (self.now_us().saturating_sub(arm.fire_at.due_us())).div_euclid(1000).max(0)
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
