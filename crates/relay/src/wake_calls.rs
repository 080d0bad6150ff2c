//! Wake calls: calls to the wake URLs of disconnected agents that have unread messages, with cooldown and back-off.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use errand::{Errand, OutgoingCall};
use futures_util::StreamExt;
use ledger::Seq;
use parking_lot::Mutex;
use posthouse_time::{Instant, Moment};
use posthouse_wire::{InstanceId, TenantId};
use tokio::sync::{Notify, oneshot};

use crate::Relay;
use crate::fair_queue::FairQueue;
use crate::metrics::Why;

/// Time limit of a wake call. The response is ignored.
const POKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after a restart without wake calls, because most agents reconnect by themselves.
const GRACE: Duration = Duration::from_secs(5);

/// First and longest pause before reading the backlogs again, when they cannot be read after a start.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AT_MOST: Duration = Duration::from_secs(30);

/// Concurrent wake calls in total, and per tenant.
const CALLS: usize = 64;
const CALLS_OF_A_TENANT: usize = 16;
/// Concurrent lookups of agents before their wake calls.
const LOOKUPS: usize = 8;
/// Agents taken from the queue at a time.
const BATCH: usize = 256;

/// Agents that need a wake call, and their next times.
pub(crate) struct WakeCalls {
    errand: Errand,
    sleepers: Mutex<Sleepers>,
    changed: Notify,
    calls: Mutex<Calls>,
}

/// Disconnected agents with unread messages, and agents that came back. Both are sorted by their next time, so that
/// due agents are found without scanning the others.
#[derive(Default)]
struct Sleepers {
    known: HashMap<InstanceId, Sleeper>,
    /// Agents that need a wake call.
    away: BTreeSet<(Instant, InstanceId)>,
    /// Agents that came back. They are kept only to enforce the cooldown.
    awake: BTreeSet<(Instant, InstanceId)>,
}

#[derive(Clone, Copy, Default)]
struct Sleeper {
    /// Time of the next wake call. The default means at once.
    due: Instant,
    pokes: u32,
    awake: bool,
    /// A wake call was made since it disconnected.
    was_poked: bool,
}

/// Calls that are running or waiting.
struct Calls {
    queue: FairQueue<WakeCall>,
    /// Sleepers among them. A sleeper has at most one waiting or running call.
    sleepers: HashSet<InstanceId>,
}

/// One wake call. `ended` notifies a caller that waits for it; a sleeper's call has none.
struct WakeCall {
    instance: InstanceId,
    url: String,
    ended: Option<oneshot::Sender<()>>,
}

impl Sleepers {
    fn insert(&mut self, instance: &InstanceId, sleeper: Sleeper) {
        self.remove(instance);
        let order = if sleeper.awake { &mut self.awake } else { &mut self.away };
        order.insert((sleeper.due, instance.clone()));
        self.known.insert(instance.clone(), sleeper);
    }

    fn remove(&mut self, instance: &InstanceId) -> Option<Sleeper> {
        let sleeper = self.known.remove(instance)?;
        let order = if sleeper.awake { &mut self.awake } else { &mut self.away };
        order.remove(&(sleeper.due, instance.clone()));
        Some(sleeper)
    }
}

impl WakeCalls {
    pub fn new(errand: Errand) -> Self {
        let calls = Calls { queue: FairQueue::new(CALLS, CALLS_OF_A_TENANT), sleepers: HashSet::new() };
        Self { errand, sleepers: Mutex::default(), changed: Notify::new(), calls: Mutex::new(calls) }
    }

    /// Records that a disconnected agent has an unread message. It runs on the ledger's thread and must not block.
    pub fn note(&self, instance: &InstanceId) {
        let mut sleepers = self.sleepers.lock();
        let sleeper = match sleepers.known.get(instance) {
            Some(sleeper) if !sleeper.awake => return,
            Some(sleeper) => Sleeper { awake: false, ..*sleeper },
            None => Sleeper::default(),
        };
        sleepers.insert(instance, sleeper);
        drop(sleepers);
        self.changed.notify_one();
    }

    /// Stops the wake calls of an agent that has connected, and resets its back-off.
    pub fn came(&self, instance: &InstanceId) {
        let mut sleepers = self.sleepers.lock();
        if let Some(sleeper) = sleepers.known.get(instance).copied() {
            sleepers.insert(instance, Sleeper { awake: true, pokes: 0, ..sleeper });
        }
    }

    /// Time of the next wake call. `None` before the first one.
    fn next(&self, instance: &InstanceId) -> Option<Instant> {
        let sleepers = self.sleepers.lock();
        sleepers
            .known
            .get(instance)
            .filter(|sleeper| !sleeper.awake && sleeper.was_poked)
            .map(|sleeper| sleeper.due)
    }

    fn earliest(&self) -> Option<Instant> {
        self.sleepers.lock().away.first().map(|(due, _)| *due)
    }

    /// Takes a batch of due agents and schedules the next time of each.
    fn take_due(&self, now: Instant, cooldown: Duration, at_most: Duration) -> Vec<InstanceId> {
        let mut sleepers = self.sleepers.lock();
        while sleepers.awake.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, instance)) = sleepers.awake.pop_first() {
                sleepers.known.remove(&instance);
            }
        }
        let mut taken = Vec::new();
        while taken.len() < BATCH && sleepers.away.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, instance)) = sleepers.away.pop_first() else { break };
            let Some(sleeper) = sleepers.known.get(&instance).copied() else { continue };
            let pause = cooldown.saturating_mul(2_u32.saturating_pow(sleeper.pokes.min(16)));
            let due = now + pause.clamp(cooldown, at_most.max(cooldown));
            let pokes = sleeper.pokes + 1;
            sleepers.insert(&instance, Sleeper { due, pokes, was_poked: true, ..sleeper });
            taken.push(instance);
        }
        taken
    }

    fn forget(&self, instance: &InstanceId) {
        self.sleepers.lock().remove(instance);
    }
}

impl Relay {
    pub(crate) async fn keep_waking(&self) {
        tokio::select! {
            () = self.0.closing.cancelled() => return,
            () = self.0.timepiece.after(GRACE) => {}
        }
        tokio::join!(self.note_those_left_waiting(), self.keep_poking());
    }

    async fn keep_poking(&self) {
        let wake_calls = &self.0.wake_calls;
        loop {
            let due = wake_calls.earliest();
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = wake_calls.changed.notified() => {}
                () = async {
                    match due {
                        Some(due) => self.0.timepiece.sleep_until(due).await,
                        None => std::future::pending().await,
                    }
                } => {}
            }
            let (cooldown, at_most) = (self.0.config.wake_cooldown.0, self.0.config.wake_at_most.0);
            let due = wake_calls.take_due(self.0.timepiece.instant(), cooldown, at_most);
            futures_util::stream::iter(due)
                .for_each_concurrent(LOOKUPS, |instance| async move { self.poke(&instance).await })
                .await;
        }
    }

    /// After a restart, schedules wake calls for agents that have unread messages and are not connected.
    async fn note_those_left_waiting(&self) {
        let mut pause = LOOK_AGAIN;
        let backlogs = loop {
            match self.0.inbox.backlogs().await {
                Ok(backlogs) => break backlogs,
                Err(fault) => {
                    tracing::error!(%fault, "could not find agents with unread messages; trying again in {pause:?}");
                }
            }
            tokio::select! {
                () = self.0.closing.cancelled() => return,
                () = self.0.timepiece.after(pause) => {}
            }
            pause = (pause * 2).min(LOOK_AGAIN_AT_MOST);
        };
        for (instance, _) in backlogs {
            if !self.presence(&instance).connected {
                self.0.wake_calls.note(&instance);
            }
        }
    }

    /// Calls an agent's wake URL once, with or without unread messages. Returns false when it has no wake URL.
    pub async fn wake(&self, instance: &InstanceId) -> bool {
        match self.0.roster.instance(instance).await {
            Ok(found) => match found.and_then(|found| Some((found.tenant, found.wake_url?))) {
                Some((tenant, url)) => {
                    let (ended, end) = oneshot::channel();
                    let call = WakeCall { instance: instance.clone(), url, ended: Some(ended) };
                    self.enqueue_call(tenant, call);
                    // The sender is dropped only at shutdown.
                    let _ = end.await;
                    true
                }
                None => false,
            },
            Err(fault) => {
                tracing::error!(%fault, "could not look up a wake URL");
                false
            }
        }
    }

    /// Time of the next wake call to a disconnected agent. `None` before the first call.
    pub fn calls_again(&self, instance: &InstanceId) -> Option<Moment> {
        let timepiece = &self.0.timepiece;
        let due = self.0.wake_calls.next(instance)?;
        Some(timepiece.now() + due.since(timepiece.instant()))
    }

    async fn poke(&self, instance: &InstanceId) {
        let presence = self.presence(instance);
        if presence.connected && !presence.idle {
            return self.0.wake_calls.forget(instance);
        }
        match self.0.inbox.unread(instance, Seq(0), 1).await {
            Ok(unread) if unread.is_empty() => return self.0.wake_calls.forget(instance),
            Ok(_) => {}
            Err(fault) => {
                return tracing::error!(%fault, "could not read an inbox before waking its agent");
            }
        }
        let (tenant, url) = match self.0.roster.instance(instance).await {
            Ok(Some(found)) => (found.tenant, found.wake_url),
            Ok(None) => return self.0.wake_calls.forget(instance),
            Err(fault) => return tracing::error!(%fault, "could not look up a wake URL"),
        };
        // Without a wake URL the agent gets its messages when it connects by itself. The roster is asked again
        // after the cooldown, not with every message.
        let Some(url) = url else { return };
        self.enqueue_call(tenant, WakeCall { instance: instance.clone(), url, ended: None });
    }

    /// Queues a call. The queue is fair between tenants, so that hanging wake URLs delay only their own tenant.
    fn enqueue_call(&self, tenant: TenantId, call: WakeCall) {
        {
            let mut calls = self.0.wake_calls.calls.lock();
            if call.ended.is_none() && !calls.sleepers.insert(call.instance.clone()) {
                return;
            }
            calls.queue.push(tenant, call);
        }
        self.start_calls();
    }

    fn start_calls(&self) {
        loop {
            let next = self.0.wake_calls.calls.lock().queue.take();
            let Some((tenant, call)) = next else { return };
            let relay = self.clone();
            self.0.tasks.spawn(async move {
                relay.call(&call.instance, &tenant, &call.url).await;
                {
                    let mut calls = relay.0.wake_calls.calls.lock();
                    calls.queue.done(&tenant);
                    if call.ended.is_none() {
                        calls.sleepers.remove(&call.instance);
                    }
                }
                if let Some(ended) = call.ended {
                    let _ = ended.send(());
                }
                relay.start_calls();
            });
        }
    }

    /// Makes the call, without body, credentials or tenant data. The response is ignored.
    async fn call(&self, instance: &InstanceId, tenant: &TenantId, url: &str) {
        let count = |why| {
            self.0.metrics.pokes.get_or_create(&Why { why }).inc();
        };
        let call = OutgoingCall::get(url).timeout(POKE_TIMEOUT).on_behalf_of(tenant.as_str());
        match self.0.wake_calls.errand.run(call).await {
            Ok(_) => count("answered"),
            Err(fault) => {
                count("failed");
                tracing::debug!(instance.id = %instance, %fault, "a wake call failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn wake_calls() -> (WakeCalls, InstanceId) {
        (WakeCalls::new(Errand::new(errand::Config::default())), InstanceId::new("inst_heron"))
    }

    #[test]
    fn a_sleeper_is_poked_at_once_then_after_each_cooldown_with_back_off() {
        let (wake_calls, heron) = wake_calls();
        wake_calls.note(&heron);
        let mut now = Instant::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(wake_calls.take_due(now, MINUTE, 15 * MINUTE), std::slice::from_ref(&heron));
            assert!(wake_calls.take_due(now, MINUTE, 15 * MINUTE).is_empty());
            let next = wake_calls.earliest().unwrap();
            pauses.push(next.since(now).as_secs() / 60);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15, 15, 15]);
    }

    #[test]
    fn who_came_and_left_again_within_the_cooldown_is_not_poked_before_its_end() {
        let (wake_calls, heron) = wake_calls();
        let start = Instant::default();
        wake_calls.note(&heron);
        assert_eq!(wake_calls.take_due(start, MINUTE, 15 * MINUTE).len(), 1);
        wake_calls.came(&heron);
        assert_eq!(wake_calls.earliest(), None);
        wake_calls.note(&heron);
        assert!(wake_calls.take_due(start + MINUTE / 2, MINUTE, 15 * MINUTE).is_empty());
        assert_eq!(wake_calls.take_due(start + MINUTE, MINUTE, 15 * MINUTE).len(), 1);
    }

    #[test]
    fn one_wake_looks_at_no_other_sleeper() {
        let (wake_calls, heron) = wake_calls();
        let start = Instant::default();
        for number in 0..10_000 {
            wake_calls.note(&InstanceId::new(format!("inst_{number}")));
        }
        // Each is taken once, a batch at a time, and from then on waits for its next time.
        let taken: usize = std::iter::from_fn(|| {
            Some(wake_calls.take_due(start, MINUTE, 15 * MINUTE).len()).filter(|len| *len > 0)
        })
        .sum();
        assert_eq!(taken, 10_000);
        wake_calls.note(&heron);
        assert_eq!(wake_calls.earliest(), Some(start), "the newcomer stands first, found by its time alone");
        assert_eq!(wake_calls.take_due(start, MINUTE, 15 * MINUTE), std::slice::from_ref(&heron));
        assert_eq!(wake_calls.earliest(), Some(start + MINUTE));
        // Nothing stays of those that came back, once their cooldown is over.
        for number in 0..10_000 {
            wake_calls.came(&InstanceId::new(format!("inst_{number}")));
        }
        wake_calls.came(&heron);
        assert!(wake_calls.take_due(start + MINUTE, MINUTE, 15 * MINUTE).is_empty());
        let sleepers = wake_calls.sleepers.lock();
        assert_eq!((sleepers.known.len(), sleepers.away.len(), sleepers.awake.len()), (0, 0, 0));
    }
}
