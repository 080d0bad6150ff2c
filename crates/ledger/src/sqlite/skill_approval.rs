//! SQL of the settings, approval keys and audit log of skills.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, owner, vault};
use crate::Fault;
use crate::skill_approval::{
    APPROVAL_KEYS, AddedApprovalKey, ApprovalKeyRecord, SKILL_AUDIT_ROWS, SkillApproval, SkillAuditEvent,
    SkillAuditRow, SkillSettings, SkillSettingsChange, StoreKind,
};

#[async_trait]
impl SkillApproval for Sqlite {
    async fn skill_settings(&self, of: &TenantId) -> Result<(SkillSettings, Vec<ApprovalKeyRecord>), Fault> {
        let of = of.clone();
        self.read(move |db| {
            // Rows of earlier versions, and the defaults of the table, call the ledger `house`.
            let settings = db
                .prepare_cached(
                    "SELECT signed, agents_may_approve, iif(store = 'house', 'ledger', store),
                       iif(data_store = 'house', 'ledger', data_store)
                     FROM skill_settings WHERE tenant = ?1",
                )?
                .query_row([of.as_str()], |row| {
                    Ok(SkillSettings {
                        signed: row.get(0)?,
                        agents_may_approve: row.get(1)?,
                        store: row.get(2)?,
                        data_store: row.get(3)?,
                    })
                })
                .optional()?;
            let keys = db
                .prepare_cached(
                    "SELECT id, public, label, added, revoked FROM approval_keys WHERE tenant = ?1 ORDER BY id",
                )?
                .query_map([of.as_str()], key)?
                .collect::<rusqlite::Result<_>>()?;
            Ok((settings.unwrap_or_default(), keys))
        })
        .await
    }

    async fn change_skill_settings(&self, of: &TenantId, change: SkillSettingsChange) -> Result<bool, Fault> {
        let of = of.clone();
        self.write(move |db| {
            if !exists(db, &of)? {
                return Ok(false);
            }
            db.execute(
                "INSERT INTO skill_settings (tenant) VALUES (?1) ON CONFLICT DO NOTHING",
                [of.as_str()],
            )?;
            for (kind, column, store) in [
                (StoreKind::Skills, "store", &change.store),
                (StoreKind::Data, "data_store", &change.data_store),
            ] {
                forget_secrets_of_another_store(db, &of, kind, column, store.as_deref())?;
            }
            db.execute(
                "UPDATE skill_settings SET signed = coalesce(?2, signed),
                   agents_may_approve = coalesce(?3, agents_may_approve), store = coalesce(?4, store),
                   data_store = coalesce(?5, data_store)
                 WHERE tenant = ?1",
                params![
                    of.as_str(),
                    change.signed,
                    change.agents_may_approve,
                    change.store,
                    change.data_store
                ],
            )?;
            for (name, sealed) in &change.secrets {
                vault::put_tenant_secret(db, &of, name, sealed)?;
            }
            Ok(true)
        })
        .await
    }

    async fn add_approval_key(
        &self,
        of: &TenantId,
        id: &str,
        public: &[u8],
        label: Option<&str>,
    ) -> Result<AddedApprovalKey, Fault> {
        let (of, id, public) = (of.clone(), id.to_owned(), public.to_vec());
        let (label, now) = (label.map(str::to_owned), self.timepiece.now());
        self.write(move |db| {
            if !exists(db, &of)? {
                return Ok(AddedApprovalKey::NoTenant);
            }
            let known: Option<bool> = db
                .query_row(
                    "SELECT revoked IS NOT NULL FROM approval_keys WHERE tenant = ?1 AND id = ?2",
                    [of.as_str(), &id],
                    |row| row.get(0),
                )
                .optional()?;
            match known {
                Some(true) => return Ok(AddedApprovalKey::Revoked),
                Some(false) => return Ok(AddedApprovalKey::Known),
                None => {}
            }
            let keys: u32 =
                db.query_row("SELECT count(*) FROM approval_keys WHERE tenant = ?1", [of.as_str()], |row| {
                    row.get(0)
                })?;
            if keys >= APPROVAL_KEYS {
                return Ok(AddedApprovalKey::TooMany);
            }
            db.execute(
                "INSERT INTO approval_keys (tenant, id, public, label, added) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![of.as_str(), id, public, label, now.millis()],
            )?;
            Ok(AddedApprovalKey::Added)
        })
        .await
    }

    async fn revoke_approval_key(&self, of: &TenantId, id: &str) -> Result<bool, Fault> {
        let (of, id, now) = (of.clone(), id.to_owned(), self.timepiece.now());
        self.write(move |db| {
            let revoked = db.execute(
                "UPDATE approval_keys SET revoked = coalesce(revoked, ?3) WHERE tenant = ?1 AND id = ?2",
                params![of.as_str(), id, now.millis()],
            )?;
            Ok(revoked > 0)
        })
        .await
    }

    async fn record_skill_audit(&self, of: &TenantId, row: SkillAuditRow) -> Result<(), Fault> {
        let tenant = of.clone();
        self.write_for(owner(of), move |db| {
            if !exists(db, &tenant)? {
                return Ok(());
            }
            add_audit_row(db, &tenant, &row)
        })
        .await
    }

    async fn skill_audit(
        &self,
        of: &TenantId,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<(i64, SkillAuditRow)>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT seq, at, event, skill, version, caller, key, reason FROM skill_audit
                 WHERE tenant = ?1 AND seq < ?2 ORDER BY seq DESC LIMIT ?3",
            )?
            .query_map(params![of.as_str(), before.unwrap_or(i64::MAX), limit], audit_row)?
            .collect()
        })
        .await
    }
}

/// Adds a row to the audit log of a tenant, and deletes the oldest one if there are too many.
pub(super) fn add_audit_row(db: &Connection, of: &TenantId, row: &SkillAuditRow) -> rusqlite::Result<()> {
    let last: i64 = db
        .prepare_cached("SELECT coalesce(max(seq), 0) FROM skill_audit WHERE tenant = ?1")?
        .query_row([of.as_str()], |row| row.get(0))?;
    db.prepare_cached(
        "INSERT INTO skill_audit (tenant, seq, at, event, skill, version, caller, key, reason)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?
    .execute(params![
        of.as_str(),
        last + 1,
        row.at.millis(),
        row.event.word(),
        row.skill,
        row.version,
        row.caller,
        row.key,
        row.reason,
    ])?;
    db.prepare_cached("DELETE FROM skill_audit WHERE tenant = ?1 AND seq <= ?2")?
        .execute(params![of.as_str(), last + 1 - SKILL_AUDIT_ROWS])
        .map(drop)
}

/// Deletes everything that belongs to a tenant here.
pub(super) fn remove_all(db: &Connection, of: &TenantId) -> rusqlite::Result<()> {
    for table in ["skill_settings", "approval_keys", "skill_audit"] {
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), [of.as_str()])?;
    }
    Ok(())
}

/// A secret belongs to its endpoint, so another endpoint must never get it.
fn forget_secrets_of_another_store(
    db: &Connection,
    of: &TenantId,
    kind: StoreKind,
    column: &str,
    store: Option<&str>,
) -> rusqlite::Result<()> {
    let Some(store) = store else { return Ok(()) };
    let sql = format!(
        "DELETE FROM tenant_secrets WHERE tenant = ?1 AND name GLOB ?2
           AND EXISTS (SELECT 1 FROM skill_settings WHERE tenant = ?1 AND {column} <> ?3)"
    );
    db.execute(&sql, params![of.as_str(), kind.secret_name("*"), store]).map(drop)
}

fn exists(db: &Connection, tenant: &TenantId) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT EXISTS (SELECT 1 FROM tenants WHERE id = ?1)")?
        .query_row([tenant.as_str()], |row| row.get(0))
}

fn key(row: &Row<'_>) -> rusqlite::Result<ApprovalKeyRecord> {
    Ok(ApprovalKeyRecord {
        id: row.get(0)?,
        public: row.get(1)?,
        label: row.get(2)?,
        added: Moment::from_millis(row.get(3)?),
        revoked: row.get::<_, Option<i64>>(4)?.map(Moment::from_millis),
    })
}

fn audit_row(row: &Row<'_>) -> rusqlite::Result<(i64, SkillAuditRow)> {
    let word: String = row.get(2)?;
    let event = SkillAuditEvent::ALL.into_iter().find(|event| event.word() == word);
    let audit = SkillAuditRow {
        at: Moment::from_millis(row.get(1)?),
        event: event.unwrap_or(SkillAuditEvent::Refused),
        skill: row.get(3)?,
        version: row.get(4)?,
        caller: row.get(5)?,
        key: row.get(6)?,
        reason: row.get(7)?,
    };
    Ok((row.get(0)?, audit))
}
