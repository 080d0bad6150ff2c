//! Requests of an agent about a job: arm it or cancel it.

use posthouse_time::Moment;
use posthouse_wire::cron::FireProof;
use posthouse_wire::{InstanceId, JobId};
use rusqlite::{Connection, params};

use super::history::{self, NewLine};
use super::job_counts::JobCounts;
use super::revive;
use super::rows::{PendingArm, insert, later_text, policy_text};
use crate::arms::{ArmFate, ArmKey, ArmState, Armed, NewArm};

pub(super) fn arm(
    db: &Connection,
    jobs: &JobCounts,
    new: &NewArm,
    quota: u32,
    now: Moment,
) -> rusqlite::Result<Armed> {
    let pending = PendingArm::of_job(db, new.instance.as_str(), new.job.as_str())?;
    if let Some(same) = pending.as_ref().filter(|pending| pending.dedup() == new.dedup) {
        refresh(db, same.key, new)?;
        let due = match same.state {
            ArmState::Dead => revive::now(db, same, now)?,
            ArmState::Armed | ArmState::Dispatching => same.due(),
        };
        return Ok(Armed::Same { schedule: same.schedule.as_str().into(), due });
    }
    let accepted = history::accepted(db, new.instance.as_str(), new.job.as_str(), &new.dedup)?;
    if let Some((schedule, at)) = accepted {
        return Ok(Armed::Delivered { schedule, at });
    }
    match &pending {
        Some(old) => end(db, old, ArmFate::Superseded, now)?,
        None if !jobs.admit(db, &new.instance, quota)? => return Ok(Armed::OverQuota),
        None => {}
    }
    let key = insert(db, new, now)?;
    Ok(Armed::New { key, superseded: pending.map(|old| old.key) })
}

/// Updates the changeable fields of the same fire. Agents repeat their requests at every reconcile, so an
/// unchanged request writes nothing.
fn refresh(db: &Connection, key: ArmKey, new: &NewArm) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE arms SET callback = ?2, per_job_key = ?3, policy = ?4, later = ?5 WHERE key = ?1
         AND (callback IS NOT ?2 OR per_job_key <> ?3 OR policy IS NOT ?4 OR later IS NOT ?5)",
    )?
    .execute(params![
        key.0,
        new.callback,
        new.proof == FireProof::PerJobKey,
        policy_text(&new.policy),
        later_text(&new.then),
    ])
    .map(drop)
}

pub(super) fn cancel(
    db: &Connection,
    instance: &InstanceId,
    job: &JobId,
    now: Moment,
) -> rusqlite::Result<Option<ArmKey>> {
    let pending = PendingArm::of_job(db, instance.as_str(), job.as_str())?;
    if let Some(arm) = &pending {
        end(db, arm, ArmFate::Cancelled, now)?;
    }
    // This runs after the row of the arm is written, so that it covers that row too.
    history::forget_taken(db, instance.as_str(), job.as_str())?;
    Ok(pending.map(|arm| arm.key))
}

/// Ends every arm of an instance that is being removed.
pub(in crate::sqlite) fn cancel_all(
    db: &Connection,
    instance: &InstanceId,
    now: Moment,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO fires (at, instance, job, schedule, fire_at, what, counted, number)
         SELECT ?2, instance, job, schedule, fire_at, ?3, ledger_time(), counted_fire(?1,
           row_number() OVER (ORDER BY key) + coalesce((SELECT max(number) FROM fires WHERE instance = ?1), 0))
         FROM arms WHERE instance = ?1 ORDER BY key",
    )?
    .execute(params![instance.as_str(), now.millis(), ArmFate::Cancelled.word()])?;
    db.prepare_cached("DELETE FROM arms WHERE instance = ?1")?.execute([instance.as_str()]).map(drop)
}

/// Ends an arm early, even if it is held. Its row keeps the key, because the holder may still report the
/// result: a superseded fire must not be made again once its agent accepted it.
fn end(db: &Connection, arm: &PendingArm, fate: ArmFate, now: Moment) -> rusqlite::Result<()> {
    arm.delete(db)?;
    let (line, dedup) = (NewLine::about(arm, fate.word(), now), arm.dedup());
    match arm.is_held() {
        true => line.remembering(Some(&dedup)).held(arm.key.0).tell(db),
        false => line.tell(db),
    }
}
