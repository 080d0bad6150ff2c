//! SQL of the skills of tenants.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, owner, skill_approval};
use crate::Fault;
use crate::skills::{
    DeletedSkill, ReplacedSkill, RestoredSkill, SKILLS_OF_A_TENANT, SkillBody, SkillHistoryLine, SkillRecord,
    SkillReplacement, SkillRevision, SkillSeq, SkillText, SkillWithBody, Skills, StoredSkill, is_full_page,
};

const COLUMNS: &str =
    "s.name, s.content_hash, s.status, s.author, s.created, s.updated, s.status_changed, s.summary,
     s.metadata, s.seq, s.id";

#[async_trait]
impl Skills for Sqlite {
    async fn replace_skill(
        &self,
        tenant: &TenantId,
        expected: Option<SkillSeq>,
        new: SkillReplacement,
    ) -> Result<ReplacedSkill, Fault> {
        let (of, now) = (tenant.clone(), self.timepiece.now());
        self.write_for(owner(tenant), move |db| replace(db, &of, expected, &new, now)).await
    }

    async fn skill(&self, tenant: &TenantId, name: &str) -> Result<Option<StoredSkill>, Fault> {
        let (of, name) = (tenant.clone(), name.to_owned());
        self.read(move |db| Ok(current(db, &of, &name)?.map(|(skill, _)| skill))).await
    }

    async fn skill_body(
        &self,
        tenant: &TenantId,
        name: &str,
        version: Option<&str>,
    ) -> Result<Option<SkillWithBody>, Fault> {
        let (of, name, version) = (tenant.clone(), name.to_owned(), version.map(str::to_owned));
        self.read(move |db| {
            // The range uses the index; `g` follows every hex digit.
            db.prepare_cached(&format!(
                "SELECT {COLUMNS}, b.content_hash, b.body FROM skills s LEFT JOIN skill_bodies b
                 ON b.tenant = s.tenant AND b.content_hash = CASE WHEN ?3 IS NULL THEN s.content_hash ELSE
                   (SELECT h.content_hash FROM skill_history h
                    WHERE h.tenant = s.tenant AND h.skill = s.id AND h.content_hash BETWEEN ?3 AND ?3 || 'g'
                      AND substr(h.content_hash, 1, 12) = ?3
                    ORDER BY h.seq DESC LIMIT 1) END
                 WHERE s.tenant = ?1 AND s.name = ?2 AND s.deleted IS NULL"
            ))?
            .query_row(params![of.as_str(), name, version], |row| {
                let text: Option<String> = row.get(12)?;
                let body = match text {
                    Some(text) => Some(SkillBody { content_hash: row.get(11)?, text }),
                    None => None,
                };
                Ok(SkillWithBody { skill: stored(row)?, body })
            })
            .optional()
        })
        .await
    }

    async fn skills(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SkillRecord>, Fault> {
        // No name is empty, so every name follows the empty one.
        let (of, after) = (tenant.clone(), after.unwrap_or_default().to_owned());
        self.read(move |db| {
            db.prepare_cached(&format!(
                "SELECT {COLUMNS} FROM skills s
                 WHERE s.tenant = ?1 AND s.deleted IS NULL AND s.name > ?2 ORDER BY s.name LIMIT ?3"
            ))?
            .query_map(params![of.as_str(), after, limit], record)
            .and_then(|rows| page(rows, SkillRecord::bytes))
        })
        .await
    }

    async fn skill_texts(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<SkillText>, Fault> {
        let (of, after) = (tenant.clone(), after.unwrap_or_default().to_owned());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT s.name, s.content_hash, b.body FROM skills s CROSS JOIN skill_bodies b
                 ON b.tenant = s.tenant AND b.content_hash = s.content_hash
                 WHERE s.tenant = ?1 AND s.deleted IS NULL AND s.name > ?2 ORDER BY s.name LIMIT ?3",
            )?
            .query_map(params![of.as_str(), after, limit], |row| {
                Ok(SkillText { name: row.get(0)?, content_hash: row.get(1)?, text: row.get(2)? })
            })
            .and_then(|rows| page(rows, |skill| skill.text.len()))
        })
        .await
    }

    async fn deleted_skills(
        &self,
        tenant: &TenantId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<DeletedSkill>, Fault> {
        let (of, after) = (tenant.clone(), after.unwrap_or_default().to_owned());
        self.read(move |db| {
            // The other columns are those of the row with the largest time: a documented rule of SQLite.
            db.prepare_cached(
                "SELECT s.name, s.content_hash, s.status, s.updated, max(s.deleted) FROM skills s
                 WHERE s.tenant = ?1 AND s.deleted IS NOT NULL AND s.name > ?2
                 GROUP BY s.name ORDER BY s.name LIMIT ?3",
            )?
            .query_map(params![of.as_str(), after, limit], |row| {
                Ok(DeletedSkill {
                    name: row.get(0)?,
                    content_hash: row.get(1)?,
                    status: row.get(2)?,
                    updated: Moment::from_millis(row.get(3)?),
                })
            })?
            .collect()
        })
        .await
    }

    async fn skill_history(
        &self,
        tenant: &TenantId,
        name: &str,
        after: SkillSeq,
        limit: u32,
    ) -> Result<Vec<SkillHistoryLine>, Fault> {
        let (of, name) = (tenant.clone(), name.to_owned());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT h.seq, h.content_hash, h.status, h.previous_status, h.changed, h.changed_by
                 FROM skills s JOIN skill_history h ON h.tenant = s.tenant AND h.skill = s.id
                 WHERE s.tenant = ?1 AND s.name = ?2 AND s.deleted IS NULL AND h.seq > ?3
                 ORDER BY h.seq LIMIT ?4",
            )?
            .query_map(params![of.as_str(), name, after.0, limit], history_line)?
            .collect()
        })
        .await
    }

    async fn delete_skill(&self, tenant: &TenantId, name: &str) -> Result<bool, Fault> {
        let (of, name, now) = (tenant.clone(), name.to_owned(), self.timepiece.now());
        self.write_for(owner(tenant), move |db| {
            let deleted = db
                .prepare_cached(
                    "UPDATE skills SET deleted = ledger_time()
                     WHERE tenant = ?1 AND name = ?2 AND deleted IS NULL",
                )?
                .execute([of.as_str(), &name])?;
            if deleted > 0 {
                move_revision(db, &of, now, -1)?;
            }
            Ok(deleted > 0)
        })
        .await
    }

    async fn restore_skill(&self, tenant: &TenantId, name: &str) -> Result<RestoredSkill, Fault> {
        let (of, name, now) = (tenant.clone(), name.to_owned(), self.timepiece.now());
        self.write_for(owner(tenant), move |db| restore(db, &of, &name, now)).await
    }

    async fn skill_revision(&self, tenant: &TenantId) -> Result<SkillRevision, Fault> {
        let of = tenant.clone();
        self.read(move |db| {
            let found = db
                .prepare_cached("SELECT revision, moved FROM skill_revisions WHERE tenant = ?1")?
                .query_row([of.as_str()], |row| {
                    Ok(SkillRevision { number: row.get(0)?, moved: Moment::from_millis(row.get(1)?) })
                })
                .optional()?;
            Ok(found.unwrap_or(SkillRevision { number: 0, moved: Moment::from_millis(0) }))
        })
        .await
    }
}

/// Reads rows until their texts fill a page.
fn page<T>(
    rows: impl Iterator<Item = rusqlite::Result<T>>,
    size: impl Fn(&T) -> usize,
) -> rusqlite::Result<Vec<T>> {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for row in rows {
        let row = row?;
        bytes += size(&row);
        page.push(row);
        if is_full_page(std::iter::once(bytes)) {
            break;
        }
    }
    Ok(page)
}

/// Deletes everything that belongs to the skills of a tenant.
pub(super) fn remove_all(db: &Connection, of: &TenantId) -> rusqlite::Result<()> {
    // The history comes last: for each of its lines, a trigger looks for a text and a skill to delete.
    for table in ["skills", "skill_bodies", "skill_history", "skill_revisions"] {
        db.execute(&format!("DELETE FROM {table} WHERE tenant = ?1"), [of.as_str()])?;
    }
    Ok(())
}

fn replace(
    db: &Connection,
    of: &TenantId,
    expected: Option<SkillSeq>,
    new: &SkillReplacement,
    now: Moment,
) -> rusqlite::Result<ReplacedSkill> {
    let current = current(db, of, &new.record.name)?;
    if current.as_ref().map(|(skill, _)| skill.seq) != expected {
        return Ok(ReplacedSkill::Changed);
    }
    let Some(counts) = counts(db, of)? else { return Ok(ReplacedSkill::NoTenant) };
    if current.is_none() && counts.skills >= i64::from(SKILLS_OF_A_TENANT) {
        return Ok(ReplacedSkill::TooMany);
    }
    let seq = counts.seq + 1;
    db.prepare_cached(
        "INSERT INTO skill_bodies (tenant, content_hash, body) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING",
    )?
    .execute(params![of.as_str(), new.record.content_hash, new.body])?;
    let skill = match &current {
        Some((_, id)) => update(db, *id, seq, &new.record)?,
        None => insert(db, of, seq, &new.record)?,
    };
    db.prepare_cached(
        "INSERT INTO skill_history (tenant, seq, skill, content_hash, status, previous_status, changed, changed_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        of.as_str(),
        seq,
        skill,
        new.record.content_hash,
        new.record.status,
        new.previous_status,
        new.changed.millis(),
        new.changed_by,
    ])?;
    db.prepare_cached("UPDATE skill_revisions SET seq = ?2 WHERE tenant = ?1")?
        .execute(params![of.as_str(), seq])?;
    let more = i64::from(current.is_none());
    if current.is_none_or(|(skill, _)| skill.record != new.record) {
        move_revision(db, of, now, more)?;
    }
    if let Some(row) = &new.audit {
        skill_approval::add_audit_row(db, of, row)?;
    }
    Ok(ReplacedSkill::Replaced(SkillSeq(seq)))
}

fn restore(db: &Connection, of: &TenantId, name: &str, now: Moment) -> rusqlite::Result<RestoredSkill> {
    let deleted: Option<i64> = db
        .prepare_cached(
            "SELECT id FROM skills WHERE tenant = ?1 AND name = ?2 AND deleted IS NOT NULL
             ORDER BY deleted DESC, id DESC LIMIT 1",
        )?
        .query_row([of.as_str(), name], |row| row.get(0))
        .optional()?;
    let (Some(id), Some(counts)) = (deleted, counts(db, of)?) else { return Ok(RestoredSkill::NotFound) };
    if current(db, of, name)?.is_some() {
        return Ok(RestoredSkill::NameTaken);
    }
    if counts.skills >= i64::from(SKILLS_OF_A_TENANT) {
        return Ok(RestoredSkill::TooMany);
    }
    db.prepare_cached("UPDATE skills SET deleted = NULL WHERE id = ?1")?.execute([id])?;
    move_revision(db, of, now, 1)?;
    Ok(RestoredSkill::Restored)
}

/// A skill that is not deleted, with the number of its row.
fn current(db: &Connection, of: &TenantId, name: &str) -> rusqlite::Result<Option<(StoredSkill, i64)>> {
    db.prepare_cached(&format!(
        "SELECT {COLUMNS} FROM skills s WHERE s.tenant = ?1 AND s.name = ?2 AND s.deleted IS NULL"
    ))?
    .query_row([of.as_str(), name], |row| Ok((stored(row)?, row.get(10)?)))
    .optional()
}

struct TenantCounts {
    seq: i64,
    skills: i64,
}

/// The counts of a tenant, which begin here. None if there is no such tenant.
fn counts(db: &Connection, of: &TenantId) -> rusqlite::Result<Option<TenantCounts>> {
    db.prepare_cached(
        "INSERT INTO skill_revisions (tenant, revision, moved, seq, skills)
         SELECT id, 0, 0, 0, 0 FROM tenants WHERE id = ?1 ON CONFLICT DO NOTHING",
    )?
    .execute([of.as_str()])?;
    db.prepare_cached("SELECT seq, skills FROM skill_revisions WHERE tenant = ?1")?
        .query_row([of.as_str()], |row| Ok(TenantCounts { seq: row.get(0)?, skills: row.get(1)? }))
        .optional()
}

fn move_revision(db: &Connection, of: &TenantId, now: Moment, more: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE skill_revisions SET revision = revision + 1, moved = ?2, skills = skills + ?3 WHERE tenant = ?1",
    )?
    .execute(params![of.as_str(), now.millis(), more])
    .map(drop)
}

fn insert(db: &Connection, of: &TenantId, seq: i64, new: &SkillRecord) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "INSERT INTO skills (tenant, name, seq, content_hash, status, author, created, updated, status_changed,
           summary, metadata)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .execute(params![
        of.as_str(),
        new.name,
        seq,
        new.content_hash,
        new.status,
        new.author,
        new.created.millis(),
        new.updated.millis(),
        new.status_changed.millis(),
        new.summary,
        new.metadata,
    ])?;
    Ok(db.last_insert_rowid())
}

fn update(db: &Connection, id: i64, seq: i64, new: &SkillRecord) -> rusqlite::Result<i64> {
    db.prepare_cached(
        "UPDATE skills SET seq = ?2, content_hash = ?3, status = ?4, author = ?5, created = ?6, updated = ?7,
           status_changed = ?8, summary = ?9, metadata = ?10
         WHERE id = ?1",
    )?
    .execute(params![
        id,
        seq,
        new.content_hash,
        new.status,
        new.author,
        new.created.millis(),
        new.updated.millis(),
        new.status_changed.millis(),
        new.summary,
        new.metadata,
    ])?;
    Ok(id)
}

fn stored(row: &Row<'_>) -> rusqlite::Result<StoredSkill> {
    Ok(StoredSkill { seq: SkillSeq(row.get(9)?), record: record(row)? })
}

fn record(row: &Row<'_>) -> rusqlite::Result<SkillRecord> {
    Ok(SkillRecord {
        name: row.get(0)?,
        content_hash: row.get(1)?,
        status: row.get(2)?,
        author: row.get(3)?,
        created: Moment::from_millis(row.get(4)?),
        updated: Moment::from_millis(row.get(5)?),
        status_changed: Moment::from_millis(row.get(6)?),
        summary: row.get(7)?,
        metadata: row.get(8)?,
    })
}

fn history_line(row: &Row<'_>) -> rusqlite::Result<SkillHistoryLine> {
    Ok(SkillHistoryLine {
        seq: SkillSeq(row.get(0)?),
        content_hash: row.get(1)?,
        status: row.get(2)?,
        previous_status: row.get(3)?,
        changed: Moment::from_millis(row.get(4)?),
        changed_by: row.get(5)?,
    })
}
