//! Held arms: claiming, renewing and releasing them under a lease.

use std::time::Duration;

use posthouse_time::Moment;
use posthouse_wire::TenantId;
use rusqlite::{Connection, OptionalExtension, params};

use super::history::{self, ATTEMPT, LostFire, NewLine};
use super::rows::{self, ARM, PendingArm, micros, succeed};
use crate::arms::{Arm, ArmFate, ArmKey, ArmResult, ArmState, Due, FireAttempt};

pub(super) fn tenants(db: &Connection, keys: &[ArmKey]) -> rusqlite::Result<Vec<(ArmKey, TenantId)>> {
    let mut find = db.prepare_cached(
        "SELECT coalesce(instances.tenant, arms.tenant) FROM arms LEFT JOIN instances ON instances.id = arms.instance
         WHERE key = ?1 AND state = 0",
    )?;
    let mut tenants = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(tenant) = find.query_row([key.0], |row| row.get::<_, String>(0)).optional()? {
            tenants.push((*key, tenant.into()));
        }
    }
    Ok(tenants)
}

pub(super) fn claim(
    db: &Connection,
    keys: &[ArmKey],
    owner: &str,
    lease_until: Moment,
) -> rusqlite::Result<Vec<Arm>> {
    let mut find = db.prepare_cached(&format!("{ARM} WHERE key = ?1 AND state = 0"))?;
    let mut hold =
        db.prepare_cached("UPDATE arms SET state = 1, owner = ?2, lease_until = ?3 WHERE key = ?1")?;
    let mut held = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(arm) = find.query_row([key.0], rows::arm).optional()? {
            hold.execute(params![key.0, owner, lease_until.millis()])?;
            held.push(Arm { state: ArmState::Dispatching, ..arm });
        }
    }
    Ok(held)
}

pub(super) fn renew(
    db: &Connection,
    keys: &[ArmKey],
    owner: &str,
    lease_until: Moment,
) -> rusqlite::Result<Vec<ArmKey>> {
    let mut keep =
        db.prepare_cached("UPDATE arms SET lease_until = ?3 WHERE key = ?1 AND state = 1 AND owner = ?2")?;
    let mut lost = Vec::new();
    for key in keys {
        if keep.execute(params![key.0, owner, lease_until.millis()])? == 0 {
            lost.push(*key);
        }
    }
    Ok(lost)
}

pub(super) fn settle(
    db: &Connection,
    key: ArmKey,
    owner: &str,
    settled: &ArmResult,
    now: Moment,
) -> rusqlite::Result<Option<Due>> {
    let arm = PendingArm::of_key(db, key)?;
    match arm {
        Some(arm) if arm.is_held() && arm.owner.as_deref() == Some(owner) => let_go(db, &arm, settled, now),
        // The holder has lost the arm. That the agent accepted the fire still counts.
        other => match settled {
            ArmResult::Ended { fate, .. } if fate.is_taken() => remember(db, key, other, settled, now),
            _ => Ok(None),
        },
    }
}

fn let_go(
    db: &Connection,
    arm: &PendingArm,
    settled: &ArmResult,
    now: Moment,
) -> rusqlite::Result<Option<Due>> {
    match settled {
        ArmResult::Ended { fate, attempt, missed, successor } => {
            for time in missed {
                NewLine::about(arm, ArmFate::Missed.word(), now).time(time.text()).tell(db)?;
            }
            let dedup = fate.is_taken().then(|| arm.dedup());
            NewLine::about(arm, fate.word(), now).attempt(attempt).remembering(dedup.as_deref()).tell(db)?;
            match successor {
                Some(next) => succeed(db, arm, next, now).map(Some),
                None => arm.delete(db).map(|()| None),
            }
        }
        ArmResult::Postponed { attempt, next_us, pause, poked } => {
            NewLine::about(arm, ATTEMPT, now).attempt(attempt).next(*next_us).tell(db)?;
            fail(db, arm, Retry::At(*next_us, *pause), *poked, attempt)?;
            Ok(Some(Due { next_us: *next_us, key: arm.key }))
        }
        ArmResult::Dead { attempt } => {
            NewLine::about(arm, ArmFate::Dead.word(), now).attempt(attempt).tell(db)?;
            fail(db, arm, Retry::Never, false, attempt)?;
            Ok(None)
        }
        ArmResult::PutBack { next_us } => {
            put_back(db, arm, next_us.unwrap_or_else(|| arm.paused_until_us())).map(Some)
        }
    }
}

/// Records that the agent accepted a fire whose arm its holder has lost. A pending arm of the same fire ends
/// with it, unless another holder is working on it. If the job was cancelled, then or later, the fire is not
/// recorded as accepted: a row of history is written, but whatever is armed next still fires.
fn remember(
    db: &Connection,
    key: ArmKey,
    arm: Option<PendingArm>,
    settled: &ArmResult,
    now: Moment,
) -> rusqlite::Result<Option<Due>> {
    let ArmResult::Ended { fate, attempt, .. } = settled else { return Ok(None) };
    let (lost, pending) = match arm {
        Some(arm) => (LostFire::from(&arm), Some(arm)),
        None => {
            let Some(lost) = history::take_lost(db, key.0)? else { return Ok(None) };
            // The job may have been superseded and armed again, so the same fire can be pending under another
            // key.
            let twin = PendingArm::of_job(db, &lost.instance, &lost.job)?
                .filter(|arm| lost.dedup.as_ref() == Some(&arm.dedup()));
            (lost, twin)
        }
    };
    match pending {
        Some(arm) if !arm.is_held() => let_go(db, &arm, settled, now),
        Some(arm) if arm.is_alarm => Ok(None),
        _ => {
            let LostFire { instance, job, schedule, fire_at, dedup } = &lost;
            NewLine::plain(instance, job, schedule, fire_at, fate.word(), now)
                .attempt(attempt)
                .remembering(dedup.as_deref())
                .tell(db)?;
            Ok(None)
        }
    }
}

/// The time at which a failed fire is tried again.
enum Retry {
    /// At this wall time, after this pause.
    At(i64, Duration),
    Never,
}

fn fail(
    db: &Connection,
    arm: &PendingArm,
    retry: Retry,
    poked: bool,
    attempt: &FireAttempt,
) -> rusqlite::Result<()> {
    let (state, next_us, pause) = match retry {
        Retry::At(next_us, pause) => (ArmState::Armed, next_us, i64::try_from(pause.as_millis()).ok()),
        Retry::Never => (ArmState::Dead, arm.next_us, None),
    };
    db.prepare_cached(
        "UPDATE arms SET state = ?2, next_us = ?3, poked = poked OR ?4, attempts = attempts + 1,
           last_status = ?5, last_error = ?6, unsure = ?7, failing_since = coalesce(failing_since, ledger_time()),
           owner = NULL, lease_until = NULL, retry_at = ledger_time() + ?8
         WHERE key = ?1",
    )?
    .execute(params![
        arm.key.0,
        state,
        next_us,
        poked,
        attempt.status,
        attempt.error,
        attempt.unsure,
        pause,
    ])
    .map(drop)
}

fn put_back(db: &Connection, arm: &PendingArm, next_us: i64) -> rusqlite::Result<Due> {
    db.prepare_cached(
        "UPDATE arms SET state = 0, next_us = ?2, owner = NULL, lease_until = NULL WHERE key = ?1",
    )?
    .execute([arm.key.0, next_us])?;
    Ok(Due { next_us, key: arm.key })
}

/// Only one server at a time has the folder open, so every other owner is gone, whether or not its lease has
/// ended. (A shared backend would have to go by the lease.) Arms of `owner` are still being worked on.
pub(super) fn free_orphans(
    db: &Connection,
    owner: &str,
    now: Moment,
    pause: Duration,
) -> rusqlite::Result<Vec<Due>> {
    let orphans: Vec<i64> = db
        .prepare_cached("SELECT key FROM arms WHERE state = 1 AND owner IS NOT ?1 ORDER BY next_us, key")?
        .query_map([owner], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let attempt = FireAttempt { error: Some(CUT_OFF.to_owned()), unsure: true, ..FireAttempt::default() };
    let mut due = Vec::with_capacity(orphans.len());
    for key in orphans {
        let Some(arm) = PendingArm::of_key(db, ArmKey(key))? else { continue };
        let retry_us = micros(now + pause);
        // It was claimed ahead of its time, so no attempt was made.
        if arm.next_us > micros(now) {
            due.push(put_back(db, &arm, arm.next_us)?);
        } else {
            fail(db, &arm, Retry::At(retry_us, pause), false, &attempt)?;
            NewLine::about(&arm, ATTEMPT, now).error(CUT_OFF).next(retry_us).tell(db)?;
            due.push(Due { next_us: retry_us, key: arm.key });
        }
    }
    Ok(due)
}

const CUT_OFF: &str = "the server stopped during the attempt";
