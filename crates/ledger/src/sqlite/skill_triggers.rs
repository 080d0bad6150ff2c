//! SQL of the triggers of skills.

use std::collections::{HashMap, HashSet};

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, owner};
use crate::Fault;
use crate::skill_triggers::{NewTrigger, SkillTriggers, TRIGGERS_OF_A_TENANT, TriggerRecord};

const COLUMNS: &str = "number, skill, source, name, params, declarative, enabled, registered, expires";

#[async_trait]
impl SkillTriggers for Sqlite {
    async fn triggers(&self, of: &TenantId) -> Result<(Vec<TriggerRecord>, Option<String>), Fault> {
        let of = of.clone();
        self.read(move |db| {
            let follows = db
                .prepare_cached("SELECT follows FROM skill_trigger_numbers WHERE tenant = ?1")?
                .query_row([of.as_str()], |row| row.get(0))
                .optional()?;
            Ok((all(db, &of)?, follows.flatten()))
        })
        .await
    }

    async fn trigger(&self, of: &TenantId, number: i64) -> Result<Option<TriggerRecord>, Fault> {
        let of = of.clone();
        self.read(move |db| find(db, &of, number)).await
    }

    async fn follow_skills(
        &self,
        of: &TenantId,
        declared: Vec<NewTrigger>,
        version: &str,
        now: Moment,
    ) -> Result<Vec<TriggerRecord>, Fault> {
        let (of, version) = (of.clone(), version.to_owned());
        self.write_for(owner(&of), move |db| {
            let known = all(db, &of)?;
            let wanted: HashSet<_> = declared.iter().map(identity).collect();
            let old = || known.iter().filter(|old| old.trigger.declarative);
            let mut count = known.len();
            for old in old().filter(|old| !wanted.contains(&identity(&old.trigger))) {
                delete(db, &of, old.number)?;
                count -= 1;
            }
            let by_identity: HashMap<_, _> = old().map(|old| (identity(&old.trigger), old)).collect();
            for new in &declared {
                match by_identity.get(&identity(new)) {
                    Some(old) if old.trigger.params == new.params => {}
                    Some(old) => {
                        db.execute(
                            "UPDATE skill_triggers SET params = ?3 WHERE tenant = ?1 AND number = ?2",
                            params![of.as_str(), old.number, params_text(new)],
                        )?;
                    }
                    None if count < TRIGGERS_OF_A_TENANT => {
                        insert(db, &of, new, now)?;
                        count += 1;
                    }
                    None => {}
                }
            }
            db.execute(
                "INSERT INTO skill_trigger_numbers (tenant, last, follows)
                 SELECT id, 0, ?2 FROM tenants WHERE id = ?1
                 ON CONFLICT DO UPDATE SET follows = excluded.follows",
                params![of.as_str(), version],
            )?;
            all(db, &of)
        })
        .await
    }

    async fn add_trigger(
        &self,
        of: &TenantId,
        new: NewTrigger,
        now: Moment,
    ) -> Result<Option<TriggerRecord>, Fault> {
        let of = of.clone();
        self.write_for(owner(&of), move |db| {
            if all(db, &of)?.len() >= TRIGGERS_OF_A_TENANT {
                return Ok(None);
            }
            let number = insert(db, &of, &new, now)?;
            find(db, &of, number)
        })
        .await
    }

    async fn remove_trigger(&self, of: &TenantId, number: i64) -> Result<bool, Fault> {
        let of = of.clone();
        self.write_for(owner(&of), move |db| Ok(delete(db, &of, number)? > 0)).await
    }

    async fn enable_trigger(
        &self,
        of: &TenantId,
        number: i64,
        enabled: bool,
    ) -> Result<Option<TriggerRecord>, Fault> {
        let of = of.clone();
        self.write_for(owner(&of), move |db| {
            db.execute(
                "UPDATE skill_triggers SET enabled = ?3 WHERE tenant = ?1 AND number = ?2",
                params![of.as_str(), number, enabled],
            )?;
            find(db, &of, number)
        })
        .await
    }

    async fn tenants_with_cron(&self) -> Result<Vec<TenantId>, Fault> {
        self.read(move |db| {
            db.prepare_cached(
                "SELECT DISTINCT tenant FROM skill_triggers WHERE source = 'cron' ORDER BY tenant",
            )?
            .query_map([], |row| Ok(row.get::<_, String>(0)?.into()))?
            .collect()
        })
        .await
    }
}

/// What makes a declarative trigger the same one after its skill has changed.
fn identity(trigger: &NewTrigger) -> (&str, &str, &str) {
    (&trigger.skill, &trigger.source, &trigger.name)
}

fn params_text(new: &NewTrigger) -> Option<String> {
    new.params.as_ref().and_then(|params| serde_json::to_string(params).ok())
}

fn insert(db: &Connection, of: &TenantId, new: &NewTrigger, now: Moment) -> rusqlite::Result<i64> {
    if new.source == "event" {
        // An event name has one skill: the one that was registered last.
        db.prepare_cached("DELETE FROM skill_triggers WHERE tenant = ?1 AND source = 'event' AND name = ?2")?
            .execute([of.as_str(), &new.name])?;
    }
    let number: i64 = db
        .prepare_cached(
            "INSERT INTO skill_trigger_numbers (tenant, last) SELECT id, 1 FROM tenants WHERE id = ?1
             ON CONFLICT DO UPDATE SET last = last + 1 RETURNING last",
        )?
        .query_row([of.as_str()], |row| row.get(0))?;
    db.prepare_cached(
        "INSERT INTO skill_triggers (tenant, number, skill, source, name, params, declarative, enabled, registered,
           expires)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 1, ?8, ?9)",
    )?
    .execute(params![
        of.as_str(),
        number,
        new.skill,
        new.source,
        new.name,
        params_text(new),
        new.declarative,
        now.millis(),
        new.expires.map(Moment::millis),
    ])?;
    Ok(number)
}

fn delete(db: &Connection, of: &TenantId, number: i64) -> rusqlite::Result<usize> {
    db.prepare_cached("DELETE FROM skill_triggers WHERE tenant = ?1 AND number = ?2")?
        .execute(params![of.as_str(), number])
}

fn find(db: &Connection, of: &TenantId, number: i64) -> rusqlite::Result<Option<TriggerRecord>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM skill_triggers WHERE tenant = ?1 AND number = ?2"))?
        .query_row(params![of.as_str(), number], record)
        .optional()
}

fn all(db: &Connection, of: &TenantId) -> rusqlite::Result<Vec<TriggerRecord>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM skill_triggers WHERE tenant = ?1 ORDER BY number"))?
        .query_map([of.as_str()], record)?
        .collect()
}

fn record(row: &Row<'_>) -> rusqlite::Result<TriggerRecord> {
    let params: Option<String> = row.get(4)?;
    Ok(TriggerRecord {
        number: row.get(0)?,
        trigger: NewTrigger {
            skill: row.get(1)?,
            source: row.get(2)?,
            name: row.get(3)?,
            params: params.and_then(|text| serde_json::from_str(&text).ok()),
            declarative: row.get(5)?,
            expires: row.get::<_, Option<i64>>(8)?.map(Moment::from_millis),
        },
        enabled: row.get(6)?,
        registered: Moment::from_millis(row.get(7)?),
    })
}
