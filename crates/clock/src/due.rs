//! Main loop of the clock: claims arms under a lease shortly before they are due, and releases them at their
//! due time, never before.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::Duration;

use foldhash::HashMap;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use ledger::{Arm, ArmKey, Arms, Due};
use posthouse_time::Moment;
use posthouse_wire::InstanceId;

use crate::alarm::{self, Alarms};
use crate::background::ClockTasks;
use crate::cancelled_during_claim::Claiming;
use crate::config::micros;
use crate::fire::{Firing, HeldArm};
use crate::fire_targets::FireTargets;
use crate::heap::Heap;
use crate::held::Stage;
use crate::leases::Leases;
use crate::wall_clock::WallClock;
use crate::{Config, Fault, Metrics, retry};

/// Arms are claimed this long before their due time, so that the commit does not delay the fire.
const AHEAD_US: i64 = 150_000;
/// A claim includes everything due within this time: many arms, one transaction.
const STRIDE_US: i64 = 300_000;
/// An arm that is due later than this is put back instead of held.
const FAR_US: i64 = 5_000_000;
/// Arms in one claim.
const BATCH: usize = 512;
/// Arms per page read from the ledger.
const PAGE: u32 = 10_000;
/// Pause after a fault of the ledger.
const TROUBLE: Duration = Duration::from_secs(1);
/// Longest time over which an agent's backlog of fires is spread.
const SPREAD_US: i64 = 10_000_000;

/// A claim in progress: the arms that it asked for, and its result.
type Claim = BoxFuture<'static, Claimed>;
type Claimed = (Claiming, Vec<ArmKey>, Result<Vec<Arm>, ledger::Fault>);

/// Which arms to claim.
enum ArmsToClaim {
    /// Due now, from the heap. Their tenants are not known yet.
    Due(Vec<ArmKey>),
    /// Parked until now. Each already has a place reserved.
    Parked(Vec<ArmKey>),
}

/// State of the loop between two rounds.
struct LoopState {
    claims: FuturesOrdered<Claim>,
    ready: BinaryHeap<Reverse<Ready>>,
    /// Per agent with a backlog: when the last of its fires is released.
    spread: HashMap<InstanceId, i64>,
}

/// A held arm and the time at which it may be released. Ordered by that time, then by age.
struct Ready {
    at_us: i64,
    key: ArmKey,
    arm: Box<Arm>,
}

/// Claims arms that become due, and hands them to firing.
pub(crate) struct DueLoop {
    pub config: Config,
    pub arms: Arc<dyn Arms>,
    pub heap: Arc<Heap>,
    pub wall_clock: Arc<WallClock>,
    pub leases: Arc<Leases>,
    pub targets: Arc<FireTargets>,
    pub firing: Arc<Firing>,
    pub alarms: Alarms,
    pub metrics: Arc<Metrics>,
    pub background: ClockTasks,
}

impl DueLoop {
    /// Runs until shutdown.
    pub async fn run(&self) -> Result<(), Fault> {
        // A shutdown waits until the arms held here have been put back.
        let _tracked = self.background.tasks.token();
        let mut state =
            LoopState { claims: FuturesOrdered::new(), ready: BinaryHeap::new(), spread: HashMap::default() };
        self.wall_clock.follow_step();
        loop {
            if let Err(fault) = self.fill_heap().await {
                tracing::error!(%fault, "could not read due arms from the ledger; retrying");
                tokio::select! {
                    () = self.background.closing.cancelled() => break,
                    () = self.background.timepiece.after(TROUBLE) => continue,
                }
            }
            self.notice_step(&mut state).await;
            self.claim_near(&mut state);
            self.release_due(&mut state);
            let wake = self.next_round(&state);
            tokio::select! {
                biased;
                () = self.background.closing.cancelled() => break,
                () = self.heap.nudge.notified() => {}
                Some(claimed) = state.claims.next() => self.receive(claimed, &mut state).await,
                () = self.background.timepiece.until(wake) => {}
            }
        }
        while let Some(claimed) = state.claims.next().await {
            self.receive(claimed, &mut state).await;
        }
        for Reverse(ready) in state.ready.drain() {
            self.leases.put_back(&ready.arm).await;
        }
        Ok(())
    }

    /// Fills the heap up to the horizon, well before its entries run out.
    async fn fill_heap(&self) -> Result<(), Fault> {
        let horizon = micros(self.config.horizon.0);
        let (now, reached) = (self.background.now_us(), self.heap.reaches_us());
        if reached > now.saturating_add(horizon / 3) {
            return Ok(());
        }
        let until = now.saturating_add(horizon);
        // Must come first: arms that commit while the pages are read are then pushed by their own request.
        self.heap.reach(until);
        let read = self.read_pages(reached, until).await;
        if read.is_err() {
            self.heap.fall_back(reached);
        }
        self.metrics.near.set(i64::try_from(self.heap.len()).unwrap_or(i64::MAX));
        read
    }

    async fn read_pages(&self, reached: i64, until: i64) -> Result<(), Fault> {
        let mut after = Due { next_us: reached, key: ArmKey(i64::MIN) };
        loop {
            let page = self.arms.due(after, until, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = *last;
            let is_last = page.len() < PAGE as usize;
            self.heap.extend(page);
            if is_last {
                return Ok(());
            }
        }
    }

    fn claim_near(&self, state: &mut LoopState) {
        loop {
            let parked = self.leases.unpark(BATCH);
            if parked.is_empty() {
                break;
            }
            self.start_claiming(ArmsToClaim::Parked(parked), state);
        }
        let guard = self.config.guard_us();
        let now = self.background.now_us();
        let near = self.heap.earliest_us().is_some_and(|next| next <= now + AHEAD_US - guard);
        if !near {
            return;
        }
        let mut room = self.room(state);
        while room > 0 {
            let keys = self.heap.pop(now + STRIDE_US - guard, BATCH.min(room));
            if keys.is_empty() {
                break;
            }
            room -= keys.len();
            self.start_claiming(ArmsToClaim::Due(keys), state);
        }
        self.metrics.near.set(i64::try_from(self.heap.len()).unwrap_or(i64::MAX));
    }

    /// How many more arms may be taken out of the heap. Even when all places are in use, one batch at a time is
    /// taken: only then the tenants of the arms are known, and one of them may be a tenant that holds none.
    fn room(&self, state: &LoopState) -> usize {
        match state.claims.len() {
            0 => self.leases.room().max(BATCH),
            claims => self.leases.room().saturating_sub(claims * BATCH),
        }
    }

    fn start_claiming(&self, wanted: ArmsToClaim, state: &mut LoopState) {
        let claiming = self.leases.claiming();
        let (leases, asked) = (Arc::clone(&self.leases), wanted.keys().to_vec());
        let claim = self.background.tasks.spawn(async move {
            match wanted {
                ArmsToClaim::Due(keys) => leases.claim_due(keys).await,
                ArmsToClaim::Parked(keys) => leases.claim(keys).await,
            }
        });
        state.claims.push_back(Box::pin(async move {
            (claiming, asked, claim.await.unwrap_or(Err(ledger::Fault::Closed)))
        }));
    }

    async fn receive(&self, (_claiming, asked, claimed): Claimed, state: &mut LoopState) {
        let now = self.background.now_us();
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(fault) => {
                tracing::error!(%fault, arms = asked.len(), "could not claim due arms; retrying");
                // Nothing is lost: the same arms are claimed again after a pause.
                self.leases.release(&asked);
                let next_us = now.saturating_add(micros(TROUBLE));
                return asked.into_iter().for_each(|key| self.heap.push(Due { next_us, key }));
            }
        };
        state.spread.retain(|_, last| *last > now);
        for arm in claimed {
            if !self.leases.hold(&arm, Stage::Waiting) {
                continue;
            }
            // The heap entry was from before the arm was postponed.
            if arm.next_us > now.saturating_add(FAR_US) && self.leases.put_back(&arm).await {
                continue;
            }
            let at_us = self.instant(&arm, now, &mut state.spread);
            state.ready.push(Reverse(Ready { at_us, key: arm.key, arm: Box::new(arm) }));
        }
        // Frees the places of arms that were cancelled before their claim committed.
        self.leases.release(&asked);
    }

    /// Time at which an arm may be released: its due time plus the guard. If one agent has a backlog because
    /// the server was down, its arms are released one after another.
    fn instant(&self, arm: &Arm, now: i64, spread: &mut HashMap<InstanceId, i64>) -> i64 {
        let due = arm.next_us.saturating_add(self.config.guard_us());
        if arm.attempts > 0 {
            return due;
        }
        // Fires of one agent go in order, so an arm behind a backlog of the same agent waits for it.
        let before = spread.get(&arm.instance).copied();
        let share = if arm.is_alarm() { alarm::PER_TENANT } else { self.config.arms_per_agent };
        let step = SPREAD_US / i64::from(share).max(1);
        let at = before.map_or(i64::MIN, |last| last + step).max(due).max(now);
        if due < now || before.is_some() {
            spread.insert(arm.instance.clone(), at);
        }
        at
    }

    /// Handles a step of the wall clock. Due times are wall times: they wait for the wall clock, also after it was
    /// set back. Pauses between attempts are durations: the ledger recomputes what is left of each.
    async fn notice_step(&self, state: &mut LoopState) {
        let Some(before) = self.wall_clock.follow_step() else { return };
        match self.arms.move_retries(self.background.timepiece.now(), retry::LONGEST).await {
            Ok(moved) => moved.into_iter().for_each(|due| self.heap.push(due)),
            Err(fault) => {
                tracing::error!(%fault, "could not move retries after the wall clock was set; trying again");
                // The next round sees the step again.
                self.wall_clock.undo(before);
            }
        }
        let (retries, fires): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.ready).into_iter().partition(|Reverse(ready)| ready.arm.attempts > 0);
        state.ready = fires.into();
        for Reverse(ready) in retries {
            if !self.leases.put_back(&ready.arm).await {
                state.ready.push(Reverse(ready));
            }
        }
    }

    fn release_due(&self, state: &mut LoopState) {
        let now = self.background.now_us();
        let due = std::iter::from_fn(|| {
            while state.ready.peek().is_some_and(|Reverse(ready)| ready.at_us <= now)
                && let Some(Reverse(ready)) = state.ready.pop()
            {
                match self.targets.of(&ready.arm) {
                    Some(target) => return Some(HeldArm::new(target, *ready.arm, ready.at_us)),
                    None => self.alarms.wait_for_target(*ready.arm),
                }
            }
            None
        });
        self.firing.release(due);
    }

    /// First whole millisecond at which there may be something to do.
    fn next_round(&self, state: &LoopState) -> Moment {
        let guard = self.config.guard_us();
        // Without room the heap waits for a claim to return.
        let full = self.room(state) == 0;
        let claim =
            self.heap.earliest_us().filter(|_| !full).map(|next| next.saturating_add(guard - AHEAD_US));
        let ready = state.ready.peek().map(|Reverse(ready)| ready.at_us);
        let refill = self.heap.reaches_us().saturating_sub(micros(self.config.horizon.0) / 3);
        let earliest = claim.into_iter().chain(ready).fold(refill, i64::min);
        Moment::from_millis(earliest.div_euclid(1000) + i64::from(earliest.rem_euclid(1000) != 0))
    }
}

impl ArmsToClaim {
    fn keys(&self) -> &[ArmKey] {
        match self {
            Self::Due(keys) | Self::Parked(keys) => keys,
        }
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.key) == (other.at_us, other.key)
    }
}

impl Eq for Ready {}

impl PartialOrd for Ready {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ready {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.key).cmp(&(other.at_us, other.key))
    }
}

#[cfg(test)]
mod tests {
    use posthouse_wire::cron::Fired;

    use crate::alarm::AlarmParts;
    use crate::target::FireOutcome;
    use crate::tests::{CronRecords, FixedAnswerTarget};

    use super::*;

    #[tokio::test]
    async fn an_arm_fires_at_its_due_time_and_not_before() {
        let records = CronRecords::open().await;
        let (leases, heap) = (records.leases(), Arc::new(Heap::new()));
        let accepted = FireOutcome::Accepted { status: 202, fired: Fired::Accepted };
        let target = FixedAnswerTarget::answering(accepted);
        let due_loop = DueLoop {
            config: Config::default(),
            arms: records.ledger.arms(),
            wall_clock: Arc::new(WallClock::new(records.background.timepiece.clone())),
            targets: target.everywhere(),
            firing: records.firing(&leases, &records.revivals()),
            alarms: Alarms::new(AlarmParts {
                arms: records.ledger.arms(),
                heap: Arc::clone(&heap),
                leases: Arc::clone(&leases),
                targets: target.everywhere(),
                metrics: Arc::clone(&records.metrics),
                background: records.background.clone(),
            }),
            metrics: Arc::clone(&records.metrics),
            background: records.background.clone(),
            leases: Arc::clone(&leases),
            heap,
        };
        let arm = records.arm(&leases, "report", 1000).await;
        let timepiece = &records.background.timepiece;
        let started = timepiece.now();
        let fires = async {
            let has_fired = async {
                while target.fired.lock().is_empty() {
                    tokio::task::yield_now().await;
                }
                timepiece.now()
            };
            let at = timepiece.wind_until(Duration::from_millis(50), has_fired).await;
            records.background.closing.cancel();
            at
        };
        let (ended, at) = tokio::join!(due_loop.run(), fires);
        ended.unwrap();
        assert!(at >= started + Duration::from_millis(1100), "before its due time and the guard");
        assert_eq!(*target.fired.lock(), [arm.job]);
    }
}
