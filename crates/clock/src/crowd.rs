//! How many fires are under way, to whom: one slow agent or host delays nobody else.

use std::collections::{HashMap, VecDeque};

use posthouse_wire::InstanceId;

/// Bounds on what is under way at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub in_all: usize,
    pub per_instance: usize,
    pub per_host: usize,
}

/// Those whose time has come: under way, or waiting for a place in the order they came, by turns
/// between agents and between hosts.
pub(crate) struct Crowd<T> {
    limits: Limits,
    in_flight: usize,
    instances: HashMap<InstanceId, usize>,
    hosts: HashMap<String, Host<T>>,
    /// Hosts with somebody waiting, each once.
    turns: VecDeque<String>,
}

struct Host<T> {
    in_flight: usize,
    waiting: HashMap<InstanceId, VecDeque<T>>,
    /// Instances with something waiting, each once.
    turns: VecDeque<InstanceId>,
}

impl<T> Crowd<T> {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            in_flight: 0,
            instances: HashMap::new(),
            hosts: HashMap::new(),
            turns: VecDeque::new(),
        }
    }

    /// One more to go to `host`.
    pub fn join(&mut self, host: String, instance: InstanceId, it: T) {
        let there = self.hosts.entry(host.clone()).or_insert_with(|| Host {
            in_flight: 0,
            waiting: HashMap::new(),
            turns: VecDeque::new(),
        });
        if there.turns.is_empty() {
            self.turns.push_back(host);
        }
        let line = there.waiting.entry(instance.clone()).or_default();
        if line.is_empty() {
            there.turns.push_back(instance);
        }
        line.push_back(it);
    }

    /// The next that may go, if any; it is under way from here on.
    pub fn next(&mut self) -> Option<T> {
        for _ in 0..self.turns.len() {
            if self.in_flight >= self.limits.in_all {
                return None;
            }
            let host = self.turns.pop_front()?;
            let Some(there) = self.hosts.get_mut(&host) else { continue };
            let found = there.next(self.limits, &mut self.instances);
            if !there.turns.is_empty() {
                self.turns.push_back(host);
            }
            if found.is_some() {
                self.in_flight += 1;
                return found;
            }
        }
        None
    }

    /// One has ended.
    pub fn leave(&mut self, host: &str, instance: &InstanceId) {
        self.in_flight -= 1;
        if let Some(count) = self.instances.get_mut(instance) {
            *count -= 1;
            if *count == 0 {
                self.instances.remove(instance);
            }
        }
        if let Some(there) = self.hosts.get_mut(host) {
            there.in_flight -= 1;
            if there.in_flight == 0 && there.turns.is_empty() {
                self.hosts.remove(host);
            }
        }
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Everybody who still waits, gone from the crowd.
    pub fn disperse(&mut self) -> Vec<T> {
        self.turns.clear();
        self.hosts
            .values_mut()
            .flat_map(|there| {
                there.turns.clear();
                std::mem::take(&mut there.waiting).into_values().flatten().collect::<Vec<_>>()
            })
            .collect()
    }
}

impl<T> Host<T> {
    fn next(&mut self, limits: Limits, busy: &mut HashMap<InstanceId, usize>) -> Option<T> {
        if self.in_flight >= limits.per_host {
            return None;
        }
        for _ in 0..self.turns.len() {
            let instance = self.turns.pop_front()?;
            let under_way = busy.get(&instance).copied().unwrap_or(0);
            if under_way >= limits.per_instance {
                self.turns.push_back(instance);
                continue;
            }
            let line = self.waiting.get_mut(&instance)?;
            let found = line.pop_front();
            if line.is_empty() {
                self.waiting.remove(&instance);
            } else {
                self.turns.push_back(instance.clone());
            }
            *busy.entry(instance).or_default() += 1;
            self.in_flight += 1;
            return found;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd() -> Crowd<&'static str> {
        Crowd::new(Limits { in_all: 4, per_instance: 2, per_host: 3 })
    }

    fn going(crowd: &mut Crowd<&'static str>) -> Vec<&'static str> {
        std::iter::from_fn(|| crowd.next()).collect()
    }

    #[test]
    fn one_agent_s_many_fires_leave_room_for_another_s() {
        let mut crowd = crowd();
        for it in ["a1", "a2", "a3", "a4"] {
            crowd.join("host".into(), "a".into(), it);
        }
        crowd.join("host".into(), "b".into(), "b1");
        assert_eq!(going(&mut crowd), ["a1", "b1", "a2"]);
        crowd.leave("host", &"a".into());
        assert_eq!(going(&mut crowd), ["a3"]);
        for _ in 0..2 {
            crowd.leave("host", &"a".into());
        }
        assert_eq!(going(&mut crowd), ["a4"]);
    }

    #[test]
    fn a_slow_host_holds_up_no_other_and_the_whole_is_bounded() {
        let mut crowd = crowd();
        for instance in ["a", "b", "c", "d"] {
            crowd.join("slow".into(), instance.into(), "slow");
        }
        assert_eq!(going(&mut crowd).len(), 3);
        crowd.join("quick".into(), "e".into(), "e1");
        crowd.join("quick".into(), "f".into(), "f1");
        assert_eq!(going(&mut crowd), ["e1"]);
        crowd.leave("quick", &"e".into());
        assert_eq!(going(&mut crowd), ["f1"]);
        assert_eq!(crowd.in_flight(), 4);
        assert_eq!(crowd.disperse(), ["slow"]);
    }
}
