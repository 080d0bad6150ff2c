//! The one loop: sleeps until the earliest arm or a nudge, takes what is due under a lease a little
//! ahead of its instant, and lets it go at the instant, never before.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use ledger::{Arm, ArmKey, Due};
use posthouse_time::Moment;
use posthouse_wire::InstanceId;

use crate::clock::Stage;
use crate::config::micros;
use crate::fire::Held;
use crate::withdrawn::Claiming;
use crate::{Clock, Fault, alarm};

/// Arms are claimed this long before their instant, so that the commit is not felt in it.
const AHEAD_US: i64 = 150_000;
/// A claim takes everything due within this time along: many arms, one transaction.
const STRIDE_US: i64 = 300_000;
/// Whoever is due later than this need not be held yet.
const FAR_US: i64 = 5_000_000;
/// Arms in one claim.
const BATCH: usize = 512;
/// Arms held at once; past that the heap keeps them.
const HELD: usize = 8192;
/// Arms read at once from the ledger.
const PAGE: u32 = 10_000;
/// How long a ledger in trouble is left alone.
const TROUBLE: Duration = Duration::from_secs(1);
/// Over how long one agent's piled up fires are spread at most.
const SPREAD_US: i64 = 10_000_000;

/// A claim under way: what was asked for, and what came of it.
type Claim = BoxFuture<'static, Claimed>;
type Claimed = (Claiming, Vec<ArmKey>, Result<Vec<Arm>, ledger::Fault>);

/// What this loop holds between two looks at the clock.
#[derive(Default)]
struct Hands {
    claims: FuturesOrdered<Claim>,
    ready: BinaryHeap<Reverse<Ready>>,
    /// When the last of an agent's piled up fires is let go.
    spread: HashMap<InstanceId, i64>,
}

/// A held arm and the instant it may be let go. Ordered by that instant, then by age.
struct Ready {
    at_us: i64,
    key: ArmKey,
    arm: Box<Arm>,
}

impl Clock {
    pub(crate) async fn keep_due(&self) -> Result<(), Fault> {
        // The closing clock waits until what is held here has been put back.
        let _tracked = self.0.tasks.token();
        let mut hands = Hands::default();
        loop {
            if let Err(fault) = self.reach_out().await {
                tracing::error!(%fault, "could not look for what is due");
                tokio::select! {
                    () = self.0.closing.cancelled() => break,
                    () = self.0.timepiece.after(TROUBLE) => continue,
                }
            }
            self.claim_near(&mut hands);
            self.let_go_due(&mut hands);
            let wake = self.next_look(&hands);
            tokio::select! {
                biased;
                () = self.0.closing.cancelled() => break,
                () = self.0.heap.nudge.notified() => {}
                Some(claimed) = hands.claims.next() => self.receive(claimed, &mut hands).await,
                () = self.0.timepiece.until(wake) => {}
            }
        }
        while let Some(claimed) = hands.claims.next().await {
            self.receive(claimed, &mut hands).await;
        }
        for Reverse(ready) in hands.ready.drain() {
            self.put_back(&ready.arm).await;
        }
        Ok(())
    }

    /// Fills the heap up to the horizon, well before what it holds runs out.
    async fn reach_out(&self) -> Result<(), Fault> {
        let horizon = micros(self.0.config.horizon.0);
        let (now, reached) = (self.now_us(), self.0.heap.reaches_us());
        if reached > now.saturating_add(horizon / 3) {
            return Ok(());
        }
        let until = now.saturating_add(horizon);
        // First, so that whatever commits while the pages are read is pushed by its own hand.
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

    fn claim_near(&self, hands: &mut Hands) {
        let guard = self.0.config.guard_us();
        let now = self.now_us();
        let near = self.0.heap.earliest_us().is_some_and(|next| next <= now + AHEAD_US - guard);
        if !near {
            return;
        }
        let mut room = HELD.saturating_sub(self.0.held.len() + hands.claims.len() * BATCH);
        while room > 0 {
            let keys = self.0.heap.pop(now + STRIDE_US - guard, BATCH.min(room));
            if keys.is_empty() {
                break;
            }
            room -= keys.len();
            let (arms, owner) = (self.0.arms.clone(), self.0.owner.clone());
            let (asked, lease_until) = (keys.clone(), self.lease_until());
            let claiming = self.0.withdrawn.claiming();
            let claim = self.0.tasks.spawn(async move { arms.claim(keys, &owner, lease_until).await });
            hands.claims.push_back(Box::pin(async move {
                (claiming, asked, claim.await.unwrap_or(Err(ledger::Fault::Closed)))
            }));
        }
        self.0.metrics.near.set(i64::try_from(self.0.heap.len()).unwrap_or(i64::MAX));
    }

    async fn receive(&self, (_claiming, asked, claimed): Claimed, hands: &mut Hands) {
        let now = self.now_us();
        let claimed = match claimed {
            Ok(claimed) => claimed,
            Err(fault) => {
                tracing::error!(%fault, arms = asked.len(), "could not claim what is due");
                // Nothing is lost: they are looked at again in a moment.
                let next_us = now.saturating_add(micros(TROUBLE));
                return asked.into_iter().for_each(|key| self.0.heap.push(Due { next_us, key }));
            }
        };
        hands.spread.retain(|_, last| *last > now);
        for arm in claimed {
            self.0.held.insert(arm.key, Stage::Waiting);
            if self.0.withdrawn.has(arm.key) {
                self.0.held.remove(&arm.key);
                continue;
            }
            // Found by an entry from before it was postponed.
            if arm.next_us > now.saturating_add(FAR_US) && self.put_back(&arm).await {
                continue;
            }
            let at_us = self.instant(&arm, now, &mut hands.spread);
            hands.ready.push(Reverse(Ready { at_us, key: arm.key, arm: Box::new(arm) }));
        }
    }

    /// When an arm may be let go: guarded against early clocks, and one after another where a house that
    /// was down has many of one agent's.
    fn instant(&self, arm: &Arm, now: i64, spread: &mut HashMap<InstanceId, i64>) -> i64 {
        let due = arm.next_us.saturating_add(self.0.config.guard_us());
        if arm.attempts > 0 {
            return due;
        }
        // Whatever comes after a piled up one of the same agent waits behind it: they go in order.
        let before = spread.get(&arm.instance).copied();
        let share = if arm.is_alarm() { alarm::PER_TENANT } else { self.0.config.arms_per_agent };
        let step = SPREAD_US / i64::from(share).max(1);
        let at = before.map_or(i64::MIN, |last| last + step).max(due).max(now);
        if due < now || before.is_some() {
            spread.insert(arm.instance.clone(), at);
        }
        at
    }

    fn let_go_due(&self, hands: &mut Hands) {
        let now = self.now_us();
        let mut crowd = self.0.crowd.lock();
        while hands.ready.peek().is_some_and(|Reverse(ready)| ready.at_us <= now)
            && let Some(Reverse(ready)) = hands.ready.pop()
        {
            let Some(bell) = self.bell_of(&ready.arm) else {
                self.wait_for_bell(*ready.arm);
                continue;
            };
            let held = Held::new(bell, *ready.arm, ready.at_us);
            crowd.join(held.host.clone(), held.arm.instance.clone(), held);
        }
        drop(crowd);
        self.start_who_may();
    }

    /// The first whole millisecond at which there may be something to do.
    fn next_look(&self, hands: &Hands) -> Moment {
        let guard = self.0.config.guard_us();
        // With full hands the heap waits for a fire to end, which nudges.
        let full = self.0.held.len() + hands.claims.len() * BATCH >= HELD;
        let claim =
            self.0.heap.earliest_us().filter(|_| !full).map(|next| next.saturating_add(guard - AHEAD_US));
        let ready = hands.ready.peek().map(|Reverse(ready)| ready.at_us);
        let refill = self.0.heap.reaches_us().saturating_sub(micros(self.0.config.horizon.0) / 3);
        let earliest = claim.into_iter().chain(ready).fold(refill, i64::min);
        Moment::from_millis(earliest.div_euclid(1000) + i64::from(earliest.rem_euclid(1000) != 0))
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
