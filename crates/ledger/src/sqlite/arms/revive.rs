//! Failed arms that are tried again early.

use std::time::Duration;

use posthouse_time::Moment;
use posthouse_wire::{InstanceId, JobId};
use rusqlite::{Connection, params};

use super::history::{NewLine, REVIVED};
use super::rows::{PendingArm, micros};
use crate::arms::{ArmKey, ArmState, Due};

/// The arms that a sign of life affects. They are usually few, and the index holds no others.
pub(super) fn failing(db: &Connection, instance: &InstanceId, now: Moment) -> rusqlite::Result<Vec<ArmKey>> {
    db.prepare_cached(
        "SELECT key FROM arms INDEXED BY arms_failing
         WHERE instance = ?1 AND attempts > 0 AND (state = 2 OR state = 0 AND next_us > ?2 AND NOT unsure) ORDER BY key",
    )?
    .query_map(params![instance.as_str(), micros(now)], |row| row.get(0).map(ArmKey))?
    .collect()
}

/// Recomputes the wall time of all retries. None is further ahead than `longest`, unless its own fire time
/// is.
pub(super) fn follow_wall_clock(
    db: &Connection,
    now: Moment,
    longest: Duration,
) -> rusqlite::Result<Vec<Due>> {
    let waiting: Vec<i64> = db
        .prepare_cached(
            "SELECT key FROM arms INDEXED BY arms_failing WHERE attempts > 0 AND state = 0 ORDER BY key",
        )?
        .query_map([], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut due = Vec::new();
    for key in waiting {
        let Some(arm) = PendingArm::of_key(db, ArmKey(key))? else { continue };
        let next_us = arm.paused_until_us().min(arm.earliest_us(now + longest));
        if next_us != arm.next_us {
            db.prepare_cached("UPDATE arms SET next_us = ?2 WHERE key = ?1")?.execute([key, next_us])?;
            due.push(Due { next_us, key: arm.key });
        }
    }
    Ok(due)
}

/// Signs of life are frequent, so only a revived dead arm gets a row of history.
pub(super) fn revive(db: &Connection, instance: &InstanceId, now: Moment) -> rusqlite::Result<Vec<Due>> {
    let mut due = Vec::new();
    for key in failing(db, instance, now)? {
        let Some(arm) = PendingArm::of_key(db, key)? else { continue };
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
    let Some(arm) = PendingArm::of_job(db, instance.as_str(), job.as_str())? else { return Ok(None) };
    match arm.state {
        ArmState::Dead => self::now(db, &arm, now).map(Some),
        ArmState::Armed if arm.attempts > 0 && arm.next_us > micros(now) => {
            NewLine::about(&arm, REVIVED, now).next(arm.earliest_us(now)).tell(db)?;
            hasten(db, &arm, now).map(Some)
        }
        // Its first attempt is running or still to come, and a first attempt is never early.
        ArmState::Armed | ArmState::Dispatching => Ok(Some(arm.due())),
    }
}

/// A dead arm starts a new series and is due now. The time until the server gives up counts from its next
/// failure.
pub(super) fn now(db: &Connection, dead: &PendingArm, now: Moment) -> rusqlite::Result<Due> {
    let next_us = dead.earliest_us(now);
    db.prepare_cached(
        "UPDATE arms SET state = 0, next_us = ?2, attempts = 0, failing_since = NULL, poked = 0 WHERE key = ?1",
    )?
    .execute([dead.key.0, next_us])?;
    NewLine::about(dead, REVIVED, now).next(next_us).tell(db)?;
    Ok(Due { next_us, key: dead.key })
}

/// The series continues, but the next attempt is earlier.
fn hasten(db: &Connection, arm: &PendingArm, now: Moment) -> rusqlite::Result<Due> {
    let next_us = arm.earliest_us(now);
    db.prepare_cached("UPDATE arms SET next_us = ?2, retry_at = ledger_time() WHERE key = ?1")?
        .execute([arm.key.0, next_us])?;
    Ok(Due { next_us, key: arm.key })
}
