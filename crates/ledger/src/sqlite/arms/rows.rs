//! Rows of arms: columns, inserts and reads.

use posthouse_time::Moment;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireAt, FireProof, Policy};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::arms::{Arm, ArmKey, ArmState, Due, NewArm, Successor};

/// The tenant of an arm is that of its instance; an alarm has its own. The stored time of a retry holds
/// unless the wall clock was set since. Then it is computed from the pause.
pub(super) const ARM: &str =
    "SELECT key, coalesce(instances.tenant, arms.tenant), instance, job, schedule, fire_at, callback, dedup, per_job_key, policy, later,
       state, attempts,
       CASE WHEN attempts > 0 AND abs(wall_time_at(retry_at) * 1000 - next_us) > 1000000
         THEN wall_time_at(retry_at) * 1000 ELSE next_us END,
       last_status, last_error, arms.created,
       CASE WHEN failing_since IS NOT NULL THEN wall_time_at(failing_since) END, poked,
       bell
     FROM arms LEFT JOIN instances ON instances.id = arms.instance";

pub(super) fn arm(row: &Row<'_>) -> rusqlite::Result<Arm> {
    let job = JobId::from(row.get::<_, String>(3)?);
    let (attempts, next_us) = (row.get(12)?, row.get(13)?);
    let (fire_at, dedup): (String, Option<String>) = (row.get(5)?, row.get(7)?);
    let (tenant, instance): (String, Option<String>) = (row.get(1)?, row.get(2)?);
    let target: Option<String> = row.get(19)?;
    // A stored time can be parsed, because it was parsed before it was stored. If that ever fails, this one
    // arm gets a different fire time. An error here would prevent all arms of the same claim.
    let fire_at_read = FireAt::parse(&fire_at).unwrap_or_else(|_| FireAt::from_micros(next_us));
    Ok(Arm {
        key: ArmKey(row.get(0)?),
        instance: instance
            .unwrap_or_else(|| format!("{}:{tenant}", target.as_deref().unwrap_or_default()))
            .into(),
        target,
        tenant: tenant.into(),
        schedule: row.get::<_, String>(4)?.into(),
        dedup: dedup.unwrap_or_else(|| usual_dedup(job.as_str(), &fire_at)),
        job,
        next_us: not_early(attempts, next_us, fire_at_read.due_us()),
        fire_at: fire_at_read,
        callback: row.get(6)?,
        proof: if row.get(8)? { FireProof::PerJobKey } else { FireProof::PortalJwt },
        policy: policy_read(row.get(9)?),
        then: later_read(row.get(10)?),
        state: row.get(11)?,
        attempts,
        last_status: row.get(14)?,
        last_error: row.get(15)?,
        created: Moment::from_millis(row.get(16)?),
        failing_since: row.get::<_, Option<i64>>(17)?.map(Moment::from_millis),
        poked: row.get(18)?,
    })
}

/// A retry never fires before its own fire time, wherever the wall clock was set.
fn not_early(attempts: u32, next_us: i64, due_us: i64) -> i64 {
    if attempts > 0 { next_us.max(due_us) } else { next_us }
}

pub(super) fn due(row: &Row<'_>) -> rusqlite::Result<Due> {
    Ok(Due { next_us: row.get(0)?, key: ArmKey(row.get(1)?) })
}

pub(super) fn micros(moment: Moment) -> i64 {
    moment.millis().saturating_mul(1000)
}

/// A difference that only a step of the wall clock can cause. [`ARM`] uses the same value.
const A_STEP_US: u64 = 1_000_000;

/// The columns of a job's pending arm that decide about its next state.
pub(super) struct PendingArm {
    pub key: ArmKey,
    /// An alarm has no instance and no history.
    pub is_alarm: bool,
    pub instance: String,
    pub job: String,
    pub schedule: String,
    pub fire_at: String,
    pub dedup: Option<String>,
    pub state: ArmState,
    pub attempts: u32,
    pub next_us: i64,
    pub owner: Option<String>,
    /// Time of the retry of a failed fire, by the current wall clock.
    retry_at: Option<Moment>,
}

impl PendingArm {
    pub fn of_job(db: &Connection, instance: &str, job: &str) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(
            "SELECT key, instance, job, schedule, fire_at, dedup, state, attempts, next_us, owner,
               CASE WHEN retry_at IS NOT NULL THEN wall_time_at(retry_at) END
             FROM arms WHERE instance = ?1 AND job = ?2",
        )?
        .query_row([instance, job], Self::read)
        .optional()
    }

    pub fn of_key(db: &Connection, key: ArmKey) -> rusqlite::Result<Option<Self>> {
        db.prepare_cached(
            "SELECT key, instance, job, schedule, fire_at, dedup, state, attempts, next_us, owner,
               CASE WHEN retry_at IS NOT NULL THEN wall_time_at(retry_at) END
             FROM arms WHERE key = ?1",
        )?
        .query_row([key.0], Self::read)
        .optional()
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: ArmKey(row.get(0)?),
            is_alarm: row.get::<_, Option<String>>(1)?.is_none(),
            instance: row.get::<_, Option<String>>(1)?.unwrap_or_default(),
            job: row.get(2)?,
            schedule: row.get(3)?,
            fire_at: row.get(4)?,
            dedup: row.get(5)?,
            state: row.get(6)?,
            attempts: row.get(7)?,
            next_us: row.get(8)?,
            owner: row.get(9)?,
            retry_at: row.get::<_, Option<i64>>(10)?.map(Moment::from_millis),
        })
    }

    pub fn dedup(&self) -> String {
        self.dedup.clone().unwrap_or_else(|| usual_dedup(&self.job, &self.fire_at))
    }

    pub fn due(&self) -> Due {
        Due { next_us: self.next_us, key: self.key }
    }

    /// The earliest time of the next attempt, in microseconds: now, but never before its fire time. The wall
    /// clock may have been set back since the last attempt.
    pub fn earliest_us(&self, now: Moment) -> i64 {
        self.fire_at_us().max(micros(now))
    }

    /// The time of the next attempt, in microseconds. Setting the wall clock neither extends nor ends the
    /// pause before a retry.
    pub fn paused_until_us(&self) -> i64 {
        let moved = self.retry_at.map(micros).filter(|retry| retry.abs_diff(self.next_us) > A_STEP_US);
        not_early(
            self.attempts,
            moved.filter(|_| self.attempts > 0).unwrap_or(self.next_us),
            self.fire_at_us(),
        )
    }

    fn fire_at_us(&self) -> i64 {
        FireAt::parse(&self.fire_at).map_or(i64::MIN, |fire_at| fire_at.due_us())
    }

    pub fn is_held(&self) -> bool {
        self.state == ArmState::Dispatching
    }

    pub fn delete(&self, db: &Connection) -> rusqlite::Result<()> {
        db.prepare_cached("DELETE FROM arms WHERE key = ?1")?.execute([self.key.0]).map(drop)
    }
}

/// Arms a job under a new key, in place of its pending arm if there is one.
pub(super) fn insert(db: &Connection, new: &NewArm, now: Moment) -> rusqlite::Result<ArmKey> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO arms
           (state, next_us, instance, job, schedule, fire_at, dedup, callback, per_job_key, created, policy, later)
         VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        new.next_us,
        new.instance.as_str(),
        new.job.as_str(),
        new.schedule.as_str(),
        new.fire_at.text(),
        unusual(&new.dedup, new.job.as_str(), new.fire_at.text()),
        new.callback,
        new.proof == FireProof::PerJobKey,
        now.millis(),
        policy_text(&new.policy),
        later_text(&new.then),
    ])?;
    Ok(ArmKey(db.last_insert_rowid()))
}

/// Arms a job's next known time in place of its pending arm, with the other fields of that arm.
pub(super) fn succeed(
    db: &Connection,
    before: &PendingArm,
    next: &Successor,
    now: Moment,
) -> rusqlite::Result<Due> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO arms
           (state, next_us, instance, job, schedule, fire_at, dedup, callback, per_job_key, created, policy, later)
         SELECT 0, ?2, instance, job, ?3, ?4, ?5, callback, per_job_key, ?6, policy, ?7 FROM arms WHERE key = ?1",
    )?
    .execute(params![
        before.key.0,
        next.next_us,
        next.schedule.as_str(),
        next.fire_at.text(),
        unusual(&next.dedup, &before.job, next.fire_at.text()),
        now.millis(),
        later_text(&next.then),
    ])?;
    Ok(Due { next_us: next.next_us, key: ArmKey(db.last_insert_rowid()) })
}

/// The dedup key that agents usually choose.
fn usual_dedup(job: &str, fire_at: &str) -> String {
    format!("{job}:{fire_at}")
}

fn unusual<'a>(dedup: &'a str, job: &str, fire_at: &str) -> Option<&'a str> {
    let rest = dedup.strip_prefix(job).and_then(|rest| rest.strip_prefix(':'));
    (rest != Some(fire_at)).then_some(dedup)
}

pub(super) fn policy_text(policy: &Policy) -> Option<String> {
    (*policy != Policy::default())
        .then(|| serde_json::to_string(policy).expect("strings and numbers are always JSON"))
}

fn policy_read(text: Option<String>) -> Policy {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

pub(super) fn later_text(times: &[FireAt]) -> Option<String> {
    (!times.is_empty()).then(|| serde_json::to_string(times).expect("strings are always JSON"))
}

fn later_read(text: Option<String>) -> Vec<FireAt> {
    text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
}

impl ToSql for ArmState {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Armed => 0_i64,
            Self::Dispatching => 1,
            Self::Dead => 2,
        }
        .into())
    }
}

impl FromSql for ArmState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(Self::Armed),
            1 => Ok(Self::Dispatching),
            2 => Ok(Self::Dead),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}
