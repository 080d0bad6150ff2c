//! SQL of interactions: announced commands.

use async_trait::async_trait;
use posthouse_wire::InstanceId;
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use crate::interactions::{InteractionMode, Interactions, MANIFESTS_OF_AN_AGENT};
use crate::{BotRef, Fault};

#[async_trait]
impl Interactions for Sqlite {
    async fn set_interaction_mode(&self, of: &InstanceId, mode: InteractionMode) -> Result<(), Fault> {
        let of = of.clone();
        self.write(move |db| {
            db.execute("UPDATE instances SET interactions = ?2 WHERE id = ?1", [of.as_str(), mode.as_str()])
                .map(drop)
        })
        .await
    }

    async fn interaction_mode(&self, of: &InstanceId) -> Result<InteractionMode, Fault> {
        let of = of.clone();
        let stored: Option<String> = self
            .read(move |db| {
                db.prepare_cached("SELECT interactions FROM instances WHERE id = ?1")?
                    .query_row([of.as_str()], |row| row.get(0))
                    .optional()
            })
            .await?;
        Ok(stored.and_then(|text| text.parse().ok()).unwrap_or_default())
    }

    async fn keep_manifest(&self, of: &InstanceId, on: &BotRef, manifest: &str) -> Result<bool, Fault> {
        let (of, on, manifest) = (of.clone(), on.clone(), manifest.to_owned());
        let key = [of.to_string(), on.platform.to_string(), on.bot.to_string()];
        // An agent announces the same commands at every connect, so that nearly every call ends with this read.
        let stored: Option<String> = self
            .read(move |db| {
                db.prepare_cached(
                    "SELECT manifest FROM command_manifests WHERE instance = ?1 AND platform = ?2 AND bot = ?3",
                )?
                .query_row(key.each_ref(), |row| row.get(0))
                .optional()
            })
            .await?;
        if stored.as_ref() == Some(&manifest) {
            return Ok(false);
        }
        self.write_for(self.tenant_of(&of), move |db| {
            db.prepare_cached(
                "INSERT INTO command_manifests (instance, platform, bot, manifest, seen)
                 SELECT id, ?2, ?3, ?4, ledger_time() FROM instances
                 WHERE id = ?1 AND (SELECT count(*) FROM command_manifests
                                    WHERE instance = ?1 AND (platform, bot) <> (?2, ?3)) < ?5
                 ON CONFLICT DO UPDATE SET manifest = excluded.manifest, seen = excluded.seen",
            )?
            .execute(params![
                of.as_str(),
                on.platform.as_str(),
                on.bot.as_str(),
                manifest,
                MANIFESTS_OF_AN_AGENT
            ])
            .map(|rows| rows > 0)
        })
        .await
    }

    async fn manifests(&self, of: &InstanceId) -> Result<Vec<(BotRef, String)>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT platform, bot, manifest FROM command_manifests WHERE instance = ?1 ORDER BY platform, bot",
            )?
            .query_map([of.as_str()], |row| {
                let on = BotRef {
                    platform: row.get::<_, String>(0)?.into(),
                    bot: row.get::<_, String>(1)?.into(),
                };
                Ok((on, row.get(2)?))
            })?
            .collect()
        })
        .await
    }
}
