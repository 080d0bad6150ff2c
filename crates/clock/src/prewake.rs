//! Waking slow agents ahead of their due time, so that the run starts on time and not only the call.
//!
//! The wake URL is called as long before the due time as the agent recently took to start. It is off unless the
//! operator sets `clock.pre_wake`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use ledger::{Arms, FireLine};
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::InstanceId;
use relay::Connections;
use tokio::sync::Notify;

use crate::Fault;
use crate::background::ClockTasks;
use crate::wake_requests::WakeRequests;

/// A longer time between the first attempt and success is not counted as waking.
const LONGEST: Duration = Duration::from_secs(300);
/// History lines per agent from which the waking time is computed.
const LINES: u32 = 200;
/// Wake calls planned at once. Beyond that, an agent is woken by its fire as usual.
const PLANNED: usize = 100_000;

/// Plans wake calls ahead of due times.
pub(crate) struct Prewake {
    /// Recent waking time of agents; `None` for an agent that was always running.
    learned: Cache<InstanceId, Option<Duration>>,
    planned: Mutex<BinaryHeap<Reverse<(i64, InstanceId)>>>,
    nudge: Notify,
    /// Nothing is planned otherwise.
    is_on: bool,
    /// Jobs that one agent may have armed.
    per_agent: u32,
    arms: Arc<dyn Arms>,
    connections: Arc<Connections>,
    wake_requests: Arc<WakeRequests>,
    background: ClockTasks,
}

/// Dependencies of waking ahead.
pub(crate) struct PrewakeParts {
    pub is_on: bool,
    pub per_agent: u32,
    pub arms: Arc<dyn Arms>,
    pub connections: Arc<Connections>,
    pub wake_requests: Arc<WakeRequests>,
    pub background: ClockTasks,
}

impl Prewake {
    pub fn new(parts: PrewakeParts) -> Self {
        let PrewakeParts { is_on, per_agent, arms, connections, wake_requests, background } = parts;
        Self {
            learned: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(3600)).build(),
            planned: Mutex::default(),
            nudge: Notify::new(),
            is_on,
            per_agent,
            arms,
            connections,
            wake_requests,
            background,
        }
    }

    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Drops the cached waking time, because the history has a new line about it.
    pub fn forget(&self, instance: &InstanceId) {
        self.learned.invalidate(instance);
    }

    /// Waking time of this agent: the longest recent time from a first failed attempt to the accepted one. It
    /// is computed from the stored history, so it survives a restart.
    pub async fn waking(&self, instance: &InstanceId) -> Result<Option<Duration>, Fault> {
        if let Some(known) = self.learned.get(instance) {
            return Ok(known);
        }
        let lines = self.arms.history(instance, None, None, LINES).await?;
        let known = waking_in(&lines);
        self.learned.insert(instance.clone(), known);
        Ok(known)
    }

    /// Plans to check before this due time whether the agent has to be woken.
    pub fn plan_check(&self, instance: &InstanceId, next_us: i64) {
        if !self.is_on {
            return;
        }
        let look_at = next_us.saturating_sub(crate::config::micros(LONGEST));
        let mut planned = self.planned.lock();
        if planned.len() < PLANNED {
            planned.push(Reverse((look_at, instance.clone())));
            drop(planned);
            self.nudge.notify_one();
        }
    }

    pub async fn keep_waking(&self) -> Result<(), Fault> {
        loop {
            let earliest = self.planned.lock().peek().map(|Reverse((at, _))| *at);
            let wake = async {
                match earliest {
                    Some(at) => {
                        self.background.timepiece.until(Moment::from_millis(at.div_euclid(1000) + 1)).await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.background.closing.cancelled() => return Ok(()),
                () = self.nudge.notified() => {}
                () = wake => {
                    if let Err(fault) = self.wake_ahead().await {
                        tracing::error!(%fault, "could not wake agents ahead of their due time");
                    }
                }
            }
        }
    }

    /// Handles every plan that is due: calls the wake URL, or plans again for the right time.
    async fn wake_ahead(&self) -> Result<(), Fault> {
        let now = self.background.now_us();
        loop {
            let plan = {
                let mut planned = self.planned.lock();
                match planned.peek() {
                    Some(Reverse((at, _))) if *at <= now => planned.pop(),
                    _ => return Ok(()),
                }
            };
            let Some(Reverse((_, instance))) = plan else { return Ok(()) };
            let Some(took) = self.waking(&instance).await? else { continue };
            let Some(due_us) = self.next_due(&instance).await? else { continue };
            let poke_at = due_us.saturating_sub(crate::config::micros(took));
            if poke_at > self.background.now_us() {
                self.planned.lock().push(Reverse((poke_at, instance)));
            } else if due_us > self.background.now_us() && !self.connections.presence(&instance).connected {
                self.wake_requests.call(&instance, "ahead");
            }
        }
    }

    /// Due time of the agent's earliest arm that has not failed yet.
    async fn next_due(&self, instance: &InstanceId) -> Result<Option<i64>, Fault> {
        let filter = ledger::ArmFilter { instance: Some(instance.clone()), ..Default::default() };
        let arms = self.arms.arms(filter, self.per_agent).await?;
        let now = self.background.now_us();
        Ok(arms.iter().filter(|arm| arm.attempts == 0 && arm.next_us > now).map(|arm| arm.next_us).min())
    }
}

/// Longest time from a schedule's first failed attempt to its delivery. `lines` has the newest first.
fn waking_in(lines: &[FireLine]) -> Option<Duration> {
    let mut longest = None;
    for delivered in lines.iter().filter(|line| line.what == "delivered") {
        let first = lines
            .iter()
            .filter(|line| line.what == "attempt" && line.schedule == delivered.schedule)
            .map(|line| line.at)
            .min();
        let took = first.map(|first| delivered.at.since(first)).filter(|took| *took <= LONGEST);
        longest = longest.max(took);
    }
    longest
}

#[cfg(test)]
mod tests {
    use crate::tests::CronRecords;

    #[tokio::test]
    async fn nothing_is_planned_unless_waking_ahead_is_on_and_an_agent_without_history_is_not_called() {
        let records = CronRecords::open().await;
        let (off, on) = (records.prewake(false), records.prewake(true));
        let leases = records.leases();
        let arm = records.arm(&leases, "report", 1000).await;
        for prewake in [&off, &on] {
            prewake.plan_check(&records.heron, arm.next_us);
        }
        assert!(off.planned.lock().is_empty());
        assert_eq!(on.planned.lock().len(), 1);
        on.wake_ahead().await.unwrap();
        assert!(on.planned.lock().is_empty());
        assert_eq!(on.waking(&records.heron).await.unwrap(), None);
    }
}
