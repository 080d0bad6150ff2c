//! Arms that failed, tried again before their time.

use posthouse_time::Moment;
use posthouse_wire::{InstanceId, JobId};
use rusqlite::{Connection, params};

use super::history::{NewLine, REVIVED};
use super::rows::{Standing, micros};
use crate::arms::{ArmKey, ArmState, Due};

/// Those that a sign of life concerns: few at most times, and the index holds no others.
pub(super) fn failing(db: &Connection, instance: &InstanceId, now: Moment) -> rusqlite::Result<Vec<ArmKey>> {
    db.prepare_cached(
        "SELECT key FROM arms INDEXED BY arms_failing
         WHERE instance = ?1 AND attempts > 0 AND (state = 2 OR state = 0 AND next_us > ?2 AND NOT unsure) ORDER BY key",
    )?
    .query_map(params![instance.as_str(), micros(now)], |row| row.get(0).map(ArmKey))?
    .collect()
}

/// A sign of life comes often, so only what it brings back from the dead is worth a line.
pub(super) fn revive(db: &Connection, instance: &InstanceId, now: Moment) -> rusqlite::Result<Vec<Due>> {
    let mut due = Vec::new();
    for key in failing(db, instance, now)? {
        let Some(arm) = Standing::of_key(db, key)? else { continue };
        due.push(match arm.state {
            ArmState::Dead => self::now(db, &arm, now)?,
            ArmState::Armed | ArmState::Dispatching => hasten(db, &arm, now)?,
        });
    }
    Ok(due)
}

pub(super) fn redrive(
    db: &Connection,
    instance: &InstanceId,
    job: &JobId,
    now: Moment,
) -> rusqlite::Result<Option<Due>> {
    let Some(arm) = Standing::of_job(db, instance.as_str(), job.as_str())? else { return Ok(None) };
    match arm.state {
        ArmState::Dead => self::now(db, &arm, now).map(Some),
        ArmState::Armed if arm.attempts > 0 && arm.next_us > micros(now) => {
            NewLine::about(&arm, REVIVED, now).next(micros(now)).tell(db)?;
            hasten(db, &arm, now).map(Some)
        }
        // Its first attempt is under way or yet to come, and that never comes early.
        ArmState::Armed | ArmState::Dispatching => Ok(Some(arm.due())),
    }
}

/// A dead arm begins a new series, due now: giving up counts from its next failure.
pub(super) fn now(db: &Connection, dead: &Standing, now: Moment) -> rusqlite::Result<Due> {
    db.prepare_cached(
        "UPDATE arms SET state = 0, next_us = ?2, attempts = 0, failing_since = NULL, poked = 0 WHERE key = ?1",
    )?
    .execute([dead.key.0, micros(now)])?;
    NewLine::about(dead, REVIVED, now).next(micros(now)).tell(db)?;
    Ok(Due { next_us: micros(now), key: dead.key })
}

/// The series goes on, only sooner.
fn hasten(db: &Connection, arm: &Standing, now: Moment) -> rusqlite::Result<Due> {
    db.prepare_cached("UPDATE arms SET next_us = ?2 WHERE key = ?1")?.execute([arm.key.0, micros(now)])?;
    Ok(Due { next_us: micros(now), key: arm.key })
}
