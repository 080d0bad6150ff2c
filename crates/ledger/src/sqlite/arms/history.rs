//! History of fires, and which fires agents accepted.

use std::time::Duration;

use posthouse_time::Moment;
use posthouse_wire::ScheduleId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::rows::PendingArm;
use crate::arms::{FireAttempt, FireLine};

/// Time for which an accepted fire is not made again.
pub(super) const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

pub(super) const ATTEMPT: &str = "attempt";
pub(super) const REVIVED: &str = "revived";
pub(super) const MANUAL: &str = "manual";

const INSERT: &str = "INSERT INTO fires
       (at, instance, job, schedule, fire_at, what, status, error, late_ms, next_us, dedup, held, counted, number)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ledger_time(),
       counted_fire(?2, 1 + coalesce((SELECT max(number) FROM fires WHERE instance = ?2), 0)))";

/// A row to be written.
pub(super) struct NewLine<'a> {
    at: Moment,
    instance: &'a str,
    job: &'a str,
    schedule: &'a str,
    fire_at: &'a str,
    what: &'a str,
    status: Option<u16>,
    error: Option<&'a str>,
    late_ms: Option<i64>,
    next_us: Option<i64>,
    dedup: Option<&'a str>,
    held: Option<i64>,
    /// The row is about an alarm and is not written, because alarms have no history.
    unsaid: bool,
}

impl<'a> NewLine<'a> {
    pub fn about(arm: &'a PendingArm, what: &'a str, at: Moment) -> Self {
        let line = Self::plain(&arm.instance, &arm.job, &arm.schedule, &arm.fire_at, what, at);
        Self { unsaid: arm.is_alarm, ..line }
    }

    pub fn plain(
        instance: &'a str,
        job: &'a str,
        schedule: &'a str,
        fire_at: &'a str,
        what: &'a str,
        at: Moment,
    ) -> Self {
        let (status, error, late_ms, next_us, dedup, held) = (None, None, None, None, None, None);
        let unsaid = false;
        Self {
            at,
            instance,
            job,
            schedule,
            fire_at,
            what,
            status,
            error,
            late_ms,
            next_us,
            dedup,
            held,
            unsaid,
        }
    }

    /// Changes the row to another time of the same schedule.
    pub fn time(self, fire_at: &'a str) -> Self {
        Self { fire_at, ..self }
    }

    pub fn attempt(self, attempt: &'a FireAttempt) -> Self {
        let FireAttempt { status, error, late_ms, unsure: _ } = attempt;
        Self { status: *status, error: error.as_deref(), late_ms: Some(*late_ms), ..self }
    }

    pub fn error(self, error: &'a str) -> Self {
        Self { error: Some(error), ..self }
    }

    pub fn next(self, next_us: i64) -> Self {
        Self { next_us: Some(next_us), ..self }
    }

    /// Marks the fire as accepted: it is not made again.
    pub fn remembering(self, dedup: Option<&'a str>) -> Self {
        Self { dedup, ..self }
    }

    /// Records the key of the arm, so that its holder can still report the result of its attempt.
    pub fn held(self, key: i64) -> Self {
        Self { held: Some(key), ..self }
    }

    pub fn tell(self, db: &Connection) -> rusqlite::Result<()> {
        if self.unsaid {
            return Ok(());
        }
        db.prepare_cached(INSERT)?
            .execute(params![
                self.at.millis(),
                self.instance,
                self.job,
                self.schedule,
                self.fire_at,
                self.what,
                self.status,
                self.error,
                self.late_ms,
                self.next_us,
                self.dedup,
                self.held,
            ])
            .map(drop)
    }
}

/// The schedule under which this fire was accepted, and the time, if that still counts.
pub(super) fn accepted(
    db: &Connection,
    instance: &str,
    job: &str,
    dedup: &str,
) -> rusqlite::Result<Option<(ScheduleId, Moment)>> {
    db.prepare_cached(
        "SELECT schedule, at FROM fires
         WHERE instance = ?1 AND job = ?2 AND dedup = ?3 AND held IS NULL
           AND counted >= ledger_time_for_repeats() - ?4 LIMIT 1",
    )?
    .query_row(params![instance, job, dedup, REMEMBERED.as_millis() as i64], |row| {
        Ok((ScheduleId::from(row.get::<_, String>(0)?), Moment::from_millis(row.get(1)?)))
    })
    .optional()
}

/// Forgets which fires of a job were accepted, including those whose holder may still report it.
pub(super) fn forget_taken(db: &Connection, instance: &str, job: &str) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE fires SET dedup = NULL WHERE instance = ?1 AND job = ?2 AND dedup IS NOT NULL")?
        .execute([instance, job])
        .map(drop)
}

/// A fire whose arm was taken from its holder.
pub(super) struct LostFire {
    pub instance: String,
    pub job: String,
    pub schedule: String,
    pub fire_at: String,
    /// None when the job was cancelled, then or later.
    pub dedup: Option<String>,
}

impl From<&PendingArm> for LostFire {
    fn from(arm: &PendingArm) -> Self {
        Self {
            instance: arm.instance.clone(),
            job: arm.job.clone(),
            schedule: arm.schedule.clone(),
            fire_at: arm.fire_at.clone(),
            dedup: Some(arm.dedup()),
        }
    }
}

/// Removes and returns the record of an arm that ended while it was held. It is returned once.
pub(super) fn take_lost(db: &Connection, key: i64) -> rusqlite::Result<Option<LostFire>> {
    let found = db
        .prepare_cached("SELECT seq, instance, job, schedule, fire_at, dedup FROM fires WHERE held = ?1")?
        .query_row([key], |row| {
            let lost = LostFire {
                instance: row.get(1)?,
                job: row.get(2)?,
                schedule: row.get(3)?,
                fire_at: row.get(4)?,
                dedup: row.get(5)?,
            };
            Ok((row.get::<_, i64>(0)?, lost))
        })
        .optional()?;
    let Some((seq, lost)) = found else { return Ok(None) };
    db.prepare_cached("UPDATE fires SET held = NULL, dedup = NULL WHERE seq = ?1")?.execute([seq])?;
    Ok(Some(lost))
}

const LINE: &str =
    "SELECT number, at, instance, job, schedule, fire_at, what, status, error, late_ms, next_us FROM fires";

/// Lines are numbered within the history of their agent. Numbers start again at one when all lines were deleted.
pub(super) fn newest_first(
    db: &Connection,
    instance: &str,
    job: Option<&str>,
    before: Option<i64>,
    at_most: u32,
) -> rusqlite::Result<Vec<FireLine>> {
    let before = before.unwrap_or(i64::MAX);
    match job {
        Some(job) => db
            .prepare_cached(&format!(
                "{LINE} WHERE instance = ?1 AND job = ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4"
            ))?
            .query_map(params![instance, job, before, at_most], line)?
            .collect(),
        None => db
            .prepare_cached(&format!(
                "{LINE} WHERE instance = ?1 AND number < ?2 ORDER BY number DESC LIMIT ?3"
            ))?
            .query_map(params![instance, before, at_most], line)?
            .collect(),
    }
}

fn line(row: &Row<'_>) -> rusqlite::Result<FireLine> {
    let next_us: Option<i64> = row.get(10)?;
    Ok(FireLine {
        number: row.get(0)?,
        at: Moment::from_millis(row.get(1)?),
        instance: row.get::<_, String>(2)?.into(),
        job: row.get::<_, String>(3)?.into(),
        schedule: row.get::<_, String>(4)?.into(),
        fire_at: row.get(5)?,
        what: row.get(6)?,
        status: row.get(7)?,
        error: row.get(8)?,
        late_ms: row.get(9)?,
        // Rounded up to the first millisecond at which it may fire.
        next: next_us
            .map(|us| Moment::from_millis(us.div_euclid(1000) + i64::from(us.rem_euclid(1000) != 0))),
    })
}

/// The last row about a schedule that is no longer pending.
pub(super) fn ending(db: &Connection, instance: &str, schedule: &str) -> rusqlite::Result<Option<String>> {
    let last = db
        .prepare_cached(
            "SELECT what, job FROM fires
             WHERE schedule = ?2 AND instance = ?1 AND what NOT IN ('attempt', 'revived', 'manual')
             ORDER BY seq DESC LIMIT 1",
        )?
        .query_row([instance, schedule], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))
        .optional()?;
    let Some((what, job)) = last else { return Ok(None) };
    // A dead arm has a row of history, but it has not ended.
    let pending = PendingArm::of_job(db, instance, &job)?.is_some_and(|arm| arm.schedule == schedule);
    Ok((!pending).then_some(what))
}

#[cfg(test)]
mod tests {
    use rusqlite::StatementStatus;

    use super::*;

    #[test]
    fn a_line_of_history_is_written_without_compiling_its_statement_again() {
        let mut db = Connection::open_in_memory().unwrap();
        crate::sqlite::opening::prepare(&db).unwrap();
        crate::sqlite::migrate::run(&mut db).unwrap();
        db.execute_batch(
            "PRAGMA foreign_keys = OFF;
             INSERT INTO tenants (id, name, created) VALUES ('ten_acme', 'acme', 0);",
        )
        .unwrap();
        db.create_scalar_function("ledger_time", 0, rusqlite::functions::FunctionFlags::SQLITE_UTF8, |_| {
            Ok(0_i64)
        })
        .unwrap();
        db.create_scalar_function(
            "counted_fire",
            2,
            rusqlite::functions::FunctionFlags::SQLITE_UTF8,
            |row| row.get::<i64>(1),
        )
        .unwrap();
        let mut compiled_again = 0;
        for number in 0..5_i64 {
            let mut insert = db.prepare_cached(INSERT).unwrap();
            let (instance, dedup) = (format!("inst_{number}"), (number % 2 == 0).then_some("x"));
            insert
                .execute(params![
                    number,
                    instance,
                    "j",
                    "s",
                    "f",
                    "w",
                    None::<u16>,
                    None::<&str>,
                    None::<i64>,
                    None::<i64>,
                    dedup,
                    None::<i64>
                ])
                .unwrap();
            compiled_again = insert.get_status(StatementStatus::RePrepare);
        }
        assert_eq!(compiled_again, 0);
    }
}
