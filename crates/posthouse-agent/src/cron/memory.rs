//! What we know the portal to hold.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireAt, Listing, Provision};

use super::wish::Arm;
use crate::jobs::{Missed, Overlap, Policy};

/// When fewer times than this are left of those that the portal knows ahead, it is told more.
const FEW: usize = 8;

/// The arms at the portal, as far as we know.
#[derive(Default)]
pub(super) struct Memory {
    armed: HashMap<JobId, Armed>,
    /// It was asked what it holds, and answered.
    listed: bool,
    /// Jobs with a fire in our hands, and how many.
    in_hand: HashMap<JobId, usize>,
    /// Jobs that a fire was taken of since the jobs were last read.
    moved: HashSet<JobId>,
}

/// One arm.
#[derive(Clone)]
pub(super) struct Armed {
    text: String,
    then: VecDeque<FireAt>,
    /// Nothing for an arm that we have only heard of.
    policy: Option<Policy>,
}

impl Memory {
    /// Whether the portal should be asked: we know of nothing, or never heard of what may be left over from
    /// another life.
    pub(super) fn wants_listing(&self) -> bool {
        self.armed.is_empty() || !self.listed
    }

    /// What the portal says it holds. What we armed ourselves we know better.
    pub(super) fn learn(&mut self, listing: Listing) {
        for arm in listing.armed {
            let heard = Armed { text: arm.fire_at, then: VecDeque::new(), policy: None };
            self.armed.entry(arm.job_id).or_insert(heard);
        }
        self.listed = true;
    }

    /// The portal may have given up what it held.
    pub(super) fn doubt(&mut self) {
        self.armed.clear();
        self.listed = false;
    }

    /// Notes what is about to be armed, and hands back what stood there.
    pub(super) fn arming(&mut self, wish: &Provision) -> Option<Armed> {
        let armed = Armed {
            text: wish.fire_at.text().to_owned(),
            then: wish.then.iter().cloned().collect(),
            policy: Some(wish.policy.clone()),
        };
        self.armed.insert(wish.job.clone(), armed)
    }

    /// It was not: what stood there before still does, unless a fire has shown that the portal did hear.
    pub(super) fn not_armed(&mut self, wish: &Provision, before: Option<Armed>) {
        let untouched = |armed: &Armed| armed.text == wish.fire_at.text();
        if self.armed.get(&wish.job).is_some_and(untouched) {
            self.armed.remove(&wish.job);
            self.armed.extend(before.map(|before| (wish.job.clone(), before)));
        }
    }

    pub(super) fn cancelled(&mut self, job: &JobId) {
        self.armed.remove(job);
    }

    pub(super) fn jobs(&self) -> Vec<JobId> {
        self.armed.keys().cloned().collect()
    }

    /// A fire of this job is about to be claimed.
    pub(super) fn taking(&mut self, job: &JobId) {
        *self.in_hand.entry(job.clone()).or_default() += 1;
    }

    /// It was; `answered` is its time if the portal need not bring it again.
    pub(super) fn took(&mut self, job: &JobId, answered: Option<&str>) {
        if let Some(text) = answered {
            self.fired(job, text);
        }
        if let Entry::Occupied(mut in_hand) = self.in_hand.entry(job.clone()) {
            *in_hand.get_mut() -= 1;
            if *in_hand.get() == 0 {
                in_hand.remove();
            }
        }
        self.moved.insert(job.clone());
    }

    /// The jobs are about to be read.
    pub(super) fn before_reading(&mut self) {
        self.moved.clear();
    }

    /// What was read of this job may be older or newer than what we know of its arm. Another round follows
    /// every fire, and can tell.
    pub(super) fn is_moving(&self, job: &JobId) -> bool {
        self.in_hand.contains_key(job) || self.moved.contains(job)
    }

    /// We took the fire of that time: the portal goes on with the next one that it knows, if any.
    fn fired(&mut self, job: &JobId, text: &str) {
        let Some(armed) = self.armed.get_mut(job) else { return };
        if armed.text != text {
            match armed.then.iter().position(|at| at.text() == text) {
                // The portal has passed over those before it.
                Some(place) => drop(armed.then.drain(..=place)),
                // Superseded while it was on its way, or a time that we know nothing of.
                None if is_later(&armed.text, text) => return,
                None => armed.then.clear(),
            }
        }
        match armed.then.pop_front() {
            Some(next) => armed.text = next.text().to_owned(),
            None => drop(self.armed.remove(job)),
        }
    }

    /// Whether the portal has to hear of this.
    pub(super) fn lacks(&self, job: &JobId, arm: &Arm, now: Timestamp) -> bool {
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

impl Armed {
    /// The portal is still at a time that went by, of a job that wants every one of them or has them wait:
    /// arming the next would lose it. It comes to the next by itself.
    fn is_backlog(&self, arm: &Arm, now: Timestamp) -> bool {
        let kept = arm.policy.missed == Missed::All || arm.policy.overlap == Overlap::Queue;
        let behind = |at: FireAt| {
            let at = at.due_us();
            at <= now.as_microsecond() && at < arm.fire_at.due_us() && !arm.taken.contains(&at)
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
