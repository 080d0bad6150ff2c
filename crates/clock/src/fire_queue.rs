//! Fair queue of due fires: a slow tenant, agent or host does not delay the fires of others.

use std::collections::VecDeque;
use std::hash::Hash;

use foldhash::HashMap;
use posthouse_wire::{InstanceId, TenantId};

/// Limits on the fires in flight at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub in_all: usize,
    pub per_instance: usize,
    /// Per tenant and host, so that tenants that share a host do not slow each other down.
    pub per_host: usize,
}

/// Fires in flight, and fires that wait for a place. Places go round robin between tenants, inside a tenant
/// between hosts, and on a host between agents. The fires of one agent keep their order.
///
/// A tenant may have at most as many fires in flight as there are free places, so one tenant alone gets half of all
/// places. A tenant with nothing in flight gets a place even when none is free: however many tenants are slow, the next
/// one fires. The limit is therefore exceeded by at most one fire per tenant.
pub(crate) struct FireQueue<T> {
    limits: Limits,
    in_flight: usize,
    tenants: TurnQueue<TenantId, TenantQueue<T>>,
}

struct TenantQueue<T> {
    in_flight: usize,
    instances: HashMap<InstanceId, usize>,
    hosts: TurnQueue<String, Host<T>>,
}

struct Host<T> {
    in_flight: usize,
    waiting: TurnQueue<InstanceId, VecDeque<T>>,
}

impl<T> FireQueue<T> {
    pub fn new(limits: Limits) -> Self {
        Self { limits, in_flight: 0, tenants: TurnQueue::default() }
    }

    /// Adds a fire of this tenant's agent, to be sent to `host`.
    pub fn join(&mut self, tenant: TenantId, host: String, instance: InstanceId, fire: T) {
        let host = self.tenants.in_line(tenant).hosts.in_line(host);
        host.waiting.in_line(instance).push_back(fire);
    }

    /// Returns the next fire that may be sent, if any. It counts as in flight from here on.
    pub fn next(&mut self) -> Option<T> {
        let (limits, free) = (self.limits, self.limits.in_all.saturating_sub(self.in_flight));
        let found = self.tenants.by_turns(|_, tenant| tenant.next(limits, free))?;
        self.in_flight += 1;
        Some(found)
    }

    /// Frees the place of a fire that has ended.
    pub fn leave(&mut self, tenant: &TenantId, host: &str, instance: &InstanceId) {
        self.in_flight -= 1;
        self.tenants.update(tenant, |tenant| {
            tenant.in_flight -= 1;
            if let Some(count) = tenant.instances.get_mut(instance) {
                *count -= 1;
                if *count == 0 {
                    tenant.instances.remove(instance);
                }
            }
            tenant.hosts.update(host, |host| host.in_flight -= 1);
        });
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Removes and returns all fires that still wait.
    pub fn drain(&mut self) -> Vec<T> {
        let tenants = self.tenants.members.values_mut();
        let hosts = tenants.flat_map(|tenant| tenant.hosts.members.values_mut());
        hosts.flat_map(|host| std::mem::take(&mut host.waiting).members.into_values().flatten()).collect()
    }
}

impl<T> TenantQueue<T> {
    fn next(&mut self, limits: Limits, free: usize) -> Option<T> {
        if self.in_flight >= free.max(1) {
            return None;
        }
        let busy = &mut self.instances;
        let found = self.hosts.by_turns(|_, host| host.next(limits, busy))?;
        self.in_flight += 1;
        Some(found)
    }
}

impl<T> Host<T> {
    fn next(&mut self, limits: Limits, busy: &mut HashMap<InstanceId, usize>) -> Option<T> {
        if self.in_flight >= limits.per_host {
            return None;
        }
        let found = self.waiting.by_turns(|instance, fires| {
            let under_way = busy.entry(instance.clone()).or_default();
            if *under_way >= limits.per_instance {
                return None;
            }
            *under_way += 1;
            fires.pop_front()
        })?;
        self.in_flight += 1;
        Some(found)
    }
}

/// Members by name, and the round-robin order of those with something waiting. A member with nothing waiting
/// and nothing in flight is removed.
struct TurnQueue<K, M> {
    members: HashMap<K, M>,
    /// Each member with something waiting, once.
    order: VecDeque<K>,
}

impl<K: Clone + Eq + Hash, M: Member> TurnQueue<K, M> {
    /// Returns the member and puts it into the order. The caller must add something that waits.
    fn in_line(&mut self, key: K) -> &mut M {
        let member = self.members.entry(key.clone()).or_default();
        if !member.has_waiting() {
            self.order.push_back(key);
        }
        member
    }

    /// Asks the members in order until one returns something. Each member that was asked moves to the end.
    fn by_turns<T>(&mut self, mut next: impl FnMut(&K, &mut M) -> Option<T>) -> Option<T> {
        for _ in 0..self.order.len() {
            let key = self.order.pop_front()?;
            let Some(member) = self.members.get_mut(&key) else { continue };
            let found = next(&key, member);
            if member.has_waiting() {
                self.order.push_back(key);
            } else if member.is_idle() {
                self.members.remove(&key);
            }
            if found.is_some() {
                return found;
            }
        }
        None
    }

    fn update<Q>(&mut self, key: &Q, change: impl FnOnce(&mut M))
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let Some(member) = self.members.get_mut(key) else { return };
        change(member);
        if member.is_idle() {
            self.members.remove(key);
        }
    }
}

impl<K, M> Default for TurnQueue<K, M> {
    fn default() -> Self {
        Self { members: HashMap::default(), order: VecDeque::new() }
    }
}

/// A participant in the round-robin order.
trait Member: Default {
    fn has_waiting(&self) -> bool;
    /// Nothing waits and nothing is in flight.
    fn is_idle(&self) -> bool;
}

impl<T> Member for TenantQueue<T> {
    fn has_waiting(&self) -> bool {
        !self.hosts.order.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.has_waiting()
    }
}

impl<T> Member for Host<T> {
    fn has_waiting(&self) -> bool {
        !self.waiting.order.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.in_flight == 0 && !self.has_waiting()
    }
}

impl<T> Member for VecDeque<T> {
    fn has_waiting(&self) -> bool {
        !self.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.is_empty()
    }
}

impl<T> Default for TenantQueue<T> {
    fn default() -> Self {
        Self { in_flight: 0, instances: HashMap::default(), hosts: TurnQueue::default() }
    }
}

impl<T> Default for Host<T> {
    fn default() -> Self {
        Self { in_flight: 0, waiting: TurnQueue::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> FireQueue<&'static str> {
        FireQueue::new(Limits { in_all: 8, per_instance: 2, per_host: 3 })
    }

    fn join(
        queue: &mut FireQueue<&'static str>,
        tenant: &str,
        host: &str,
        instance: &str,
        fire: &'static str,
    ) {
        queue.join(tenant.into(), host.to_owned(), instance.into(), fire);
    }

    fn going(queue: &mut FireQueue<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| queue.next()).collect()
    }

    #[test]
    fn one_agent_s_many_fires_leave_room_for_another_s() {
        let mut queue = queue();
        for fire in ["a1", "a2", "a3", "a4"] {
            join(&mut queue, "acme", "host", "a", fire);
        }
        join(&mut queue, "acme", "host", "b", "b1");
        assert_eq!(going(&mut queue), ["a1", "b1", "a2"]);
        queue.leave(&"acme".into(), "host", &"a".into());
        assert_eq!(going(&mut queue), ["a3"]);
        for _ in 0..2 {
            queue.leave(&"acme".into(), "host", &"a".into());
        }
        assert_eq!(going(&mut queue), ["a4"]);
    }

    #[test]
    fn a_slow_host_holds_up_no_other_and_the_whole_is_bounded() {
        let mut queue = queue();
        for instance in ["a", "b", "c", "d"] {
            join(&mut queue, "acme", "slow", instance, "slow");
        }
        assert_eq!(going(&mut queue).len(), 3);
        join(&mut queue, "acme", "quick", "e", "e1");
        join(&mut queue, "acme", "quick", "f", "f1");
        // One tenant gets at most four of the eight places.
        assert_eq!(going(&mut queue), ["e1"]);
        queue.leave(&"acme".into(), "quick", &"e".into());
        assert_eq!(going(&mut queue), ["f1"]);
        assert_eq!(queue.in_flight(), 4);
        assert_eq!(queue.drain(), ["slow"]);
    }

    #[test]
    fn slow_fires_of_some_tenants_leave_places_for_the_next_tenant() {
        let mut queue = queue();
        let slow = ["acme", "brook", "cedar"];
        for tenant in slow {
            for host in ["h1", "h2", "h3", "h4"] {
                join(&mut queue, tenant, host, host, tenant);
            }
        }
        let under_way = going(&mut queue);
        for tenant in slow {
            assert_eq!(under_way.iter().filter(|fire| **fire == tenant).count(), 2, "{tenant}");
        }
        join(&mut queue, "delta", "h1", "h1", "delta");
        assert_eq!(going(&mut queue), ["delta"]);
    }

    #[test]
    fn slow_tenants_that_come_one_after_the_other_leave_a_place_for_the_next() {
        let mut queue = queue();
        for tenant in ["acme", "brook", "cedar", "delta", "elm", "fir"] {
            for host in ["h1", "h2", "h3", "h4", "h5"] {
                join(&mut queue, tenant, host, host, tenant);
            }
            assert!(!going(&mut queue).is_empty(), "{tenant} waits");
        }
        assert!(queue.in_flight() >= 8, "the limit was never reached");
        join(&mut queue, "quick", "h1", "h1", "quick");
        assert_eq!(going(&mut queue), ["quick"]);
        queue.leave(&"quick".into(), "h1", &"h1".into());
        join(&mut queue, "quick", "h1", "h1", "quick again");
        assert_eq!(going(&mut queue), ["quick again"]);
    }

    #[test]
    fn tenants_that_share_a_host_do_not_slow_each_other() {
        let mut queue = queue();
        for instance in ["a", "b", "c", "d"] {
            join(&mut queue, "acme", "shared", instance, "acme");
        }
        assert_eq!(going(&mut queue), ["acme", "acme", "acme"]);
        join(&mut queue, "brook", "shared", "e", "brook");
        assert_eq!(going(&mut queue), ["brook"]);
    }

    #[test]
    fn nothing_is_remembered_of_who_has_nothing_to_fire() {
        let mut queue = queue();
        join(&mut queue, "acme", "host", "a", "a1");
        assert_eq!(going(&mut queue), ["a1"]);
        queue.leave(&"acme".into(), "host", &"a".into());
        assert!(queue.tenants.members.is_empty() && queue.tenants.order.is_empty());
    }
}
