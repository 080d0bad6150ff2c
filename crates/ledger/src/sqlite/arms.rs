//! SQL of arms: `arms` holds the pending ones, `fires` their history.

mod alarm;
mod arming;
mod history;
mod hold;
mod job_counts;
mod revive;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::cron::{ArmedJob, FireAt};
use posthouse_wire::{InstanceId, JobId, ScheduleId, TenantId};
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, params};

use super::{Sqlite, owner};
use crate::Fault;
use crate::arms::{
    Arm, ArmFilter, ArmKey, ArmResult, ArmState, Armed, Arms, Due, FireAttempt, FireLine, NewAlarm, NewArm,
};
pub(super) use arming::cancel_all;
use history::NewLine;
pub(super) use job_counts::JobCounts;
use rows::ARM;

#[async_trait]
impl Arms for Sqlite {
    async fn arm(&self, new: NewArm, quota: u32, now: Moment) -> Result<Armed, Fault> {
        let (owner, jobs) = (self.tenant_of(&new.instance), Arc::clone(&self.job_counts));
        self.write_for(owner, move |db| arming::arm(db, &jobs, &new, quota, now)).await
    }

    async fn cancel(&self, instance: &InstanceId, job: &JobId, now: Moment) -> Result<Option<ArmKey>, Fault> {
        let owner = self.tenant_of(instance);
        let (instance, job) = (instance.clone(), job.clone());
        self.write_for(owner, move |db| arming::cancel(db, &instance, &job, now)).await
    }

    async fn set_alarm(&self, new: NewAlarm, quota: u32, now: Moment) -> Result<Armed, Fault> {
        let counted = new.clone();
        if self.read(move |db| alarm::is_full(db, &counted, quota)).await? {
            return Ok(Armed::OverQuota);
        }
        self.write_for(owner(&new.tenant), move |db| alarm::set(db, &new, now)).await
    }

    async fn unset_alarm(
        &self,
        target: &str,
        tenant: &TenantId,
        job: &JobId,
    ) -> Result<Option<ArmKey>, Fault> {
        let (target, tenant, job) = (target.to_owned(), tenant.clone(), job.clone());
        self.write_for(owner(&tenant), move |db| alarm::unset(db, &target, &tenant, &job)).await
    }

    async fn unset_alarms(
        &self,
        target: &str,
        tenant: &TenantId,
        beginning: &str,
    ) -> Result<Vec<ArmKey>, Fault> {
        let (target, tenant, beginning) = (target.to_owned(), tenant.clone(), beginning.to_owned());
        self.write_for(owner(&tenant), move |db| alarm::unset_all(db, &target, &tenant, &beginning)).await
    }

    /// Without dead arms. An agent that misses one in the list arms it again, and that revives it.
    async fn listing(&self, instance: &InstanceId, at_most: u32) -> Result<Vec<ArmedJob>, Fault> {
        let instance = instance.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT job, fire_at, schedule FROM arms WHERE instance = ?1 AND state <> 2
                 ORDER BY next_us, key LIMIT ?2",
            )?
            .query_map(params![instance.as_str(), at_most], |row| {
                Ok(ArmedJob {
                    job_id: row.get::<_, String>(0)?.into(),
                    fire_at: row.get(1)?,
                    schedule_id: row.get::<_, String>(2)?.into(),
                })
            })?
            .collect()
        })
        .await
    }

    async fn due(&self, after: Due, until_us: i64, at_most: u32) -> Result<Vec<Due>, Fault> {
        self.read(move |db| {
            db.prepare_cached(DUE)?
                .query_map(params![after.next_us, after.key.0, until_us, at_most], rows::due)?
                .collect()
        })
        .await
    }

    async fn tenants(&self, keys: Vec<ArmKey>) -> Result<Vec<(ArmKey, TenantId)>, Fault> {
        self.read(move |db| hold::tenants(db, &keys)).await
    }

    async fn claim(&self, keys: Vec<ArmKey>, owner: &str, lease_until: Moment) -> Result<Vec<Arm>, Fault> {
        let owner = owner.to_owned();
        self.write(move |db| hold::claim(db, &keys, &owner, lease_until)).await
    }

    async fn renew(&self, keys: Vec<ArmKey>, owner: &str, lease_until: Moment) -> Result<Vec<ArmKey>, Fault> {
        let owner = owner.to_owned();
        self.write(move |db| hold::renew(db, &keys, &owner, lease_until)).await
    }

    async fn settle(
        &self,
        key: ArmKey,
        owner: &str,
        settled: ArmResult,
        now: Moment,
    ) -> Result<Option<Due>, Fault> {
        let owner = owner.to_owned();
        self.write(move |db| hold::settle(db, key, &owner, &settled, now)).await
    }

    async fn free_orphans(&self, owner: &str, now: Moment, pause: Duration) -> Result<Vec<Due>, Fault> {
        let owner = owner.to_owned();
        self.write(move |db| hold::free_orphans(db, &owner, now, pause)).await
    }

    async fn move_retries(&self, now: Moment, longest: Duration) -> Result<Vec<Due>, Fault> {
        self.write(move |db| revive::follow_wall_clock(db, now, longest)).await
    }

    async fn revive(&self, instance: &InstanceId, now: Moment) -> Result<Vec<Due>, Fault> {
        let of = instance.clone();
        // Nearly every sign of life finds nothing to do and need not wait for a commit.
        if self.read(move |db| revive::failing(db, &of, now)).await?.is_empty() {
            return Ok(Vec::new());
        }
        let instance = instance.clone();
        self.write_for(self.tenant_of(&instance), move |db| revive::revive(db, &instance, now)).await
    }

    async fn redrive(&self, instance: &InstanceId, job: &JobId, now: Moment) -> Result<Option<Due>, Fault> {
        let (instance, job) = (instance.clone(), job.clone());
        self.write_for(self.tenant_of(&instance), move |db| revive::redrive(db, &instance, &job, now)).await
    }

    async fn pending(&self, instance: &InstanceId, job: &JobId) -> Result<Option<Arm>, Fault> {
        let (instance, job) = (instance.clone(), job.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{ARM} WHERE instance = ?1 AND job = ?2"))?
                .query_row([instance.as_str(), job.as_str()], rows::arm)
                .optional()
        })
        .await
    }

    async fn arms(&self, filter: ArmFilter, at_most: u32) -> Result<Vec<Arm>, Fault> {
        self.read(move |db| filtered(db, &filter, at_most)).await
    }

    async fn ending(&self, instance: &InstanceId, schedule: &ScheduleId) -> Result<Option<String>, Fault> {
        let (instance, schedule) = (instance.clone(), schedule.clone());
        self.read(move |db| history::ending(db, instance.as_str(), schedule.as_str())).await
    }

    async fn history(
        &self,
        instance: &InstanceId,
        job: Option<&JobId>,
        before: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<FireLine>, Fault> {
        let (instance, job) = (instance.clone(), job.cloned());
        self.read(move |db| {
            history::newest_first(db, instance.as_str(), job.as_ref().map(JobId::as_str), before, at_most)
        })
        .await
    }

    async fn note_fire(
        &self,
        instance: &InstanceId,
        job: &JobId,
        fire_at: &FireAt,
        attempt: FireAttempt,
        now: Moment,
    ) -> Result<(), Fault> {
        let owner = self.tenant_of(instance);
        let (instance, job, fire_at) = (instance.clone(), job.clone(), fire_at.clone());
        self.write_for(owner, move |db| {
            // A manual fire has no arm and therefore no schedule.
            NewLine::plain(instance.as_str(), job.as_str(), "", fire_at.text(), history::MANUAL, now)
                .attempt(&attempt)
                .tell(db)
        })
        .await
    }

    async fn count_by_state(&self) -> Result<(u64, u64), Fault> {
        self.read(|db| {
            let mut count = db.prepare_cached("SELECT count(*) FROM arms WHERE state = ?1")?;
            let mut of =
                |state: ArmState| count.query_row([state], |row| row.get::<_, u32>(0)).map(u64::from);
            Ok((of(ArmState::Armed)? + of(ArmState::Dispatching)?, of(ArmState::Dead)?))
        })
        .await
    }
}

const DUE: &str = "SELECT next_us, key FROM arms
    WHERE state = 0 AND (next_us, key) > (?1, ?2) AND next_us < ?3 ORDER BY next_us, key LIMIT ?4";

/// The filter is in a subquery of keys alone, which an index answers. Only the rows of one page are then
/// read.
fn filtered(db: &Connection, filter: &ArmFilter, at_most: u32) -> rusqlite::Result<Vec<Arm>> {
    let ArmFilter { tenant, instance, job, state, after } = filter;
    let after = after.map_or(i64::MIN, |key| key.0);
    let tenant = tenant.as_ref().map(TenantId::as_str);
    let instance = instance.as_ref().map(InstanceId::as_str);
    let job = job.as_ref().map(JobId::as_str);
    let mut given: Vec<(&str, &dyn ToSql)> = vec![(":after", &after), (":at_most", &at_most)];
    let mut narrowed = String::from("key > :after");
    for (name, value, condition) in [
        (
            ":tenant",
            tenant.as_ref().map(any),
            "instance IN (SELECT id FROM instances WHERE tenant = :tenant)",
        ),
        (":instance", instance.as_ref().map(any), "instance = :instance"),
        (":job", job.as_ref().map(any), "job = :job"),
        (":state", state.as_ref().map(any), "state = :state"),
    ] {
        if let Some(value) = value {
            given.push((name, value));
            narrowed = format!("{narrowed} AND {condition}");
        }
    }
    // Alarms belong to no agent, so a filter by tenant or instance never matches one.
    if tenant.is_none() && instance.is_none() {
        narrowed.push_str(" AND bell IS NULL");
    }
    db.prepare_cached(&format!(
        "{ARM} WHERE key IN (SELECT key FROM arms WHERE {narrowed} ORDER BY key LIMIT :at_most) ORDER BY key"
    ))?
    .query_map(&*given, rows::arm)?
    .collect()
}

fn any<T: ToSql>(value: &T) -> &dyn ToSql {
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The query plan of SQLite.
    fn plan(statement: &str) -> String {
        let mut db = Connection::open_in_memory().unwrap();
        crate::sqlite::migrate::run(&mut db).unwrap();
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
        let zeros = rusqlite::params_from_iter(vec![0; explain.parameter_count()]);
        let steps = explain.query_map(zeros, |row| row.get::<_, String>("detail")).unwrap();
        steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn an_alarm_is_found_and_a_tenant_s_are_counted_by_their_own_index() {
        for statement in [
            "SELECT 1 FROM arms INDEXED BY arms_alarms WHERE tenant = ?1 LIMIT ?2",
            "SELECT key FROM arms WHERE tenant = ?1 AND bell = ?2 AND job = ?3",
            super::alarm::BEGINNING,
        ] {
            let plan = plan(statement);
            assert!(plan.starts_with("SEARCH arms USING COVERING INDEX arms_alarms"), "{plan}");
        }
    }

    #[test]
    fn the_heap_is_filled_from_an_index_alone() {
        let plan = plan(DUE);
        assert!(plan.starts_with("SEARCH arms USING COVERING INDEX arms_due"), "{plan}");
        assert!(!plan.contains(';'), "it is in order as it is read: {plan}");
    }
}
