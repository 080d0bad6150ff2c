//! Arms in somebody's hands: taken under a lease, kept, and let go of.

use posthouse_time::Moment;
use rusqlite::{Connection, OptionalExtension, params};

use super::history::{self, ATTEMPT, Lost, NewLine};
use super::rows::{self, ARM, Standing, micros, succeed};
use crate::arms::{Arm, ArmKey, ArmState, Attempt, Due, Fate, Settled};

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
    settled: &Settled,
    now: Moment,
) -> rusqlite::Result<Option<Due>> {
    let arm = Standing::of_key(db, key)?;
    match arm {
        Some(arm) if arm.is_held() && arm.owner.as_deref() == Some(owner) => let_go(db, &arm, settled, now),
        // It slipped out of the holder's hands. That the agent took it counts all the same.
        other => match settled {
            Settled::Ended { fate, .. } if fate.is_taken() => remember(db, key, other, settled, now),
            _ => Ok(None),
        },
    }
}

fn let_go(db: &Connection, arm: &Standing, settled: &Settled, now: Moment) -> rusqlite::Result<Option<Due>> {
    match settled {
        Settled::Ended { fate, attempt, missed, successor } => {
            for time in missed {
                NewLine::about(arm, Fate::Missed.word(), now).time(time.text()).tell(db)?;
            }
            let dedup = fate.is_taken().then(|| arm.dedup());
            NewLine::about(arm, fate.word(), now).attempt(attempt).remembering(dedup.as_deref()).tell(db)?;
            match successor {
                Some(next) => succeed(db, arm, next, now).map(Some),
                None => arm.delete(db).map(|()| None),
            }
        }
        Settled::Postponed { attempt, next_us, poked } => {
            NewLine::about(arm, ATTEMPT, now).attempt(attempt).next(*next_us).tell(db)?;
            fail(db, arm, ArmState::Armed, *next_us, *poked, attempt, now)?;
            Ok(Some(Due { next_us: *next_us, key: arm.key }))
        }
        Settled::Dead { attempt } => {
            NewLine::about(arm, Fate::Dead.word(), now).attempt(attempt).tell(db)?;
            fail(db, arm, ArmState::Dead, arm.next_us, false, attempt, now)?;
            Ok(None)
        }
        Settled::PutBack { next_us } => put_back(db, arm, *next_us).map(Some),
    }
}

/// The agent took a fire whose arm is no longer its holder's. Unless somebody else is at it this moment,
/// a pending arm of that very fire ends with it. If there is none any more because the job was cancelled,
/// then or since, whatever is armed next is meant: the line tells of it, but nothing is kept from firing.
fn remember(
    db: &Connection,
    key: ArmKey,
    arm: Option<Standing>,
    settled: &Settled,
    now: Moment,
) -> rusqlite::Result<Option<Due>> {
    let Settled::Ended { fate, attempt, .. } = settled else { return Ok(None) };
    let (lost, pending) = match arm {
        Some(arm) => (Lost::from(&arm), Some(arm)),
        None => {
            let Some(lost) = history::take_lost(db, key.0)? else { return Ok(None) };
            // Superseded, and then wished for again: the same fire may be pending under another key.
            let twin = Standing::of_job(db, &lost.instance, &lost.job)?
                .filter(|arm| lost.dedup.as_ref() == Some(&arm.dedup()));
            (lost, twin)
        }
    };
    match pending {
        Some(arm) if !arm.is_held() => let_go(db, &arm, settled, now),
        Some(arm) if arm.is_alarm => Ok(None),
        _ => {
            let Lost { instance, job, schedule, fire_at, dedup } = &lost;
            NewLine::plain(instance, job, schedule, fire_at, fate.word(), now)
                .attempt(attempt)
                .remembering(dedup.as_deref())
                .tell(db)?;
            Ok(None)
        }
    }
}

fn fail(
    db: &Connection,
    arm: &Standing,
    state: ArmState,
    next_us: i64,
    poked: bool,
    attempt: &Attempt,
    now: Moment,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE arms SET state = ?2, next_us = ?3, poked = poked OR ?4, attempts = attempts + 1,
           last_status = ?5, last_error = ?6, unsure = ?8, failing_since = coalesce(failing_since, ?7),
           owner = NULL, lease_until = NULL
         WHERE key = ?1",
    )?
    .execute(params![
        arm.key.0,
        state,
        next_us,
        poked,
        attempt.status,
        attempt.error,
        now.millis(),
        attempt.unsure
    ])
    .map(drop)
}

fn put_back(db: &Connection, arm: &Standing, next_us: i64) -> rusqlite::Result<Due> {
    db.prepare_cached(
        "UPDATE arms SET state = 0, next_us = ?2, owner = NULL, lease_until = NULL WHERE key = ?1",
    )?
    .execute([arm.key.0, next_us])?;
    Ok(Due { next_us, key: arm.key })
}

/// The folder is one house's at a time, so whoever else held something here is gone, lease or not. (A
/// backend that several houses share would go by the lease.) What `owner` holds is in living hands.
pub(super) fn free_orphans(
    db: &Connection,
    owner: &str,
    now: Moment,
    retry_us: i64,
) -> rusqlite::Result<Vec<Due>> {
    let orphans: Vec<i64> = db
        .prepare_cached("SELECT key FROM arms WHERE state = 1 AND owner IS NOT ?1 ORDER BY next_us, key")?
        .query_map([owner], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let attempt = Attempt { error: Some(CUT_OFF.to_owned()), unsure: true, ..Attempt::default() };
    let mut due = Vec::with_capacity(orphans.len());
    for key in orphans {
        let Some(arm) = Standing::of_key(db, ArmKey(key))? else { continue };
        // Held ahead of its time: no attempt was made.
        if arm.next_us > micros(now) {
            due.push(put_back(db, &arm, arm.next_us)?);
        } else {
            fail(db, &arm, ArmState::Armed, retry_us, false, &attempt, now)?;
            NewLine::about(&arm, ATTEMPT, now).error(CUT_OFF).next(retry_us).tell(db)?;
            due.push(Due { next_us: retry_us, key: arm.key });
        }
    }
    Ok(due)
}

const CUT_OFF: &str = "the house stopped during the attempt";
