//! Number of armed jobs per agent, for the job quota, kept in memory beside the one writer.

use std::collections::HashMap;

use parking_lot::Mutex;
use posthouse_wire::InstanceId;
use rusqlite::Connection;

/// Most agents whose number is kept. Past it, all are counted again when they arm their next job.
const MOST: usize = 100_000;

/// For each agent that armed a job, at least as many jobs as it has. Only a new job changes the number. A
/// cancelled or finished job leaves it too high, and the rows decide once it reaches the quota. So an agent's
/// jobs are not counted again for every job that it arms.
#[derive(Default)]
pub(in crate::sqlite) struct JobCounts(Mutex<HashMap<InstanceId, u32>>);

impl JobCounts {
    /// Counts a new job of an agent, in the open transaction. False if the agent has reached its quota.
    pub fn admit(&self, db: &Connection, agent: &InstanceId, quota: u32) -> rusqlite::Result<bool> {
        let mut counts = self.0.lock();
        let jobs = match counts.get(agent) {
            Some(jobs) if *jobs < quota => *jobs,
            _ => count(db, agent)?,
        };
        let is_admitted = jobs < quota;
        if counts.len() >= MOST && !counts.contains_key(agent) {
            counts.clear();
        }
        counts.insert(agent.clone(), jobs + u32::from(is_admitted));
        Ok(is_admitted)
    }

    /// Forgets all numbers. Some may be those of a transaction that was rolled back.
    pub fn rolled_back(&self) {
        self.0.lock().clear();
    }
}

fn count(db: &Connection, agent: &InstanceId) -> rusqlite::Result<u32> {
    db.prepare_cached("SELECT count(*) FROM arms WHERE instance = ?1")?
        .query_row([agent.as_str()], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_agent() -> (Connection, InstanceId) {
        let mut db = Connection::open_in_memory().unwrap();
        crate::sqlite::migrate::run(&mut db).unwrap();
        db.execute_batch(
            "INSERT INTO tenants (id, name, created) VALUES ('ten_acme', 'acme', 0);
             INSERT INTO instances (id, tenant, name, generation, idle, created)
             VALUES ('inst_heron', 'ten_acme', 'heron', 'auto', 0, 0);",
        )
        .unwrap();
        (db, InstanceId::new("inst_heron"))
    }

    fn insert(db: &Connection, job: &str) {
        db.execute(
            "INSERT INTO arms (state, next_us, instance, job, schedule, fire_at, per_job_key, created)
             VALUES (0, 0, 'inst_heron', ?1, ?1, '', 0, 0)",
            [job],
        )
        .unwrap();
    }

    #[test]
    fn an_agent_reaches_its_quota_by_the_jobs_that_are_stored() {
        let ((db, heron), counts) = (with_agent(), JobCounts::default());
        let admit = || counts.admit(&db, &heron, 2).unwrap();
        assert!(admit() && admit() && admit(), "the first two were not stored");
        insert(&db, "one");
        assert!(admit());
        insert(&db, "two");
        assert!(!admit() && !admit());
        db.execute("DELETE FROM arms WHERE job = 'one'", []).unwrap();
        assert!(admit());
        insert(&db, "three");
        assert!(!admit());
    }

    #[test]
    fn below_the_quota_the_jobs_of_an_agent_are_counted_once() {
        let ((db, heron), counts) = (with_agent(), JobCounts::default());
        insert(&db, "one");
        assert!(counts.admit(&db, &heron, 3).unwrap());
        db.execute_batch("DROP TABLE arms").unwrap();
        assert!(counts.admit(&db, &heron, 3).unwrap());
        assert!(counts.admit(&db, &heron, 3).is_err(), "at the quota they are counted again");
    }
}
