//! Calling back, and settling what came of it.

use std::sync::Arc;
use std::time::Duration;

use ledger::{Arm, Attempt, Fate, Settled, Successor};
use posthouse_time::Moment;
use posthouse_wire::ScheduleId;
use posthouse_wire::cron::{FireAt, Fired, Provision};

use crate::arm::next_us;
use crate::bell::{Bell, Rung};
use crate::clock::Stage;
use crate::metrics::{self, Why};
use crate::missed::{self, Turn};
use crate::{Clock, Fault, retry};

/// Failures before which nobody is alarmed: a body that wakes refuses the first two.
const ALARM_AFTER: u32 = 3;
/// How long a ledger in trouble is left alone, at first and at most.
const TROUBLE: Duration = Duration::from_secs(1);
const LONGEST_TROUBLE: Duration = Duration::from_secs(30);
/// Lateness past the guard from which a run counts as late.
const LATE: Duration = Duration::from_secs(1);

/// A held arm whose instant has come.
pub(crate) struct Held {
    pub arm: Arm,
    pub host: String,
    pub bell: Arc<dyn Bell>,
    /// The instant before which nothing may be sent.
    not_before_us: i64,
}

impl Held {
    pub fn new(bell: Arc<dyn Bell>, arm: Arm, not_before_us: i64) -> Self {
        Self { host: bell.host(&arm), arm, bell, not_before_us }
    }
}

impl Clock {
    /// Nothing for an alarm whose bell is not hung.
    pub(crate) fn bell_of(&self, arm: &Arm) -> Option<Arc<dyn Bell>> {
        match (&arm.bell, &arm.callback) {
            (Some(name), _) => self.hung(name),
            (None, Some(_)) => Some(Arc::clone(&self.0.callback)),
            (None, None) => Some(Arc::clone(&self.0.line)),
        }
    }

    /// Lets as many go as there are places.
    pub(crate) fn start_who_may(&self) {
        let mut crowd = self.0.crowd.lock();
        while !self.0.closing.is_cancelled()
            && let Some(held) = crowd.next()
        {
            let clock = self.clone();
            self.0.tasks.spawn(async move {
                clock.fire(&held).await;
                let mut crowd = clock.0.crowd.lock();
                crowd.leave(&held.host, &held.arm.instance);
                drop(crowd);
                clock.start_who_may();
            });
        }
        self.0.metrics.in_flight.set(i64::try_from(crowd.in_flight()).unwrap_or(i64::MAX));
    }

    async fn fire(&self, held: &Held) {
        let arm = &held.arm;
        if !self.begin(arm) {
            return;
        }
        // The clock may have been set back while it waited for its place.
        let settled = if self.now_us() < held.not_before_us {
            Settled::PutBack { next_us: arm.next_us }
        } else {
            match missed::decide(arm, self.now_us()) {
                Turn::Fire => self.attempt(&*held.bell, arm).await,
                Turn::PassOver { also, next, then } => self.pass_over(arm, also, next, then),
            }
        };
        self.settle_at_last(arm, settled).await;
    }

    /// What the agent has taken must be on record before anything else, so a ledger in trouble is asked
    /// again until it takes it. The arm stays held meanwhile: nobody fires it a second time.
    pub(crate) async fn settle_at_last(&self, arm: &Arm, settled: Settled) {
        let mut pause = TROUBLE;
        while let Err(fault) = self.settle(arm, settled.clone()).await {
            tracing::error!(%fault, job.id = %arm.job, "could not record what became of a fire");
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = self.0.timepiece.after(pause) => {}
            }
            pause = (pause * 2).min(LONGEST_TROUBLE);
        }
    }

    fn pass_over(&self, arm: &Arm, also: Vec<FireAt>, next: Option<FireAt>, then: Vec<FireAt>) -> Settled {
        let times = 1 + also.len();
        let missed = metrics::Fate { fate: Fate::Missed.word() };
        self.0.metrics.fires.get_or_create(&missed).inc_by(times as u64);
        tracing::warn!(instance.id = %arm.instance, job.id = %arm.job, times,
            "passed over due times that went by, as the job wishes");
        Settled::Ended {
            fate: Fate::Missed,
            attempt: Attempt { late_ms: self.late_ms(arm), ..Attempt::default() },
            missed: also,
            successor: next.map(|next| self.successor(arm, next, then)),
        }
    }

    /// True when the arm is still ours to ring; from here on a cancel comes too late.
    pub(crate) fn begin(&self, arm: &Arm) -> bool {
        match self.0.held.get_mut(&arm.key) {
            Some(mut stage) => {
                *stage = Stage::Ringing;
                true
            }
            None => false,
        }
    }

    /// Rings once and says what becomes of the arm.
    pub(crate) async fn attempt(&self, bell: &dyn Bell, arm: &Arm) -> Settled {
        let started = self.0.timepiece.now();
        let late_ms = self.late_ms(arm);
        let past_guard = Duration::from_millis(u64::try_from(late_ms).unwrap_or(0))
            .saturating_sub(self.0.config.guard.0 + Duration::from_secs(u64::from(arm.policy.jitter)));
        if arm.attempts == 0 {
            self.0.metrics.lateness.observe(past_guard.as_secs_f64());
        }
        let rung = bell.ring(arm).await;
        let now = self.0.timepiece.now();
        match &rung {
            Rung::Taken { status, fired } => {
                let fate = fate(*fired);
                self.0.metrics.fires.get_or_create(&metrics::Fate { fate: fate.word() }).inc();
                if past_guard > LATE {
                    self.0.metrics.late_runs.inc();
                }
                if let Some(since) = arm.failing_since {
                    self.0.metrics.waking.observe(now.since(since).as_secs_f64());
                    self.0.prewake.forget(&arm.instance);
                }
                Settled::Ended {
                    fate,
                    attempt: Attempt { status: Some(*status), late_ms, ..Attempt::default() },
                    missed: Vec::new(),
                    successor: self.next_known(arm),
                }
            }
            _ => self.failed(arm, &rung, started, now, late_ms).await,
        }
    }

    async fn failed(&self, arm: &Arm, rung: &Rung, started: Moment, now: Moment, late_ms: i64) -> Settled {
        let (status, error, asked) = match rung {
            Rung::Refused { status, retry_after } => {
                (Some(*status), format!("answered {status}"), *retry_after)
            }
            // It may have been heard: a second call before the first has surely ended might run the job twice.
            Rung::Unheard { why, nothing_was_sent: false } => {
                let rest = self.0.config.attempt_timeout.0.saturating_sub(now.since(started));
                (None, why.clone(), Some(rest).filter(|rest| *rest > Duration::from_secs(1)))
            }
            Rung::Unheard { why, .. } => (None, why.clone(), None),
            Rung::Taken { .. } => (None, String::new(), None),
        };
        let label = if status.is_some() { "status" } else { "unreachable" };
        self.0.metrics.attempts_failed.get_or_create(&Why { why: label }).inc();
        if arm.attempts + 1 == ALARM_AFTER {
            tracing::warn!(instance.id = %arm.instance, job.id = %arm.job, why = error,
                "a fire has failed {ALARM_AFTER} times and is tried again");
        }
        // Behind an alarm there is nobody to wake, and nobody whose sign of life could be waited for.
        let poked = !arm.is_alarm() && {
            self.0.troubled.insert(arm.instance.clone());
            arm.poked || (rung.is_asleep() && self.poke(arm, "asleep").await)
        };
        let unsure = matches!(rung, Rung::Unheard { nothing_was_sent: false, .. });
        let attempt = Attempt { status, error: Some(error), late_ms, unsure };
        match retry::next(&self.0.config, arm, asked, now) {
            Some(next_us) => Settled::Postponed { attempt, next_us, poked },
            None => self.given_up(arm, attempt),
        }
    }

    fn given_up(&self, arm: &Arm, attempt: Attempt) -> Settled {
        self.0.metrics.dead.inc();
        tracing::error!(instance.id = %arm.instance, job.id = %arm.job, fire_at = %arm.fire_at,
            "gave up a fire after {} attempts", arm.attempts + 1);
        match self.next_known(arm) {
            Some(successor) => {
                Settled::Ended { fate: Fate::Dead, attempt, missed: Vec::new(), successor: Some(successor) }
            }
            None => Settled::Dead { attempt },
        }
    }

    /// Calls the wake URL of an agent whose body is not up, once in a series. The answer does not matter,
    /// so nobody waits for it.
    async fn poke(&self, arm: &Arm, occasion: &'static str) -> bool {
        match self.0.relay.roster().instance(&arm.instance).await {
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
        self.0.metrics.pokes.get_or_create(&Why { why: occasion }).inc();
        let (relay, instance) = (self.0.relay.clone(), instance.clone());
        self.0.tasks.spawn(async move { relay.wake(&instance).await });
    }

    /// Records what became of a held arm and lets go of it.
    async fn settle(&self, arm: &Arm, settled: Settled) -> Result<(), Fault> {
        let next = self.0.arms.settle(arm.key, &self.0.owner, settled, self.0.timepiece.now()).await?;
        self.0.held.remove(&arm.key);
        // The loop may have waited for a free hand.
        self.0.heap.nudge.notify_one();
        if let Some(due) = next {
            self.0.heap.push(due);
            if !arm.is_alarm() {
                self.consider_waking_ahead(&arm.instance, due.next_us);
            }
        }
        Ok(())
    }

    /// Lets go of an arm that was held and not rung. False when it must be held on to.
    pub(crate) async fn put_back(&self, arm: &Arm) -> bool {
        if !self.0.held.contains_key(&arm.key) {
            return true;
        }
        let put_back = self.settle(arm, Settled::PutBack { next_us: arm.next_us }).await;
        if let Err(fault) = &put_back {
            tracing::error!(%fault, "could not put back an arm");
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

fn fate(fired: Fired) -> Fate {
    match fired {
        Fired::Accepted => Fate::Delivered,
        Fired::Gone => Fate::Gone,
        Fired::Stopped => Fate::Dropped,
        Fired::Duplicate => Fate::Duplicate,
        Fired::Overlap => Fate::Overlap,
    }
}
