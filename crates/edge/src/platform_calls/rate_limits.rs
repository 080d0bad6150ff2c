//! Rate limits that a platform announces: calls wait for them, so that the platform does not refuse them. The tenants that
//! share a bot wait in turns.

mod rate_bucket;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use moka::Expiry;
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::BotId;

use super::calls_with_deadline::LONGEST_WAIT;
use super::failure::{CallFailure, CallRefusal, RefusalKind};
use super::fair_turns::{FairTurns, ShareOwner};
use rate_bucket::{RateBucket, Refill};

/// Most buckets that are remembered. One that is forgotten is learned again from the next response.
const BUCKETS: u64 = 50_000;
/// Most bots whose waiting calls are kept apart.
const BOTS: u64 = 20_000;
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// Remembers a bucket for a while after its last use, and until a pause has ended that the platform asked for.
struct KeepPauses(Timepiece);

impl KeepPauses {
    fn kept_for(&self, bucket: &Mutex<RateBucket>) -> Duration {
        bucket.lock().filled_at.since(self.0.instant()).max(FORGET_AFTER)
    }
}

impl Expiry<String, Arc<Mutex<RateBucket>>> for KeepPauses {
    fn expire_after_create(
        &self,
        _: &String,
        bucket: &Arc<Mutex<RateBucket>>,
        _: std::time::Instant,
    ) -> Option<Duration> {
        Some(self.kept_for(bucket))
    }

    fn expire_after_read(
        &self,
        _: &String,
        bucket: &Arc<Mutex<RateBucket>>,
        _: std::time::Instant,
        _: Option<Duration>,
        _: std::time::Instant,
    ) -> Option<Duration> {
        Some(self.kept_for(bucket))
    }
}

/// The buckets of a platform, by name. A name contains the bot, because platforms count per bot. Clones share one state.
#[derive(Clone)]
pub struct PlatformRateLimits {
    buckets: Cache<String, Arc<Mutex<RateBucket>>>,
    /// The calls that wait, per bot.
    turns: Cache<BotId, Arc<FairTurns>>,
    timepiece: Timepiece,
}

/// The bot whose limits a call counts against, and the tenant whose share of them it takes.
#[derive(Clone, Copy)]
pub struct CallShare<'a> {
    pub bot: &'a BotId,
    pub of: &'a ShareOwner,
}

impl PlatformRateLimits {
    pub fn new(timepiece: Timepiece) -> Self {
        let buckets = Cache::builder().max_capacity(BUCKETS);
        let buckets = buckets.expire_after(KeepPauses(timepiece.clone())).build();
        let turns = Cache::builder().max_capacity(BOTS).time_to_idle(FORGET_AFTER).build();
        Self { buckets, turns, timepiece }
    }

    /// Takes one call from each bucket, and waits until all have one and it is the tenant's turn. A wait that is longer
    /// than `left`, or than an agent waits, is a refusal instead, and takes nothing. All callers name the buckets in the
    /// same order, and first the one that all calls of the bot need.
    pub async fn take(
        &self,
        share: CallShare<'_>,
        names: &[&str],
        left: Duration,
    ) -> Result<(), CallFailure> {
        let end = self.timepiece.instant() + left.min(LONGEST_WAIT);
        let turns = self.turns.get_with_by_ref(share.bot, Arc::default);
        let try_take = |names: &[&str]| self.try_take(names);
        if turns.is_empty() && try_take(names).is_none() {
            return Ok(());
        }
        if let Some(filled_at) = self.filled_at(names).filter(|filled_at| *filled_at > end) {
            return Err(refusal(filled_at.since(self.timepiece.instant())));
        }
        let Some(mut turn) = turns.join(share.of, names) else { return Err(refusal(left.min(LONGEST_WAIT))) };
        // The call that gives the turns may sleep longer than this one has to wait.
        turns.give(&try_take);
        turns.changed();
        let until_end = end.since(self.timepiece.instant());
        let waited = self.timepiece.within(until_end, turn.wait(&try_take, &self.timepiece)).await;
        match waited.is_ok() || turn.is_given() {
            true => Ok(()),
            false => {
                let filled_at = self.filled_at(names).unwrap_or(end);
                Err(refusal(filled_at.since(self.timepiece.instant())))
            }
        }
    }

    /// The time at which the empty ones of these buckets are filled again. `None` if all have a call left.
    fn filled_at(&self, names: &[&str]) -> Option<Instant> {
        let now = self.timepiece.instant();
        let buckets = names.iter().filter_map(|name| self.buckets.get(*name));
        let empty = buckets.filter_map(|bucket| {
            let mut bucket = bucket.lock();
            bucket.refill(now);
            (bucket.left == 0).then_some(bucket.filled_at)
        });
        empty.max()
    }

    /// Takes one call from each bucket, or from none. The time at which all empty ones are filled again, if there are
    /// any.
    fn try_take(&self, names: &[&str]) -> Option<Instant> {
        let buckets: Vec<_> = names.iter().filter_map(|name| self.buckets.get(*name)).collect();
        let mut buckets: Vec<_> = buckets.iter().map(|bucket| bucket.lock()).collect();
        let now = self.timepiece.instant();
        buckets.iter_mut().for_each(|bucket| bucket.refill(now));
        let empty = buckets.iter().filter(|bucket| bucket.left == 0);
        let filled_at = empty.map(|bucket| bucket.filled_at).max();
        if filled_at.is_none() {
            buckets.iter_mut().for_each(|bucket| bucket.take(now));
        }
        filled_at
    }

    /// Sets a limit that is known beforehand: at most `calls` in any time as long as `period`.
    pub fn set_limit(&self, name: &str, calls: u32, period: Duration) {
        let now = self.timepiece.instant();
        let refill = Refill::Known { recent: VecDeque::new(), calls, period };
        let new = || Arc::new(Mutex::new(RateBucket { left: calls, filled_at: now, refill }));
        let entry = self.buckets.entry_by_ref(name).or_insert_with(new);
        if !entry.is_fresh()
            && let Refill::Known { calls: known, period: known_period, .. } = &mut entry.value().lock().refill
        {
            (*known, *known_period) = (calls, period);
        }
    }

    /// Records that the platform announced `left` more calls in this bucket for the given time.
    pub fn learn(&self, name: &str, left: u32, filled_after: Duration) {
        let now = self.timepiece.instant();
        let refill = Refill::Announced { calls: 0, period: Duration::ZERO, is_assumed: false };
        self.bucket(name, left, refill).lock().learn(left, filled_after, now);
        self.keep(name);
    }

    /// Records that the platform asked to wait before the next call, and that nothing else is known of this bucket.
    pub fn pause(&self, name: &str, wait: Duration) {
        let now = self.timepiece.instant();
        self.bucket(name, u32::MAX, Refill::Unlimited).lock().pause(now + wait, now);
        self.keep(name);
    }

    /// Looks at a bucket again after a change, so that it is remembered for as long as its pause lasts.
    fn keep(&self, name: &str) {
        let _ = self.buckets.get(name);
    }

    fn bucket(&self, name: &str, left: u32, refill: Refill) -> Arc<Mutex<RateBucket>> {
        let new = || RateBucket { left, filled_at: self.timepiece.instant(), refill };
        self.buckets.get_with_by_ref(name, || Arc::new(Mutex::new(new())))
    }
}

/// The refusal of a call that cannot wait for its turn.
fn refusal(wait: Duration) -> CallFailure {
    let limited = CallRefusal::new(RefusalKind::RateLimited, 429, String::new());
    CallFailure::Refused(CallRefusal { retry_after: Some(wait), ..limited })
}
