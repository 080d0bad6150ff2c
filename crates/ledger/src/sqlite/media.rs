//! SQL of media: rows of files, their keys, and the list of files to delete.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, MediaFile, MediaId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::usage::count_media;
use super::{Sqlite, owner};
use crate::Fault;
use crate::media::{KEYS_OF_A_FILE, MediaKey, MediaRecord, MediaRecords};

#[async_trait]
impl MediaRecords for Sqlite {
    async fn keep_media(&self, media: MediaRecord, until: Moment) -> Result<bool, Fault> {
        self.write_for(owner(&media.tenant), move |db| {
            // Not REPLACE: it would delete the earlier row without the trigger that lists its file.
            remove(db, &media.id)?;
            let kept = db
                .prepare_cached(
                    "INSERT INTO media (id, file, tenant, instance, mime, filename, size, ends)
                     SELECT ?1, ?2, tenant, id, ?5, ?6, ?7, ledger_time_at(?8) FROM instances
                     WHERE id = ?4 AND tenant = ?3",
                )?
                .execute(params![
                    media.id.as_str(),
                    media.file.as_str(),
                    media.tenant.as_str(),
                    media.instance.as_str(),
                    media.mime,
                    media.filename,
                    media.size,
                    until.millis(),
                ])?;
            if kept > 0 {
                count_media(db, media.tenant.as_str(), media.instance.as_str(), media.size)?;
            }
            Ok(kept > 0)
        })
        .await
    }

    async fn shares_media(&self, tenant: &TenantId, agent: &InstanceId) -> Result<bool, Fault> {
        let (tenant, agent) = (tenant.clone(), agent.clone());
        self.read(move |db| {
            db.prepare_cached("SELECT 1 FROM instances WHERE tenant = ?1 AND id <> ?2 LIMIT 1")?
                .exists([tenant.as_str(), agent.as_str()])
        })
        .await
    }

    async fn media(&self, id: &MediaId) -> Result<Option<MediaRecord>, Fault> {
        let id = id.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT id, file, tenant, instance, mime, filename, size FROM media
                 WHERE id = ?1 AND ends > ledger_time()",
            )?
            .query_row([id.as_str()], record)
            .optional()
        })
        .await
    }

    async fn media_of_key(&self, key: &MediaKey) -> Result<Option<MediaRecord>, Fault> {
        let (key, now) = (key.clone(), self.timepiece.now());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT id, file, tenant, instance, mime, filename, size FROM media
                 WHERE id = ?1 AND ends > ledger_time() AND EXISTS
                   (SELECT 1 FROM media_keys WHERE media = ?1 AND hash = ?2 AND expires > ?3
                      AND media_keys.ends > ledger_time())",
            )?
            .query_row(params![key.media.as_str(), key.hash, now.millis()], record)
            .optional()
        })
        .await
    }

    async fn add_media_keys(&self, of: &InstanceId, keys: Vec<MediaKey>, until: Moment) -> Result<(), Fault> {
        let of = of.clone();
        self.write_for(self.tenant_of(&of), move |db| {
            for MediaKey { media, hash } in &keys {
                let extended = db
                    .prepare_cached(
                        "UPDATE media SET ends = max(ends, ledger_time_at(?2)) WHERE id = ?1 AND instance = ?3",
                    )?
                    .execute(params![media.as_str(), until.millis(), of.as_str()])?;
                if extended == 0 {
                    continue;
                }
                db.prepare_cached(
                    "INSERT INTO media_keys (media, hash, expires, ends)
                     VALUES (?1, ?2, ?3, ledger_time_at(?3))",
                )?
                .execute(params![media.as_str(), hash, until.millis()])?;
                db.prepare_cached(
                    "DELETE FROM media_keys WHERE media = ?1 AND seq NOT IN
                       (SELECT seq FROM media_keys WHERE media = ?1 ORDER BY seq DESC LIMIT ?2)",
                )?
                .execute(params![media.as_str(), KEYS_OF_A_FILE])?;
            }
            Ok(())
        })
        .await
    }

    async fn remove_media(&self, of: &InstanceId, id: &MediaId) -> Result<(), Fault> {
        let (of, id) = (of.clone(), id.clone());
        self.write_for(self.tenant_of(&of), move |db| {
            db.prepare_cached("DELETE FROM media WHERE id = ?1 AND instance = ?2")?
                .execute([id.as_str(), of.as_str()])
                .map(drop)
        })
        .await
    }

    async fn files_to_delete(&self, at_most: u32) -> Result<Vec<MediaFile>, Fault> {
        self.read(move |db| {
            db.prepare_cached("SELECT file FROM files_to_delete LIMIT ?1")?
                .query_map([at_most], |row| row.get::<_, String>(0).map(MediaFile::from))?
                .collect()
        })
        .await
    }

    async fn files_deleted(&self, files: Vec<MediaFile>) -> Result<(), Fault> {
        self.write(move |db| {
            let mut forget = db.prepare_cached("DELETE FROM files_to_delete WHERE file = ?1")?;
            for file in &files {
                forget.execute([file.as_str()])?;
            }
            Ok(())
        })
        .await
    }

    async fn files_without_row(&self, files: Vec<MediaFile>) -> Result<Vec<MediaFile>, Fault> {
        self.read(move |db| {
            let mut known = db.prepare_cached("SELECT 1 FROM media WHERE file = ?1")?;
            let mut without = Vec::new();
            for file in &files {
                if !known.exists([file.as_str()])? {
                    without.push(file.clone());
                }
            }
            Ok(without)
        })
        .await
    }
}

fn remove(db: &Connection, id: &MediaId) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM media WHERE id = ?1")?.execute([id.as_str()]).map(drop)
}

fn record(row: &Row<'_>) -> rusqlite::Result<MediaRecord> {
    Ok(MediaRecord {
        id: row.get::<_, String>(0)?.into(),
        file: row.get::<_, String>(1)?.into(),
        tenant: row.get::<_, String>(2)?.into(),
        instance: row.get::<_, String>(3)?.into(),
        mime: row.get(4)?,
        filename: row.get(5)?,
        size: row.get(6)?,
    })
}
