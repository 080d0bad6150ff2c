//! Main loop of the clock: claims arms under a lease shortly before they are due, and releases them at their
//! due time, never before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use ledger::{Arm, ArmKey, Due};
use posthouse_time::Moment;
use posthouse_wire::InstanceId;

use crate::cancelled_during_claim::Claiming;
use crate::clock::STEP_US;
use crate::config::micros;
use crate::fire::HeldArm;
use crate::held::Stage;
use crate::{Clock, Fault, alarm, retry};

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

impl Clock {
    pub(crate) async fn keep_due(&self) -> Result<(), Fault> {
        // A shutdown waits until the arms held here have been put back.
        let _tracked = self.0.tasks.token();
        let mut state =
            LoopState { claims: FuturesOrdered::new(), ready: BinaryHeap::new(), spread: HashMap::new() };
        self.0.lead.store(self.wall_lead(), Ordering::Relaxed);
        loop {
            if let Err(fault) = self.fill_heap().await {
                tracing::error!(%fault, "could not read due arms from the ledger; retrying");
                tokio::select! {
                    () = self.0.closing.cancelled() => break,
                    () = self.0.timepiece.after(TROUBLE) => continue,
                }
            }
            self.notice_step(&mut state).await;
            self.claim_near(&mut state);
            self.release_due(&mut state);
            let wake = self.next_round(&state);
            tokio::select! {
                biased;
                () = self.0.closing.cancelled() => break,
                () = self.0.heap.nudge.notified() => {}
                Some(claimed) = state.claims.next() => self.receive(claimed, &mut state).await,
                () = self.0.timepiece.until(wake) => {}
            }
        }
        while let Some(claimed) = state.claims.next().await {
            self.receive(claimed, &mut state).await;
        }
        for Reverse(ready) in state.ready.drain() {
            self.put_back(&ready.arm).await;
        }
        Ok(())
    }

    /// Fills the heap up to the horizon, well before its entries run out.
    async fn fill_heap(&self) -> Result<(), Fault> {
        let horizon = micros(self.0.config.horizon.0);
        let (now, reached) = (self.now_us(), self.0.heap.reaches_us());
        if reached > now.saturating_add(horizon / 3) {
            return Ok(());
        }
        let until = now.saturating_add(horizon);
        // Must come first: arms that commit while the pages are read are then pushed by their own request.
        self.0.heap.reach(until);
        let read = self.read_pages(reached, until).await;
        if read.is_err() {
            self.0.heap.fall_back(reached);
        }
        self.0.metrics.near.set(i64::try_from(self.0.heap.len()).unwrap_or(i64::MAX));
        read
    }

    async fn read_pages(&self, reached: i64, until: i64) -> Result<(), Fault> {
        let mut after = Due { next_us: reached, key: ArmKey(i64::MIN) };
        loop {
            let page = self.0.arms.due(after, until, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = *last;
            let is_last = page.len() < PAGE as usize;
            self.0.heap.extend(page);
            if is_last {
                return Ok(());
            }
        }
    }

    fn claim_near(&self, state: &mut LoopState) {
        loop {
            let parked = self.0.held.unpark(BATCH);
            if parked.is_empty() {
                break;
            }
            self.start_claiming(ArmsToClaim::Parked(parked), state);
        }
        let guard = self.0.config.guard_us();
        let now = self.now_us();
        let near = self.0.heap.earliest_us().is_some_and(|next| next <= now + AHEAD_US - guard);
        if !near {
            return;
        }
        let mut room = self.room(state);
        while room > 0 {
            let keys = self.0.heap.pop(now + STRIDE_US - guard, BATCH.min(room));
            if keys.is_empty() {
                break;
            }
            room -= keys.len();
            self.start_claiming(ArmsToClaim::Due(keys), state);
        }
        self.0.metrics.near.set(i64::try_from(self.0.heap.len()).unwrap_or(i64::MAX));
    }

    /// How many more arms may be taken out of the heap. Even when all places are in use, one batch at a time is
    /// taken: only then the tenants of the arms are known, and one of them may be a tenant that holds none.
    fn room(&self, state: &LoopState) -> usize {
        match state.claims.len() {
            0 => self.0.held.room().max(BATCH),
            claims => self.0.held.room().saturating_sub(claims * BATCH),
        }
    }

    fn start_claiming(&self, wanted: ArmsToClaim, state: &mut LoopState) {
        let claiming = self.0.cancelled.claiming();
        let (clock, asked) = (self.clone(), wanted.keys().to_vec());
        let claim = self.0.tasks.spawn(async move { clock.claim(wanted).await });
        state.claims.push_back(Box::pin(async move {
            (claiming, asked, claim.await.unwrap_or(Err(ledger::Fault::Closed)))
        }));
    }

    async fn claim(&self, wanted: ArmsToClaim) -> Result<Vec<Arm>, ledger::Fault> {
        let keys = match wanted {
            ArmsToClaim::Due(keys) => self.0.held.reserve(self.0.arms.tenants(keys).await?),
            ArmsToClaim::Parked(keys) => keys,
        };
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        self.0.arms.claim(keys, &self.0.owner, self.lease_until()).await
    }

    async fn receive(&self, (_claiming, asked, claimed): Claimed, state: &mut LoopState) {
        let now = self.now_us();
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(fault) => {
                tracing::error!(%fault, arms = asked.len(), "could not claim due arms; retrying");
                // Nothing is lost: the same arms are claimed again after a pause.
                self.0.held.release(&asked);
                let next_us = now.saturating_add(micros(TROUBLE));
                return asked.into_iter().for_each(|key| self.0.heap.push(Due { next_us, key }));
            }
        };
        state.spread.retain(|_, last| *last > now);
        for arm in claimed {
            self.0.held.insert(arm.key, &arm.tenant, Stage::Waiting);
            if self.0.cancelled.has(arm.key) {
                self.0.held.remove(arm.key);
                continue;
            }
            // The heap entry was from before the arm was postponed.
            if arm.next_us > now.saturating_add(FAR_US) && self.put_back(&arm).await {
                continue;
            }
            let at_us = self.instant(&arm, now, &mut state.spread);
            state.ready.push(Reverse(Ready { at_us, key: arm.key, arm: Box::new(arm) }));
        }
        // Frees the places of arms that were cancelled before their claim committed.
        self.0.held.release(&asked);
    }

    /// Time at which an arm may be released: its due time plus the guard. If one agent has a backlog because
    /// the server was down, its arms are released one after another.
    fn instant(&self, arm: &Arm, now: i64, spread: &mut HashMap<InstanceId, i64>) -> i64 {
        let due = arm.next_us.saturating_add(self.0.config.guard_us());
        if arm.attempts > 0 {
            return due;
        }
        // Fires of one agent go in order, so an arm behind a backlog of the same agent waits for it.
        let before = spread.get(&arm.instance).copied();
        let share = if arm.is_alarm() { alarm::PER_TENANT } else { self.0.config.arms_per_agent };
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
        let lead = self.wall_lead();
        let before = self.0.lead.swap(lead, Ordering::Relaxed);
        if before.abs_diff(lead) <= STEP_US {
            return;
        }
        match self.0.arms.move_retries(self.0.timepiece.now(), retry::LONGEST).await {
            Ok(moved) => moved.into_iter().for_each(|due| self.0.heap.push(due)),
            Err(fault) => {
                tracing::error!(%fault, "could not move retries after the wall clock was set; trying again");
                // The next round sees the step again.
                self.0.lead.store(before, Ordering::Relaxed);
            }
        }
        let (retries, fires): (Vec<_>, Vec<_>) =
            std::mem::take(&mut state.ready).into_iter().partition(|Reverse(ready)| ready.arm.attempts > 0);
        state.ready = fires.into();
        for Reverse(ready) in retries {
            if !self.put_back(&ready.arm).await {
                state.ready.push(Reverse(ready));
            }
        }
    }

    fn release_due(&self, state: &mut LoopState) {
        let now = self.now_us();
        let mut queue = self.0.queue.lock();
        while state.ready.peek().is_some_and(|Reverse(ready)| ready.at_us <= now)
            && let Some(Reverse(ready)) = state.ready.pop()
        {
            let Some(target) = self.target_of(&ready.arm) else {
                self.wait_for_target(*ready.arm);
                continue;
            };
            let held = HeldArm::new(target, *ready.arm, ready.at_us);
            let (tenant, host, instance) =
                (held.arm.tenant.clone(), held.host.clone(), held.arm.instance.clone());
            queue.join(&tenant, &host, &instance, held);
        }
        drop(queue);
        self.start_who_may();
    }

    /// First whole millisecond at which there may be something to do.
    fn next_round(&self, state: &LoopState) -> Moment {
        let guard = self.0.config.guard_us();
        // Without room the heap waits for a claim to return.
        let full = self.room(state) == 0;
        let claim =
            self.0.heap.earliest_us().filter(|_| !full).map(|next| next.saturating_add(guard - AHEAD_US));
        let ready = state.ready.peek().map(|Reverse(ready)| ready.at_us);
        let refill = self.0.heap.reaches_us().saturating_sub(micros(self.0.config.horizon.0) / 3);
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
