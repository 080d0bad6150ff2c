//! Known arms at the portal.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use posthouse_wire::JobId;
use posthouse_wire::cron::{ArmList, FireAt, Provision};

use super::arm_request::WantedArm;
use crate::jobs::{Missed, Overlap, Policy};

/// If fewer later times than this are left at the portal, it gets more.
const FEW: usize = 8;

/// The arms at the portal, as far as they are known.
#[derive(Default)]
pub(super) struct KnownArms {
    armed: HashMap<JobId, KnownArm>,
    /// The portal has been asked for its list and has answered.
    listed: bool,
    /// Jobs with a fire that is being claimed, and how many.
    claiming: HashMap<JobId, usize>,
    /// Jobs with a fire accepted since the jobs were last read.
    moved: HashSet<JobId>,
}

/// One arm.
#[derive(Clone)]
pub(super) struct KnownArm {
    text: String,
    then: VecDeque<FireAt>,
    /// `None` for an arm that is only known from the portal's list.
    policy: Option<Policy>,
}

impl KnownArms {
    /// Whether to ask the portal for its list: nothing is known, or there may be arms left from an earlier
    /// process.
    pub(super) fn wants_listing(&self) -> bool {
        self.armed.is_empty() || !self.listed
    }

    /// Adds the arms of the portal's list. Arms that this process made are known better and stay.
    pub(super) fn learn(&mut self, listing: ArmList) {
        for arm in listing.armed {
            let listed = KnownArm { text: arm.fire_at, then: VecDeque::new(), policy: None };
            self.armed.entry(arm.job_id).or_insert(listed);
        }
        self.listed = true;
    }

    /// Forgets everything, because the portal may have dropped its arms.
    pub(super) fn forget_all(&mut self) {
        self.armed.clear();
        self.listed = false;
    }

    /// Records an arm that is about to be made, and returns the one it replaces.
    pub(super) fn arming(&mut self, request: &Provision) -> Option<KnownArm> {
        let armed = KnownArm {
            text: request.fire_at.text().to_owned(),
            then: request.then.iter().cloned().collect(),
            policy: Some(request.policy.clone()),
        };
        self.armed.insert(request.job.clone(), armed)
    }

    /// The arm was not made: restores the earlier one, unless a fire has shown that the portal did get the
    /// request.
    pub(super) fn not_armed(&mut self, request: &Provision, before: Option<KnownArm>) {
        let untouched = |armed: &KnownArm| armed.text == request.fire_at.text();
        if self.armed.get(&request.job).is_some_and(untouched) {
            self.armed.remove(&request.job);
            self.armed.extend(before.map(|before| (request.job.clone(), before)));
        }
    }

    pub(super) fn cancelled(&mut self, job: &JobId) {
        self.armed.remove(job);
    }

    pub(super) fn jobs(&self) -> Vec<JobId> {
        self.armed.keys().cloned().collect()
    }

    /// A fire of this job is about to be claimed.
    pub(super) fn claim_started(&mut self, job: &JobId) {
        *self.claiming.entry(job.clone()).or_default() += 1;
    }

    /// The claim has ended. `answered` is the fire's time if the portal need not deliver it again.
    pub(super) fn claim_ended(&mut self, job: &JobId, answered: Option<&str>) {
        if let Some(text) = answered {
            self.fired(job, text);
        }
        if let Entry::Occupied(mut claiming) = self.claiming.entry(job.clone()) {
            *claiming.get_mut() -= 1;
            if *claiming.get() == 0 {
                claiming.remove();
            }
        }
        self.moved.insert(job.clone());
    }

    /// The jobs are about to be read.
    pub(super) fn before_reading(&mut self) {
        self.moved.clear();
    }

    /// The job's record may be older or newer than its known arm. Another round follows every fire and
    /// decides.
    pub(super) fn is_moving(&self, job: &JobId) -> bool {
        self.claiming.contains_key(job) || self.moved.contains(job)
    }

    /// A fire of that time was accepted: the portal continues with the next time that it knows, if any.
    fn fired(&mut self, job: &JobId, text: &str) {
        let Some(armed) = self.armed.get_mut(job) else { return };
        if armed.text != text {
            match armed.then.iter().position(|at| at.text() == text) {
                // The portal has skipped the times before it.
                Some(place) => drop(armed.then.drain(..=place)),
                // Replaced while it was on its way, or an unknown time.
                None if is_later(&armed.text, text) => return,
                None => armed.then.clear(),
            }
        }
        match armed.then.pop_front() {
            Some(next) => armed.text = next.text().to_owned(),
            None => drop(self.armed.remove(job)),
        }
    }

    /// Whether the portal needs this arm.
    pub(super) fn lacks(&self, job: &JobId, arm: &WantedArm, now: Timestamp) -> bool {
        let Some(armed) = self.armed.get(job) else { return true };
        if armed.is_backlog(arm, now) {
            return false;
        }
        if armed.text != arm.fire_at.text() {
            return true;
        }
        match &armed.policy {
            None => arm.policy != Policy::default(),
            Some(policy) => {
                *policy != arm.policy || (armed.then.len() < FEW && arm.then.len() > armed.then.len())
            }
        }
    }
}

impl KnownArm {
    /// The portal still has a time that has passed, and the job's policy runs all of them or queues them.
    /// Arming the next time would lose it. The portal reaches the next time by itself.
    fn is_backlog(&self, arm: &WantedArm, now: Timestamp) -> bool {
        let kept = arm.policy.missed == Missed::All || arm.policy.overlap == Overlap::Queue;
        let behind = |at: FireAt| {
            let at = at.due_us();
            at <= now.as_microsecond() && at < arm.fire_at.due_us() && !arm.claimed.contains(&at)
        };
        kept && FireAt::parse(&self.text).is_ok_and(behind)
    }
}

fn is_later(one: &str, other: &str) -> bool {
    match (FireAt::parse(one), FireAt::parse(other)) {
        (Ok(one), Ok(other)) => one.due_us() > other.due_us(),
        _ => false,
    }
}
