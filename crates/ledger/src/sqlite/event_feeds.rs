//! Event feeds of bots in SQLite: positions, keys of repeated events, announced commands.

use async_trait::async_trait;
use posthouse_wire::DedupKey;
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use crate::event_feeds::{AgentManifest, EventFeeds};
use crate::{BotRef, Fault};

#[async_trait]
impl EventFeeds for Sqlite {
    async fn feed_cursor(&self, of: &BotRef) -> Result<Option<String>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached("SELECT cursor FROM feed_cursors WHERE platform = ?1 AND bot = ?2")?
                .query_row([of.platform.as_str(), of.bot.as_str()], |row| row.get(0))
                .optional()
        })
        .await
    }

    async fn save_feed_cursor(&self, of: &BotRef, cursor: Option<&str>) -> Result<(), Fault> {
        let (of, cursor) = (of.clone(), cursor.map(str::to_owned));
        self.write(move |db| {
            let key = [of.platform.as_str(), of.bot.as_str()];
            let Some(cursor) = &cursor else {
                return db
                    .prepare_cached("DELETE FROM feed_cursors WHERE platform = ?1 AND bot = ?2")?
                    .execute(key)
                    .map(drop);
            };
            db.prepare_cached(
                "INSERT INTO feed_cursors (platform, bot, cursor)
                 SELECT platform, id, ?3 FROM bots WHERE platform = ?1 AND id = ?2
                 ON CONFLICT DO UPDATE SET cursor = excluded.cursor",
            )?
            .execute(params![key[0], key[1], cursor])
            .map(drop)
        })
        .await
    }

    async fn has_registered_commands(&self, on: &BotRef) -> Result<bool, Fault> {
        let on = on.clone();
        self.read(move |db| {
            db.prepare_cached("SELECT 1 FROM registered_commands WHERE platform = ?1 AND bot = ?2")?
                .exists([on.platform.as_str(), on.bot.as_str()])
        })
        .await
    }

    async fn note_registered_commands(&self, on: &BotRef, registered: bool) -> Result<(), Fault> {
        let on = on.clone();
        self.write(move |db| {
            let note = match registered {
                true => {
                    "INSERT OR IGNORE INTO registered_commands (platform, bot)
                     SELECT platform, id FROM bots WHERE platform = ?1 AND id = ?2"
                }
                false => "DELETE FROM registered_commands WHERE platform = ?1 AND bot = ?2",
            };
            db.prepare_cached(note)?.execute([on.platform.as_str(), on.bot.as_str()]).map(drop)
        })
        .await
    }

    async fn first_key(&self, on: &BotRef, key: &DedupKey, others: &[DedupKey]) -> Result<DedupKey, Fault> {
        let (on, key, others) = (on.clone(), key.clone(), others.to_vec());
        self.write(move |db| {
            let (platform, bot) = (on.platform.as_str(), on.bot.as_str());
            let mut find = db.prepare_cached(
                "SELECT dedup FROM event_aliases WHERE alias = ?1 AND bot = ?2 AND platform = ?3",
            )?;
            let mut first = None;
            for other in &others {
                first = find.query_row([other.as_str(), bot, platform], |row| row.get::<_, String>(0)).optional()?;
                if first.is_some() {
                    break;
                }
            }
            let first = first.map_or_else(|| key.clone(), DedupKey::from);
            let mut add = db.prepare_cached(
                "INSERT INTO event_aliases (alias, bot, platform, dedup, counted) VALUES (?1, ?2, ?3, ?4, ledger_time())
                 ON CONFLICT DO NOTHING",
            )?;
            for other in &others {
                add.execute(params![other.as_str(), bot, platform, first.as_str()])?;
            }
            Ok(first)
        })
        .await
    }

    async fn announced_commands(&self, on: &BotRef, at_most: u32) -> Result<Vec<AgentManifest>, Fault> {
        let on = on.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT instances.tenant, manifest
                 FROM command_manifests AS announced JOIN instances ON instances.id = announced.instance
                 WHERE announced.platform = ?1 AND announced.bot = ?2
                   AND (EXISTS (SELECT 1 FROM fronts
                                WHERE instance = announced.instance AND platform = ?1 AND bot = ?2)
                        OR EXISTS (SELECT 1 FROM routes INDEXED BY routes_instance
                                   WHERE instance = announced.instance AND platform = ?1 AND bot = ?2))
                 ORDER BY row_number() OVER (PARTITION BY instances.tenant ORDER BY announced.instance),
                          announced.instance
                 LIMIT ?3",
            )?
            .query_map(params![on.platform.as_str(), on.bot.as_str(), at_most], |row| {
                Ok(AgentManifest { tenant: row.get::<_, String>(0)?.into(), manifest: row.get(1)? })
            })?
            .collect()
        })
        .await
    }
}
