//! SQL of the runs of skills.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{DispatchId, RunId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, owner};
use crate::Fault;
use crate::skill_runs::{
    BusyRuns, EndedRun, NewRun, QUEUED_RUNS, RUN_ATTEMPTS, RUNS_OF_A_TENANT, RunFilter, RunState, SkillRuns,
    StoredRun,
};
use crate::trace::TenantDispatch;

const COLUMNS: &str =
    "number, id, tenant, skill, version, source, trigger_name, trigger_id, caller, fired, inputs,
    repeatable, state, attempts, started, ended, error, cause";

/// The conditions of a [`RunFilter`], as [`filtered`] gives them.
const FILTER: &str =
    "tenant = ?1 AND number < ?2 AND (?3 IS NULL OR skill = ?3) AND (?4 IS NULL OR state = ?4)
    AND (?5 IS NULL OR fired >= ?5) AND (NOT ?6 OR trigger_id IS NOT NULL) AND (?7 IS NULL OR caller = ?7)";

#[async_trait]
impl SkillRuns for Sqlite {
    async fn begin_run(&self, run: NewRun) -> Result<(), Fault> {
        self.write_for(owner(&run.tenant), move |db| insert(db, &run, RunState::Running)).await
    }

    async fn queue_run(&self, run: NewRun) -> Result<bool, Fault> {
        self.write_for(owner(&run.tenant), move |db| {
            let queued: u32 = db
                .prepare_cached("SELECT count(*) FROM skill_runs WHERE tenant = ?1 AND state = 'queued'")?
                .query_row([run.tenant.as_str()], |row| row.get(0))?;
            if queued >= QUEUED_RUNS {
                return Ok(false);
            }
            insert(db, &run, RunState::Queued)?;
            Ok(true)
        })
        .await
    }

    async fn next_run(&self, after: &TenantId, busy: &BusyRuns) -> Result<Option<StoredRun>, Fault> {
        let (after, now) = (after.clone(), self.timepiece.now());
        let (tenants, skills) =
            (serde_json::json!(busy.tenants).to_string(), serde_json::json!(busy.skills).to_string());
        self.write(move |db| {
            let mut behind = db.prepare_cached(
                "SELECT tenant, number FROM skill_runs
                 WHERE state = 'queued' AND tenant > ?1 AND due <= ledger_time()
                   AND tenant NOT IN (SELECT value FROM json_each(?2))
                   AND NOT EXISTS (SELECT 1 FROM json_each(?3) WHERE value ->> 0 = tenant AND value ->> 1 = skill)
                 ORDER BY tenant, number LIMIT 1",
            )?;
            let mut find = |after: &str| {
                behind.query_row([after, &tenants, &skills], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            };
            let found: Option<(String, i64)> = match find(after.as_str())? {
                Some(found) => Some(found),
                None => find("")?,
            };
            let Some((tenant, number)) = found else { return Ok(None) };
            db.prepare_cached(
                "UPDATE skill_runs SET state = 'running', attempts = attempts + 1, started = ?3, counted = ledger_time()
                 WHERE tenant = ?1 AND number = ?2",
            )?
            .execute(params![tenant, number, now.millis()])?;
            db.prepare_cached(&format!("SELECT {COLUMNS} FROM skill_runs WHERE tenant = ?1 AND number = ?2"))?
                .query_row(params![tenant, number], stored)
                .optional()
        })
        .await
    }

    async fn note_effect(&self, tenant: &TenantId, run: &RunId) -> Result<(), Fault> {
        let (tenant, run) = (tenant.clone(), run.clone());
        self.write_for(owner(&tenant), move |db| {
            db.prepare_cached("UPDATE skill_runs SET repeatable = 0 WHERE tenant = ?1 AND id = ?2")?
                .execute([tenant.as_str(), run.as_str()])?;
            Ok(())
        })
        .await
    }

    async fn note_dispatch(
        &self,
        tenant: &TenantId,
        run: &RunId,
        dispatch: &DispatchId,
    ) -> Result<(), Fault> {
        let (tenant, run, dispatch) = (tenant.clone(), run.clone(), dispatch.clone());
        self.write_for(owner(&tenant), move |db| {
            db.prepare_cached(
                "INSERT INTO skill_run_dispatches (dispatch, run)
                 SELECT ?3, id FROM skill_runs WHERE tenant = ?1 AND id = ?2 ON CONFLICT DO NOTHING",
            )?
            .execute([tenant.as_str(), run.as_str(), dispatch.as_str()])?;
            Ok(())
        })
        .await
    }

    async fn end_run(&self, tenant: &TenantId, id: &RunId, end: EndedRun) -> Result<(), Fault> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write_for(owner(&tenant), move |db| {
            db.prepare_cached(
                "UPDATE skill_runs SET state = ?3, version = coalesce(?4, version), ended = ?5, error = ?6,
                       record = ?7, inputs = NULL, counted = ledger_time()
                     WHERE tenant = ?1 AND id = ?2 AND ended IS NULL",
            )?
            .execute(params![
                tenant.as_str(),
                id.as_str(),
                end.state.word(),
                end.version,
                end.ended.millis(),
                end.error,
                end.record,
            ])?;
            Ok(())
        })
        .await
    }

    async fn cancel_queued_run(&self, tenant: &TenantId, id: &RunId, now: Moment) -> Result<bool, Fault> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.write_for(owner(&tenant), move |db| {
            let cancelled = db.execute(
                "UPDATE skill_runs SET state = 'cancelled', ended = ?3, inputs = NULL, counted = ledger_time()
                 WHERE tenant = ?1 AND id = ?2 AND state = 'queued'",
                params![tenant.as_str(), id.as_str(), now.millis()],
            )?;
            Ok(cancelled > 0)
        })
        .await
    }

    async fn take_over_runs(&self, now: Moment) -> Result<(usize, usize), Fault> {
        self.write(move |db| {
            let again = db.execute(
                "UPDATE skill_runs SET state = 'queued', started = NULL, due = ledger_time()
                 WHERE state = 'running' AND repeatable AND attempts > 0 AND attempts < ?1",
                [RUN_ATTEMPTS],
            )?;
            let ended = db.execute(
                "UPDATE skill_runs SET state = 'interrupted', ended = ?1, inputs = NULL,
                   error = 'the server stopped during the run', counted = ledger_time()
                 WHERE state = 'running'",
                [now.millis()],
            )?;
            Ok((again, ended))
        })
        .await
    }

    async fn queued_runs(&self) -> Result<u64, Fault> {
        self.read(|db| {
            db.prepare_cached("SELECT count(*) FROM skill_runs WHERE state = 'queued'")?
                .query_row([], |row| row.get::<_, u32>(0))
                .map(u64::from)
        })
        .await
    }

    async fn run(&self, tenant: &TenantId, id: &RunId) -> Result<Option<StoredRun>, Fault> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS}, record FROM skill_runs WHERE tenant = ?1 AND id = ?2"
            ))?
            .query_row([tenant.as_str(), id.as_str()], with_record)
            .optional()
        })
        .await
    }

    async fn runs(
        &self,
        of: &TenantId,
        filter: RunFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<StoredRun>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            let rows =
                format!("SELECT {COLUMNS} FROM skill_runs WHERE {FILTER} ORDER BY number DESC LIMIT ?8");
            filtered(db, &rows, &of, &filter, before, limit, stored)
        })
        .await
    }

    async fn run_records(
        &self,
        of: &TenantId,
        filter: RunFilter,
        limit: u32,
    ) -> Result<Vec<StoredRun>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            let rows = format!(
                "SELECT {COLUMNS}, record FROM skill_runs WHERE {FILTER} AND ended IS NOT NULL
                 ORDER BY number DESC LIMIT ?8"
            );
            filtered(db, &rows, &of, &filter, None, limit, with_record)
        })
        .await
    }

    async fn runs_of_dispatch(&self, dispatch: &TenantDispatch) -> Result<Vec<StoredRun>, Fault> {
        let dispatch = dispatch.clone();
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM skill_runs
                 WHERE id IN (SELECT run FROM skill_run_dispatches WHERE dispatch = ?2) AND tenant = ?1 ORDER BY id"
            ))?
            .query_map([dispatch.tenant.as_str(), dispatch.id.as_str()], stored)?
            .collect()
        })
        .await
    }

    async fn runs_caused_by(&self, dispatch: &TenantDispatch, limit: u32) -> Result<Vec<StoredRun>, Fault> {
        let dispatch = dispatch.clone();
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM skill_runs WHERE tenant = ?1 AND cause = ?2 ORDER BY id LIMIT ?3"
            ))?
            .query_map(params![dispatch.tenant.as_str(), dispatch.id.as_str(), limit], stored)?
            .collect()
        })
        .await
    }

    async fn cause_of_run(&self, id: &RunId) -> Result<Option<TenantDispatch>, Fault> {
        let id = id.clone();
        self.read(move |db| {
            db.prepare_cached("SELECT tenant, cause FROM skill_runs WHERE id = ?1 AND cause IS NOT NULL")?
                .query_row([id.as_str()], tenant_dispatch)
                .optional()
        })
        .await
    }

    async fn dispatches_of_run(&self, id: &RunId) -> Result<Vec<TenantDispatch>, Fault> {
        let id = id.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT tenant, dispatch FROM skill_run_dispatches JOIN skill_runs ON skill_runs.id = run
                 WHERE run = ?1 ORDER BY dispatch",
            )?
            .query_map([id.as_str()], tenant_dispatch)?
            .collect()
        })
        .await
    }
}

fn tenant_dispatch(row: &Row<'_>) -> rusqlite::Result<TenantDispatch> {
    Ok(TenantDispatch { tenant: row.get::<_, String>(0)?.into(), id: row.get::<_, String>(1)?.into() })
}

/// The rows of a query over [`FILTER`], with the limit as its eighth parameter.
fn filtered(
    db: &Connection,
    rows: &str,
    of: &TenantId,
    filter: &RunFilter,
    before: Option<i64>,
    limit: u32,
    read: fn(&Row<'_>) -> rusqlite::Result<StoredRun>,
) -> rusqlite::Result<Vec<StoredRun>> {
    let given = params![
        of.as_str(),
        before.unwrap_or(i64::MAX),
        filter.skill,
        filter.state.map(RunState::word),
        filter.since.map(Moment::millis),
        filter.triggered,
        filter.caller,
        limit,
    ];
    db.prepare_cached(rows)?.query_map(given, read)?.collect()
}

/// Deletes everything that belongs to a tenant here.
pub(super) fn remove_all(db: &Connection, of: &TenantId) -> rusqlite::Result<()> {
    db.execute(
        "DELETE FROM skill_run_dispatches WHERE run IN (SELECT id FROM skill_runs WHERE tenant = ?1)",
        [of.as_str()],
    )?;
    for table in ["skill_runs", "skill_triggers", "skill_trigger_numbers"] {
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), [of.as_str()])?;
    }
    Ok(())
}

fn insert(db: &Connection, run: &NewRun, state: RunState) -> rusqlite::Result<()> {
    let last: i64 = db
        .prepare_cached("SELECT coalesce(max(number), 0) FROM skill_runs WHERE tenant = ?1")?
        .query_row([run.tenant.as_str()], |row| row.get(0))?;
    let started = (state == RunState::Running).then(|| run.fired.millis());
    db.prepare_cached(
        "INSERT INTO skill_runs (tenant, number, id, skill, version, source, trigger_name, trigger_id, caller,
           state, inputs, repeatable, fired, started, cause, due, counted)
         SELECT id, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ledger_time(), ledger_time()
         FROM tenants WHERE id = ?1
         ON CONFLICT (id) DO NOTHING",
    )?
    .execute(params![
        run.tenant.as_str(),
        last + 1,
        run.id.as_str(),
        run.skill,
        run.version,
        run.source,
        run.trigger_name,
        run.trigger_id,
        run.caller,
        state.word(),
        run.inputs,
        run.repeatable,
        run.fired.millis(),
        started,
        run.cause.as_ref().map(DispatchId::as_str),
    ])?;
    let oldest = last + 1 - RUNS_OF_A_TENANT;
    if oldest > 0 {
        db.prepare_cached(
            "DELETE FROM skill_run_dispatches WHERE run IN
               (SELECT id FROM skill_runs WHERE tenant = ?1 AND number <= ?2 AND ended IS NOT NULL)",
        )?
        .execute(params![run.tenant.as_str(), oldest])?;
        db.prepare_cached("DELETE FROM skill_runs WHERE tenant = ?1 AND number <= ?2 AND ended IS NOT NULL")?
            .execute(params![run.tenant.as_str(), oldest])?;
    }
    Ok(())
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredRun> {
    let state: String = row.get(12)?;
    Ok(StoredRun {
        number: row.get(0)?,
        run: NewRun {
            id: row.get::<_, String>(1)?.into(),
            tenant: row.get::<_, String>(2)?.into(),
            skill: row.get(3)?,
            version: row.get(4)?,
            source: row.get(5)?,
            trigger_name: row.get(6)?,
            trigger_id: row.get(7)?,
            caller: row.get(8)?,
            fired: Moment::from_millis(row.get(9)?),
            inputs: row.get(10)?,
            repeatable: row.get(11)?,
            cause: row.get::<_, Option<String>>(17)?.map(DispatchId::from),
        },
        state: RunState::named(&state).unwrap_or(RunState::Interrupted),
        attempts: row.get(13)?,
        started: row.get::<_, Option<i64>>(14)?.map(Moment::from_millis),
        ended: row.get::<_, Option<i64>>(15)?.map(Moment::from_millis),
        error: row.get(16)?,
        record: None,
    })
}

fn with_record(row: &Row<'_>) -> rusqlite::Result<StoredRun> {
    Ok(StoredRun { record: row.get(18)?, ..stored(row)? })
}
