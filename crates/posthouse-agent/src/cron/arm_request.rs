//! Desired arm of one job, computed from its record alone.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use posthouse_wire::cron::FireAt;
use serde_json::Value;

use super::missed;
use super::schedule::iso;
use crate::jobs::{Job, JobState, Policy};

/// Number of later times that the portal gets for a job with a policy of its own.
const SUCCESSORS: usize = 16;

/// Desired state of the portal for one job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ArmRequest {
    Arm(Box<WantedArm>),
    /// Keep the present arm: the run that the record still names as next is in progress, at least until
    /// then.
    Leave {
        until: Timestamp,
    },
    /// No arm.
    Nothing,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct WantedArm {
    pub fire_at: FireAt,
    pub then: Vec<FireAt>,
    pub policy: Policy,
    /// Another process claimed this fire and never finished. The portal counts the fire as delivered, so
    /// its arm has to be cancelled first.
    pub abandoned: bool,
    /// Fire times that have been claimed. A known arm with one of these times is outdated.
    pub claimed: Vec<i64>,
}

pub(super) fn arm_request(job: &Job, now: Timestamp, zone: &TimeZone) -> ArmRequest {
    if !job.enabled() || job.state() == JobState::Paused {
        return ArmRequest::Nothing;
    }
    let Some(next) = job.next_run_at() else { return ArmRequest::Nothing };
    let held = SeenClaim::of(job);
    let same = held.as_ref().is_some_and(|held| held.fire_at == Some(next.as_microsecond()));
    let going_on = held.as_ref().map(|held| held.until).filter(|until| *until > now);
    let repeat = job.repeat();
    // A run in progress is counted when it ends.
    let counted = repeat.completed + u64::from(going_on.is_some() && !same);
    let left = repeat.times.map(|times| times.saturating_sub(counted));
    match going_on {
        Some(until) if same || left == Some(0) => return ArmRequest::Leave { until },
        _ => {}
    }
    let policy = job.policy();
    let Some((fire_at, then)) = times(job, &policy, next, left, now, zone) else {
        return ArmRequest::Nothing;
    };
    let claimed = settled(job).chain(held.and_then(|held| held.fire_at)).collect();
    ArmRequest::Arm(Box::new(WantedArm {
        fire_at,
        then,
        policy,
        abandoned: same && going_on.is_none(),
        claimed,
    }))
}

fn times(
    job: &Job,
    policy: &Policy,
    next: Timestamp,
    left: Option<u64>,
    now: Timestamp,
    zone: &TimeZone,
) -> Option<(FireAt, Vec<FireAt>)> {
    let written = |at: Timestamp| FireAt::parse(&iso(at, zone)).ok();
    // The text of the record. Only a text without an offset, which no portal accepts, is rewritten.
    let own = || job.next_run_text().and_then(|text| FireAt::parse(text).ok()).or_else(|| written(next));
    if *policy == Policy::default() {
        return Some((own()?, Vec::new()));
    }
    let Some(schedule) = job.schedule(zone) else { return Some((own()?, Vec::new())) };
    let first = missed::start(policy, &schedule, next, now, zone)?;
    let fire_at = if first == next { own()? } else { written(first)? };
    let known = left.map_or(SUCCESSORS, |left| {
        SUCCESSORS.min(usize::try_from(left).unwrap_or(SUCCESSORS).saturating_sub(1))
    });
    let then = std::iter::successors(schedule.after(first, zone), |at| schedule.after(*at, zone));
    Some((fire_at, then.take(known).filter_map(written).collect()))
}

fn settled(job: &Job) -> impl Iterator<Item = i64> {
    let times = job.field("posthouse").and_then(|ours| ours.get("settled")).and_then(Value::as_array);
    times.into_iter().flatten().filter_map(Value::as_i64)
}

/// A claim as seen in the record.
struct SeenClaim {
    fire_at: Option<i64>,
    until: Timestamp,
}

impl SeenClaim {
    /// `None` also for a stock agent's claim, which has neither a fire time nor an end.
    fn of(job: &Job) -> Option<Self> {
        let claim = job.field("fire_claim")?.as_object()?;
        let micros = |name: &str| claim.get(name).and_then(Value::as_i64);
        Some(Self { fire_at: micros("fire_at"), until: Timestamp::from_microsecond(micros("until")?).ok()? })
    }
}
