//! Rules for the ticker's scan for due jobs, one record at a time.

use std::time::Duration;

use jiff::fmt::temporal::Pieces;
use jiff::tz::{Offset, TimeZone};
use jiff::{Timestamp, civil::DateTime};
use serde_json::{Map, Value, json};

use super::{RecordChange, RuleResult, advance, is_once, is_spent, recurring};
use crate::cron::schedule::{Schedule, ScheduleKind, iso, read_iso};
use crate::jobs::record::{FireClaim, truthy};
use crate::jobs::{Job, JobStoreSettings};

/// Shortest time that a one-shot stays with the ticker that took it.
const RUN_CLAIM: Duration = Duration::from_secs(1800);

/// A job to run now.
#[derive(Clone, Debug)]
pub struct DueJob {
    pub job: Job,
    /// Fire time to claim.
    pub fire_at: Timestamp,
    /// Later than the schedule's grace. The times between then and now are skipped, and the job's policy
    /// decides about them.
    pub missed: bool,
}

/// Whether a record is due, and how the scan changes it. `id` is for a record without one.
pub(in crate::jobs) fn due(
    job: &Job,
    id: &str,
    owner: &str,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> RuleResult<Option<DueJob>> {
    let (mut job, mended) = mend(job, id);
    match check_due(&mut job, owner, now, store_settings) {
        DueCheck::Spent => RuleResult::remove(None),
        DueCheck::Due { fire_at, missed, changed } => {
            let change = if mended || changed { RecordChange::Keep(job.clone()) } else { RecordChange::Same };
            RuleResult { answer: Some(DueJob { job, fire_at, missed }), change }
        }
        DueCheck::NotDue { changed } if mended || changed => RuleResult::keep(None, job),
        DueCheck::NotDue { .. } => RuleResult::same(None),
    }
}

enum DueCheck {
    Due { fire_at: Timestamp, missed: bool, changed: bool },
    NotDue { changed: bool },
    Spent,
}

fn check_due(job: &mut Job, owner: &str, now: Timestamp, store_settings: &JobStoreSettings) -> DueCheck {
    const NOT_DUE: DueCheck = DueCheck::NotDue { changed: false };
    let zone = &store_settings.zone;
    let once = is_once(job);
    if !job.is_live() || (once && is_running(job, now, store_settings)) {
        return NOT_DUE;
    }
    let Some(schedule) = job.schedule(zone) else { return NOT_DUE };
    let recovered = job.next_run_at().is_none();
    if recovered && !recover(job, &schedule, now, store_settings) {
        return NOT_DUE;
    }
    let Some(fire_at) = job.next_run_at().filter(|next| *next <= now) else {
        return DueCheck::NotDue { changed: recovered };
    };
    // A settled time can be here only if another process computed the next run from a clock behind ours. No
    // claim would ever win it.
    if job.is_settled(fire_at) || moved_zone(job, &schedule, fire_at, now, zone) {
        return DueCheck::NotDue { changed: advance(job, now.max(fire_at), zone) || recovered };
    }
    if once {
        if is_spent(job) {
            return DueCheck::Spent;
        }
        job.set("run_claim", json!({ "at": iso(now, zone), "by": owner }));
        return DueCheck::Due { fire_at, missed: false, changed: true };
    }
    let missed = now.duration_since(fire_at).unsigned_abs() > schedule.grace(now, zone);
    // The backlog is dropped before its single replacement run. A crash in between loses that run, but
    // never causes a burst of runs.
    let changed = missed && advance(job, now, zone);
    DueCheck::Due { fire_at, missed, changed: changed || recovered }
}

/// A one-shot stays due until its run is marked, so its claims show whether it is running.
fn is_running(job: &Job, now: Timestamp, store_settings: &JobStoreSettings) -> bool {
    let handed_out = job.field("run_claim").and_then(|claim| claim.get("at")).and_then(Value::as_str);
    let fresh = handed_out.and_then(|at| read_iso(at, &TimeZone::system())).is_some_and(|at| {
        let age = now.duration_since(at);
        !age.is_negative() && age.unsigned_abs() < (3 * store_settings.inactivity).max(RUN_CLAIM)
    });
    fresh || FireClaim::of(job).is_some_and(|claim| claim.is_held(now))
}

/// Computes a next run if a manual edit left none.
fn recover(job: &mut Job, schedule: &Schedule, now: Timestamp, store_settings: &JobStoreSettings) -> bool {
    if recurring(job, &store_settings.zone).is_some() {
        return advance(job, now, &store_settings.zone);
    }
    let next = schedule.next(job.last_run_at(), now, &store_settings.zone).ok().flatten();
    if next.is_some() {
        job.set_time("next_run_at", next, &store_settings.zone);
    }
    next.is_some()
}

/// Detects that the agent has changed its time zone. A cron time means a time on the local clock. If it was
/// written with an offset that this zone does not have at that time, and the local time is still to come
/// here, the job waits for it. (The stock agent compares with the present offset instead and so loses a run
/// whenever daylight saving changes.)
fn moved_zone(job: &Job, schedule: &Schedule, fire_at: Timestamp, now: Timestamp, zone: &TimeZone) -> bool {
    if !matches!(schedule.kind(), ScheduleKind::Cron { .. }) {
        return false;
    }
    let Some((offset, reading)) = job.next_run_text().and_then(written) else { return false };
    offset != zone.to_offset(fire_at) && reading > zone.to_datetime(now)
}

/// The offset and the local time of a time as written. `None` if it has no offset.
fn written(text: &str) -> Option<(Offset, DateTime)> {
    let pieces = Pieces::parse(text).ok()?;
    let offset = pieces.to_numeric_offset()?;
    Some((offset, DateTime::from_parts(pieces.date(), pieces.time()?)))
}

/// Repairs what a direct edit of the file may have broken, so that the job is found again.
fn mend(job: &Job, id: &str) -> (Job, bool) {
    let mut mended = job.clone();
    let fields = &mut mended.fields;
    if !fields.get("id").is_some_and(truthy) {
        // Name of the field in older versions.
        let old = fields.remove("job_id").filter(truthy);
        fields.insert("id".to_owned(), old.unwrap_or_else(|| id.into()));
    }
    if !fields.get("schedule").is_some_and(Value::is_object) {
        fields.insert("schedule".to_owned(), Value::Object(Map::new()));
    }
    for name in ["next_run_at", "last_run_at"] {
        let unreadable = fields.get(name).is_some_and(|at| {
            !at.is_null() && at.as_str().and_then(|at| read_iso(at, &TimeZone::system())).is_none()
        });
        if unreadable {
            fields.remove(name);
        }
    }
    let changed = mended != *job;
    (mended, changed)
}
