//! Arms held under this node's lease, with a fair share per tenant; arms beyond the share are parked.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;

use foldhash::HashMap;
use ledger::ArmKey;
use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Progress of a held arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The claim has been sent to the ledger.
    Claiming,
    /// It waits for its due time. A cancel still stops it.
    Waiting,
    /// The attempt is running.
    Calling,
}

/// Arms held at once. A tenant may hold at most as many arms as there are free places, and always at least one. Arms
/// beyond that are parked by key until fires of the same tenant end.
pub(crate) struct HeldArms {
    limit: usize,
    arms: Mutex<HeldState>,
}

#[derive(Default)]
struct HeldState {
    /// The tenant is `None` until the claim returns it.
    stages: HashMap<ArmKey, (Stage, Option<TenantId>)>,
    /// Arms without a tenant. They count for every tenant.
    of_unknown_tenant: usize,
    tenants: HashMap<TenantId, usize>,
    parked: HashMap<TenantId, VecDeque<ArmKey>>,
    /// Tenants with something parked, each once, in the order of their turns.
    turns: VecDeque<TenantId>,
}

impl HeldArms {
    pub fn new(limit: usize) -> Self {
        Self { limit, arms: Mutex::default() }
    }

    /// Number of free places.
    pub fn room(&self) -> usize {
        self.limit.saturating_sub(self.arms.lock().stages.len())
    }

    /// Gives every arm a place, regardless of its tenant, and returns those that were not held yet; the caller claims them.
    /// `None`, without any places, once this would fill more than half of them or while arms are parked: up to a half, even
    /// arms of a single tenant are no more than the free places.
    pub fn reserve_for_any(&self, keys: &[ArmKey]) -> Option<Vec<ArmKey>> {
        let mut held = self.arms.lock();
        if !held.parked.is_empty() || 2 * (held.stages.len() + keys.len()) > self.limit {
            return None;
        }
        let mut reserved = Vec::with_capacity(keys.len());
        for key in keys {
            // An arm that is already held is being fired. Its settlement decides what is next.
            if let Entry::Vacant(place) = held.stages.entry(*key) {
                place.insert((Stage::Claiming, None));
                reserved.push(*key);
            }
        }
        held.of_unknown_tenant += reserved.len();
        Some(reserved)
    }

    /// Gives each arm a place if its tenant may hold one more, and parks the others. Returns the arms with a
    /// place; the caller claims them.
    pub fn reserve(&self, arms: Vec<(ArmKey, TenantId)>) -> Vec<ArmKey> {
        let mut held = self.arms.lock();
        let mut reserved = Vec::with_capacity(arms.len());
        for (key, tenant) in arms {
            // An arm that is already held is being fired. Its settlement decides what is next.
            if held.stages.contains_key(&key) {
                continue;
            }
            if held.parked.contains_key(&tenant) || !held.has_place(self.limit, &tenant) {
                held.park(tenant, key);
            } else {
                held.insert(key, tenant, Stage::Claiming);
                reserved.push(key);
            }
        }
        reserved
    }

    /// Gives places to at most `at_most` parked arms whose tenants have room. The caller claims them.
    pub fn unpark(&self, at_most: usize) -> Vec<ArmKey> {
        let mut held = self.arms.lock();
        let mut reserved = Vec::new();
        let mut passed_over = 0;
        while reserved.len() < at_most && passed_over < held.turns.len() {
            let Some(tenant) = held.turns.pop_front() else { break };
            if !held.has_place(self.limit, &tenant) {
                held.turns.push_back(tenant);
                passed_over += 1;
                continue;
            }
            passed_over = 0;
            let Some(keys) = held.parked.get_mut(&tenant) else { continue };
            let key = keys.pop_front();
            if keys.is_empty() {
                held.parked.remove(&tenant);
            } else {
                held.turns.push_back(tenant.clone());
            }
            if let Some(key) = key.filter(|key| !held.stages.contains_key(key)) {
                held.insert(key, tenant, Stage::Claiming);
                reserved.push(key);
            }
        }
        reserved
    }

    /// Holds a claimed arm, regardless of the tenant's share.
    pub fn insert(&self, key: ArmKey, tenant: &TenantId, stage: Stage) {
        self.arms.lock().insert(key, tenant.clone(), stage);
    }

    /// Marks an arm as being fired. False if it is no longer held. From here on a cancel comes too late.
    pub fn begin(&self, key: ArmKey) -> bool {
        match self.arms.lock().stages.get_mut(&key) {
            Some((stage @ Stage::Waiting, _)) => {
                *stage = Stage::Calling;
                true
            }
            // Not held, or only reserved: an arm that was cancelled may be reserved once more until its claim returns.
            _ => false,
        }
    }

    pub fn contains(&self, key: ArmKey) -> bool {
        self.arms.lock().stages.get(&key).is_some_and(|(stage, _)| *stage != Stage::Claiming)
    }

    pub fn remove(&self, key: ArmKey) {
        self.arms.lock().remove(key);
    }

    /// Removes an arm whose fire has not begun.
    pub fn remove_waiting(&self, key: ArmKey) {
        let mut held = self.arms.lock();
        if held.stages.get(&key).is_some_and(|(stage, _)| *stage == Stage::Waiting) {
            held.remove(key);
        }
    }

    /// Frees the places of arms that their claim did not return.
    pub fn release(&self, keys: &[ArmKey]) {
        let mut held = self.arms.lock();
        for key in keys {
            if held.stages.get(key).is_some_and(|(stage, _)| *stage == Stage::Claiming) {
                held.remove(*key);
            }
        }
    }

    /// Arms under this node's lease.
    pub fn claimed(&self) -> Vec<ArmKey> {
        let held = self.arms.lock();
        let claimed = held.stages.iter().filter(|(_, (stage, _))| *stage != Stage::Claiming);
        claimed.map(|(key, _)| *key).collect()
    }
}

impl HeldState {
    fn has_place(&self, limit: usize, tenant: &TenantId) -> bool {
        let free = limit.saturating_sub(self.stages.len());
        self.tenants.get(tenant).copied().unwrap_or(0) + self.of_unknown_tenant < free.max(1)
    }

    fn park(&mut self, tenant: TenantId, key: ArmKey) {
        let keys = self.parked.entry(tenant.clone()).or_default();
        if keys.is_empty() {
            self.turns.push_back(tenant);
        }
        keys.push_back(key);
    }

    fn insert(&mut self, key: ArmKey, tenant: TenantId, stage: Stage) {
        match self.stages.insert(key, (stage, Some(tenant.clone()))) {
            Some((_, Some(_))) => return,
            Some((_, None)) => self.of_unknown_tenant -= 1,
            None => {}
        }
        *self.tenants.entry(tenant).or_default() += 1;
    }

    fn remove(&mut self, key: ArmKey) {
        let Some((_, tenant)) = self.stages.remove(&key) else { return };
        let Some(tenant) = tenant else {
            self.of_unknown_tenant -= 1;
            return;
        };
        if let Some(count) = self.tenants.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.tenants.remove(&tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arms(tenant: &str, keys: std::ops::Range<i64>) -> Vec<(ArmKey, TenantId)> {
        keys.map(|key| (ArmKey(key), tenant.into())).collect()
    }

    #[test]
    fn a_tenant_with_many_arms_due_leaves_places_for_another_and_gets_them_back() {
        let held = HeldArms::new(8);
        assert_eq!(held.reserve(arms("acme", 0..20)).len(), 4);
        assert_eq!(held.reserve(arms("brook", 20..21)), [ArmKey(20)]);
        assert!(held.unpark(9).is_empty());
        for key in 0..2 {
            held.remove(ArmKey(key));
        }
        assert_eq!(held.unpark(9), [ArmKey(4), ArmKey(5)]);
        held.remove(ArmKey(4));
        held.remove(ArmKey(5));
        // An arm that is due later waits behind the parked ones.
        assert!(held.reserve(arms("acme", 21..22)).is_empty());
        assert_eq!(held.unpark(1), [ArmKey(6)]);
    }

    #[test]
    fn tenants_are_unknown_only_while_one_alone_could_hold_as_many() {
        let held = HeldArms::new(8);
        let keys = |range: std::ops::Range<i64>| range.map(ArmKey).collect::<Vec<_>>();
        assert_eq!(held.reserve_for_any(&keys(0..3)), Some(keys(0..3)));
        assert_eq!(held.reserve_for_any(&keys(2..4)), None, "more than half of the places");
        assert_eq!(held.reserve_for_any(&keys(2..3)), Some(Vec::new()), "it is held");
        assert!(
            !held.begin(ArmKey(2)) && !held.contains(ArmKey(2)),
            "a reserved arm may be one that was cancelled"
        );
        // All three may be of one tenant, which then gets one more.
        assert_eq!(held.reserve(arms("acme", 3..5)), [ArmKey(3)]);
        assert_eq!(held.reserve_for_any(&[]), None, "an arm is parked");
        for key in 0..2 {
            held.insert(ArmKey(key), &"brook".into(), Stage::Waiting);
        }
        held.release(&keys(0..3));
        assert_eq!(held.unpark(9), [ArmKey(4)], "the others were not of this tenant, or not claimed");
        let state = held.arms.lock();
        assert_eq!((state.of_unknown_tenant, state.tenants["brook"]), (0, 2));
    }

    #[test]
    fn tenants_that_come_one_after_the_other_leave_a_place_for_the_next() {
        let held = HeldArms::new(8);
        for (n, tenant) in ["acme", "brook", "cedar", "delta", "elm", "fir"].into_iter().enumerate() {
            let first = n as i64 * 10;
            assert!(!held.reserve(arms(tenant, first..first + 10)).is_empty(), "{tenant} waits");
        }
        assert_eq!(held.room(), 0);
        assert_eq!(held.reserve(arms("quick", 90..92)), [ArmKey(90)]);
        assert!(held.unpark(9).is_empty());
        held.remove(ArmKey(90));
        assert_eq!(held.unpark(9), [ArmKey(91)]);
    }

    #[test]
    fn a_claim_that_brought_nothing_gives_its_places_back() {
        let held = HeldArms::new(4);
        let reserved = held.reserve(arms("acme", 0..2));
        assert!(held.claimed().is_empty());
        held.insert(ArmKey(0), &"acme".into(), Stage::Waiting);
        held.release(&reserved);
        assert_eq!(held.claimed(), [ArmKey(0)]);
        held.remove_waiting(ArmKey(0));
        assert_eq!(held.room(), 4);
        assert!(held.arms.lock().tenants.is_empty());
    }

    #[test]
    fn parked_arms_come_back_by_turns_between_tenants() {
        let held = HeldArms::new(4);
        held.reserve(arms("acme", 0..10));
        held.reserve(arms("brook", 10..20));
        for key in [0, 1, 10] {
            held.remove(ArmKey(key));
        }
        assert_eq!(held.unpark(9), [ArmKey(2), ArmKey(11), ArmKey(3)]);
    }
}
