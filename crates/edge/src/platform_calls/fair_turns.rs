//! Turns of the tenants that share a bot: calls that wait for the bot's rate limits are made in turns between them.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::TenantId;
use tokio::sync::{Mutex as AsyncMutex, Notify, oneshot};

/// Calls that may wait for one bot. More than any bot can make while an agent waits for a result. Beyond it a tenant may
/// add calls only while it has fewer than its part of them.
const MOST_WAITING: usize = 2_000;

/// Whose share of a bot's limits a call takes. `None` is the server's own: notices, and questions of the gate.
pub type ShareOwner = Option<TenantId>;

/// Takes one call from each of these buckets, or from none. Returns the time at which the empty ones are filled again.
pub(super) trait TryTake: Fn(&[&str]) -> Option<Instant> {}

impl<F: Fn(&[&str]) -> Option<Instant>> TryTake for F {}

/// The calls that wait for the limits of one bot.
#[derive(Default)]
pub(super) struct FairTurns {
    waiting: Mutex<WaitingCalls>,
    /// Held by the one waiting call that gives turns to all.
    giver: AsyncMutex<()>,
    changed: Notify,
}

#[derive(Default)]
struct WaitingCalls {
    tenants: HashMap<ShareOwner, CallsOfTenant>,
    /// The tenants with waiting calls, in the order of their turns.
    turns: VecDeque<ShareOwner>,
    count: usize,
    last_number: u64,
}

/// Calls of one tenant, by the buckets that they need. One with an empty bucket does not hold up those with others.
#[derive(Default)]
struct CallsOfTenant {
    by_buckets: BTreeMap<Arc<[String]>, VecDeque<WaitingCall>>,
    count: usize,
}

struct WaitingCall {
    number: u64,
    turn: oneshot::Sender<()>,
}

/// A call that waits. Dropping it withdraws it.
pub(super) struct CallTurn<'a> {
    turns: &'a FairTurns,
    of: ShareOwner,
    buckets: Arc<[String]>,
    number: u64,
    given: oneshot::Receiver<()>,
}

impl FairTurns {
    /// Adds a call. `None` if too many calls of this tenant wait already.
    pub fn join(&self, of: &ShareOwner, buckets: &[&str]) -> Option<CallTurn<'_>> {
        let (turn, given) = oneshot::channel();
        let buckets: Arc<[String]> = buckets.iter().map(|name| (*name).to_owned()).collect();
        let mut waiting = self.waiting.lock();
        let waiting = &mut *waiting;
        waiting.last_number += 1;
        let number = waiting.last_number;
        let own = waiting.tenants.get(of).map_or(0, |calls| calls.count);
        if waiting.count >= MOST_WAITING && own >= (MOST_WAITING / waiting.turns.len().max(1)).max(1) {
            return None;
        }
        let calls = waiting.tenants.entry(of.clone()).or_default();
        if calls.count == 0 {
            waiting.turns.push_back(of.clone());
        }
        waiting.count += 1;
        calls.count += 1;
        let same = calls.by_buckets.entry(Arc::clone(&buckets)).or_default();
        same.push_back(WaitingCall { number, turn });
        Some(CallTurn { turns: self, of: of.clone(), buckets, number, given })
    }

    /// Gives turns until no waiting call can be made now. Returns the time at which the next may be possible.
    pub fn give(&self, try_take: &impl TryTake) -> Option<Instant> {
        let mut waiting = self.waiting.lock();
        loop {
            let mut next: Option<Instant> = None;
            let given = (0..waiting.turns.len()).find(|at| {
                let of = waiting.turns[*at].clone();
                match waiting.tenants.get_mut(&of).map_or(Err(None), |calls| calls.give(try_take)) {
                    Ok(()) => true,
                    Err(filled_at) => {
                        next = [next, filled_at].into_iter().flatten().min();
                        false
                    }
                }
            });
            let Some(at) = given else { return next };
            waiting.count -= 1;
            // It goes to the end of the row. Those before it could not be served, and keep their places.
            if let Some(of) = waiting.turns.remove(at) {
                match waiting.tenants.get(&of) {
                    Some(calls) if calls.count > 0 => waiting.turns.push_back(of),
                    _ => drop(waiting.tenants.remove(&of)),
                }
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.lock().turns.is_empty()
    }

    /// Says that a bucket may have been filled or emptied.
    pub fn changed(&self) {
        self.changed.notify_one();
    }
}

impl CallsOfTenant {
    /// Gives a turn to the oldest call that can be made. The time at which one can be, if none can be now.
    fn give(&mut self, try_take: &impl TryTake) -> Result<(), Option<Instant>> {
        let mut by_age: Vec<_> = self
            .by_buckets
            .iter()
            .filter_map(|(names, calls)| Some((calls.front()?.number, Arc::clone(names))))
            .collect();
        by_age.sort_unstable_by_key(|(number, _)| *number);
        let mut next: Option<Instant> = None;
        for (_, names) in by_age {
            let texts: Vec<&str> = names.iter().map(String::as_str).collect();
            if let Some(filled_at) = try_take(&texts) {
                next = [next, Some(filled_at)].into_iter().flatten().min();
                continue;
            }
            let Some(calls) = self.by_buckets.get_mut(&names) else { continue };
            if let Some(call) = calls.pop_front() {
                self.count -= 1;
                // A call that was withdrawn at this moment has taken its place in the limits in vain.
                let _ = call.turn.send(());
            }
            if calls.is_empty() {
                self.by_buckets.remove(&names);
            }
            return Ok(());
        }
        Err(next)
    }
}

impl CallTurn<'_> {
    /// Waits for the turn. One of the waiting calls gives the turns of all; when it leaves, another takes over.
    pub async fn wait(&mut self, try_take: &impl TryTake, timepiece: &Timepiece) {
        let turns = self.turns;
        let giving = async {
            let _giver = turns.giver.lock().await;
            loop {
                match turns.give(try_take) {
                    Some(next) => {
                        let wait = timepiece.after(next.since(timepiece.instant()));
                        tokio::select! { () = wait => {}, () = turns.changed.notified() => {} }
                    }
                    None => turns.changed.notified().await,
                }
            }
        };
        tokio::select! {
            biased;
            _ = &mut self.given => {}
            () = giving => {}
        }
    }

    /// Whether the turn was given. It is not given afterwards.
    pub fn is_given(&mut self) -> bool {
        self.given.try_recv().is_ok()
    }
}

impl Drop for CallTurn<'_> {
    fn drop(&mut self) {
        let mut waiting = self.turns.waiting.lock();
        let waiting = &mut *waiting;
        let Some(calls) = waiting.tenants.get_mut(&self.of) else { return };
        let Some(same) = calls.by_buckets.get_mut(&self.buckets) else { return };
        let Some(at) = same.iter().position(|call| call.number == self.number) else { return };
        same.remove(at);
        waiting.count -= 1;
        calls.count -= 1;
        if same.is_empty() {
            calls.by_buckets.remove(&self.buckets);
        }
        if calls.count == 0 {
            waiting.tenants.remove(&self.of);
            waiting.turns.retain(|of| *of != self.of);
        }
    }
}
