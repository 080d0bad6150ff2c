//! Schedule of wake calls: the agents that need one, and the time of the next, with cooldown and back-off.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use parking_lot::Mutex;
use posthouse_time::Instant;
use posthouse_wire::InstanceId;
use tokio::sync::Notify;

/// Agents taken at a time.
const BATCH: usize = 256;

/// Disconnected agents with unread messages, and agents that came back.
#[derive(Default)]
pub(crate) struct WakeSchedule {
    schedule: Mutex<SleeperSchedule>,
    /// Notified when an agent was added.
    pub changed: Notify,
}

/// Both sets are sorted by the next time of each agent, so that due agents are found without scanning the others.
#[derive(Default)]
struct SleeperSchedule {
    known: HashMap<InstanceId, SleepingAgent>,
    /// Agents that need a wake call.
    away: BTreeSet<(Instant, InstanceId)>,
    /// Agents that came back. They are kept only to enforce the cooldown.
    awake: BTreeSet<(Instant, InstanceId)>,
}

#[derive(Clone, Copy, Default)]
struct SleepingAgent {
    /// Time of the next wake call. The default means at once.
    due: Instant,
    calls: u32,
    awake: bool,
    /// A wake call was made since it disconnected.
    was_called: bool,
}

impl SleeperSchedule {
    fn insert(&mut self, instance: &InstanceId, sleeper: SleepingAgent) {
        self.remove(instance);
        let order = if sleeper.awake { &mut self.awake } else { &mut self.away };
        order.insert((sleeper.due, instance.clone()));
        self.known.insert(instance.clone(), sleeper);
    }

    fn remove(&mut self, instance: &InstanceId) -> Option<SleepingAgent> {
        let sleeper = self.known.remove(instance)?;
        let order = if sleeper.awake { &mut self.awake } else { &mut self.away };
        order.remove(&(sleeper.due, instance.clone()));
        Some(sleeper)
    }
}

impl WakeSchedule {
    /// Records that a disconnected agent has an unread message. It runs on the ledger's thread and must not block.
    pub fn note(&self, instance: &InstanceId) {
        let mut schedule = self.schedule.lock();
        let sleeper = match schedule.known.get(instance) {
            Some(sleeper) if !sleeper.awake => return,
            Some(sleeper) => SleepingAgent { awake: false, ..*sleeper },
            None => SleepingAgent::default(),
        };
        schedule.insert(instance, sleeper);
        drop(schedule);
        self.changed.notify_one();
    }

    /// Stops the wake calls of an agent that has connected, and resets its back-off.
    pub fn came(&self, instance: &InstanceId) {
        let mut schedule = self.schedule.lock();
        if let Some(sleeper) = schedule.known.get(instance).copied() {
            schedule.insert(instance, SleepingAgent { awake: true, calls: 0, ..sleeper });
        }
    }

    /// Time of the next wake call. `None` before the first one.
    pub fn next(&self, instance: &InstanceId) -> Option<Instant> {
        let schedule = self.schedule.lock();
        schedule
            .known
            .get(instance)
            .filter(|sleeper| !sleeper.awake && sleeper.was_called)
            .map(|sleeper| sleeper.due)
    }

    pub fn earliest(&self) -> Option<Instant> {
        self.schedule.lock().away.first().map(|(due, _)| *due)
    }

    /// Takes a batch of due agents and schedules the next time of each.
    pub fn take_due(&self, now: Instant, cooldown: Duration, at_most: Duration) -> Vec<InstanceId> {
        let mut schedule = self.schedule.lock();
        while schedule.awake.first().is_some_and(|(due, _)| *due <= now) {
            if let Some((_, instance)) = schedule.awake.pop_first() {
                schedule.known.remove(&instance);
            }
        }
        let mut taken = Vec::new();
        while taken.len() < BATCH && schedule.away.first().is_some_and(|(due, _)| *due <= now) {
            let Some((_, instance)) = schedule.away.pop_first() else { break };
            let Some(sleeper) = schedule.known.get(&instance).copied() else { continue };
            let pause = cooldown.saturating_mul(2_u32.saturating_pow(sleeper.calls.min(16)));
            let due = now + pause.clamp(cooldown, at_most.max(cooldown));
            let calls = sleeper.calls + 1;
            schedule.insert(&instance, SleepingAgent { due, calls, was_called: true, ..sleeper });
            taken.push(instance);
        }
        taken
    }

    pub fn forget(&self, instance: &InstanceId) {
        self.schedule.lock().remove(instance);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn sleepers() -> (WakeSchedule, InstanceId) {
        (WakeSchedule::default(), InstanceId::new("inst_heron"))
    }

    #[test]
    fn a_sleeper_is_poked_at_once_then_after_each_cooldown_with_back_off() {
        let (sleepers, heron) = sleepers();
        sleepers.note(&heron);
        let mut now = Instant::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(sleepers.take_due(now, MINUTE, 15 * MINUTE), std::slice::from_ref(&heron));
            assert!(sleepers.take_due(now, MINUTE, 15 * MINUTE).is_empty());
            let next = sleepers.earliest().unwrap();
            pauses.push(next.since(now).as_secs() / 60);
            now = next;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15, 15, 15]);
    }

    #[test]
    fn who_came_and_left_again_within_the_cooldown_is_not_poked_before_its_end() {
        let (sleepers, heron) = sleepers();
        let start = Instant::default();
        sleepers.note(&heron);
        assert_eq!(sleepers.take_due(start, MINUTE, 15 * MINUTE).len(), 1);
        sleepers.came(&heron);
        assert_eq!(sleepers.earliest(), None);
        sleepers.note(&heron);
        assert!(sleepers.take_due(start + MINUTE / 2, MINUTE, 15 * MINUTE).is_empty());
        assert_eq!(sleepers.take_due(start + MINUTE, MINUTE, 15 * MINUTE).len(), 1);
    }

    #[test]
    fn one_wake_looks_at_no_other_sleeper() {
        let (sleepers, heron) = sleepers();
        let start = Instant::default();
        for number in 0..10_000 {
            sleepers.note(&InstanceId::new(format!("inst_{number}")));
        }
        // Each is taken once, a batch at a time, and from then on waits for its next time.
        let taken: usize = std::iter::from_fn(|| {
            Some(sleepers.take_due(start, MINUTE, 15 * MINUTE).len()).filter(|len| *len > 0)
        })
        .sum();
        assert_eq!(taken, 10_000);
        sleepers.note(&heron);
        assert_eq!(sleepers.earliest(), Some(start), "the newcomer stands first, found by its time alone");
        assert_eq!(sleepers.take_due(start, MINUTE, 15 * MINUTE), std::slice::from_ref(&heron));
        assert_eq!(sleepers.earliest(), Some(start + MINUTE));
        // Nothing stays of those that came back, once their cooldown is over.
        for number in 0..10_000 {
            sleepers.came(&InstanceId::new(format!("inst_{number}")));
        }
        sleepers.came(&heron);
        assert!(sleepers.take_due(start + MINUTE, MINUTE, 15 * MINUTE).is_empty());
        let schedule = sleepers.schedule.lock();
        assert_eq!((schedule.known.len(), schedule.away.len(), schedule.awake.len()), (0, 0, 0));
    }
}
