//! Alarms: arms that the server sets for itself. Only the target of an alarm learns its result, so an alarm
//! leaves no history and is forgotten once it has fired.

use posthouse_time::Moment;
use posthouse_wire::{JobId, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::PendingArm;
use crate::arms::{ArmKey, Armed, NewAlarm};

/// Whether a tenant has reached its limit of alarms. Counting thousands takes a while, so it runs on a reader
/// and does not delay the writer. Concurrent callers can together exceed the limit.
pub(super) fn is_full(db: &Connection, new: &NewAlarm, quota: u32) -> rusqlite::Result<bool> {
    let pending: u32 = db
        .prepare_cached(
            "SELECT count(*) FROM (SELECT 1 FROM arms INDEXED BY arms_alarms WHERE tenant = ?1 LIMIT ?2)",
        )?
        .query_row(params![new.tenant.as_str(), quota], |row| row.get(0))?;
    // A replaced alarm does not count twice.
    Ok(pending >= quota && pending_of(db, &new.tenant, &new.target, &new.job)?.is_none())
}

pub(super) fn set(db: &Connection, new: &NewAlarm, now: Moment) -> rusqlite::Result<Armed> {
    let pending = pending_of(db, &new.tenant, &new.target, &new.job)?;
    if let Some(same) = pending.as_ref().filter(|pending| pending.fire_at == new.fire_at.text()) {
        return Ok(Armed::Same { schedule: same.schedule.as_str().into(), due: same.due() });
    }
    if let Some(old) = &pending {
        old.delete(db)?;
    }
    db.prepare_cached(
        "INSERT INTO arms (state, next_us, bell, tenant, job, schedule, fire_at, per_job_key, created)
         VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6, 0, ?7)",
    )?
    .execute(params![
        new.fire_at.due_us(),
        new.target,
        new.tenant.as_str(),
        new.job.as_str(),
        new.schedule.as_str(),
        new.fire_at.text(),
        now.millis(),
    ])?;
    Ok(Armed::New { key: ArmKey(db.last_insert_rowid()), superseded: pending.map(|old| old.key) })
}

pub(super) fn unset(
    db: &Connection,
    target: &str,
    tenant: &TenantId,
    job: &JobId,
) -> rusqlite::Result<Option<ArmKey>> {
    let Some(pending) = pending_of(db, tenant, target, job)? else { return Ok(None) };
    pending.delete(db)?;
    Ok(Some(pending.key))
}

/// Alarms whose job begins with a text. Nothing that begins so sorts behind the text and the last character there is.
pub(super) const BEGINNING: &str =
    "SELECT key FROM arms WHERE tenant = ?1 AND bell = ?2 AND job >= ?3 AND job < ?3 || char(1114111)";

pub(super) fn unset_all(
    db: &Connection,
    target: &str,
    tenant: &TenantId,
    beginning: &str,
) -> rusqlite::Result<Vec<ArmKey>> {
    let keys: Vec<ArmKey> = db
        .prepare_cached(BEGINNING)?
        .query_map([tenant.as_str(), target, beginning], |row| Ok(ArmKey(row.get(0)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut delete = db.prepare_cached("DELETE FROM arms WHERE key = ?1")?;
    for key in &keys {
        delete.execute([key.0])?;
    }
    Ok(keys)
}

fn pending_of(
    db: &Connection,
    tenant: &TenantId,
    target: &str,
    job: &JobId,
) -> rusqlite::Result<Option<PendingArm>> {
    let key: Option<i64> = db
        .prepare_cached("SELECT key FROM arms WHERE tenant = ?1 AND bell = ?2 AND job = ?3")?
        .query_row([tenant.as_str(), target, job.as_str()], |row| row.get(0))
        .optional()?;
    key.map_or(Ok(None), |key| PendingArm::of_key(db, ArmKey(key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: [&str; 3] = [
        include_str!("../migrations/0001_house.sql"),
        include_str!("../migrations/0002_tokens.sql"),
        include_str!("../migrations/0004_arms.sql"),
    ];
    const STEP: &str = include_str!("../migrations/0007_alarms.sql");
    /// Every column of an older arm, and its rowid, which must equal its key.
    const WHOLE: &str = "SELECT json_array(key, rowid, state, next_us, instance, job, schedule, fire_at, dedup,
        callback, per_job_key, attempts, poked, unsure, created, failing_since, last_status, last_error, owner,
        lease_until, policy, later) FROM arms ORDER BY key";

    fn rows(db: &Connection) -> Vec<String> {
        let mut whole = db.prepare(WHOLE).unwrap();
        whole.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn arms_from_before_alarms_survive_with_their_keys_and_no_key_is_given_out_again() {
        let db = Connection::open_in_memory().unwrap();
        db.pragma_update(None, "foreign_keys", "ON").unwrap();
        BEFORE.iter().for_each(|step| db.execute_batch(step).unwrap());
        db.execute_batch(
            "INSERT INTO tenants VALUES ('ten_1', 'acme', 1);
             INSERT INTO instances (id, tenant, name, generation, idle, created)
               VALUES ('inst_1', 'ten_1', 'heron', 'auto', 0, 1);
             INSERT INTO arms (key, state, next_us, instance, job, schedule, fire_at, per_job_key, created)
               VALUES (3, 0, 30, 'inst_1', 'plain', 'sch_1', 'a', 0, 1);
             INSERT INTO arms VALUES (7, 2, 70, 'inst_1', 'full', 'sch_2', 'b', 'd', 'c', 1, 4, 1, 1, 2, 5, 503,
               'e', 'o', 9, '{}', '[]');
             INSERT INTO arms (key, state, next_us, instance, job, schedule, fire_at, per_job_key, created)
               VALUES (40, 0, 30, 'inst_1', 'gone', 'sch_3', 'a', 0, 1);
             DELETE FROM arms WHERE key = 40;",
        )
        .unwrap();
        let before = rows(&db);
        let together = db.unchecked_transaction().unwrap();
        together.execute_batch(STEP).unwrap();
        together.commit().unwrap();
        assert_eq!((before.len(), rows(&db)), (2, before));
        let new = |instance: &str, target: &str, tenant: &str| {
            db.execute(
                "INSERT INTO arms (state, next_us, instance, bell, tenant, job, schedule, fire_at, per_job_key, created)
                 VALUES (0, 1, nullif(?1, ''), nullif(?2, ''), nullif(?3, ''), 'job', 's', 'a', 0, 1)",
                [instance, target, tenant],
            )
            .map(|_| db.last_insert_rowid())
        };
        assert_eq!(new("inst_1", "", "").unwrap(), 41);
        assert_eq!(new("", "post", "ten_1").unwrap(), 42);
        for unfit in [("", "", ""), ("inst_1", "post", "ten_1"), ("", "post", ""), ("inst_1", "", "ten_1")] {
            assert!(new(unfit.0, unfit.1, unfit.2).is_err(), "{unfit:?} is neither an arm nor an alarm");
        }
        for unknown in [("inst_2", "", ""), ("", "post", "ten_2")] {
            assert!(new(unknown.0, unknown.1, unknown.2).is_err(), "{unknown:?}");
        }
    }

    #[test]
    fn a_ledger_without_arms_learns_of_alarms_too() {
        let db = Connection::open_in_memory().unwrap();
        BEFORE.iter().for_each(|step| db.execute_batch(step).unwrap());
        db.execute_batch(STEP).unwrap();
        assert!(rows(&db).is_empty());
    }
}
