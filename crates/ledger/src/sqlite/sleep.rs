//! SQL of stop URLs and sleep tokens.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::InstanceId;
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use crate::sleep::{SLEEP_TOKENS, SleepAsker, SleepRecords};
use crate::{Fault, TokenHash};

#[async_trait]
impl SleepRecords for Sqlite {
    async fn set_stop_url(&self, of: &InstanceId, url: Option<&str>) -> Result<(), Fault> {
        let (of, url) = (of.clone(), url.map(str::to_owned));
        self.write(move |db| {
            if url.is_none() {
                db.execute("DELETE FROM sleep_tokens WHERE instance = ?1", [of.as_str()])?;
            }
            db.execute("UPDATE instances SET stop_url = ?2 WHERE id = ?1", params![of.as_str(), url])
                .map(drop)
        })
        .await
    }

    async fn stop_url(&self, of: &InstanceId) -> Result<Option<String>, Fault> {
        let of = of.clone();
        self.read(move |db| {
            let found = db
                .prepare_cached("SELECT stop_url FROM instances WHERE id = ?1")?
                .query_row([of.as_str()], |row| row.get(0))
                .optional()?;
            Ok(found.flatten())
        })
        .await
    }

    async fn add_sleep_token(
        &self,
        of: &InstanceId,
        token: TokenHash,
        overlap_until: Moment,
    ) -> Result<bool, Fault> {
        let of = of.clone();
        self.write(move |db| {
            db.execute(
                "UPDATE sleep_tokens SET expires = ?2, ends = ledger_time_at(?2)
                 WHERE instance = ?1 AND expires IS NULL",
                params![of.as_str(), overlap_until.millis()],
            )?;
            let added = db.execute(
                "INSERT INTO sleep_tokens (hash, instance, made) SELECT ?2, id, ledger_time() FROM instances
                 WHERE id = ?1 AND stop_url IS NOT NULL",
                params![of.as_str(), token.0],
            )?;
            db.execute(
                "DELETE FROM sleep_tokens WHERE instance = ?1 AND hash NOT IN
                   (SELECT hash FROM sleep_tokens WHERE instance = ?1
                    ORDER BY expires IS NULL DESC, made DESC, hash LIMIT ?2)",
                params![of.as_str(), SLEEP_TOKENS],
            )?;
            Ok(added > 0)
        })
        .await
    }

    async fn sleep_asker(&self, token: TokenHash) -> Result<Option<SleepAsker>, Fault> {
        let now = self.timepiece.now();
        self.read(move |db| {
            db.prepare_cached(
                "SELECT instances.id, instances.tenant, instances.stop_url FROM sleep_tokens
                 JOIN instances ON instances.id = sleep_tokens.instance
                 WHERE sleep_tokens.hash = ?1 AND instances.stop_url IS NOT NULL
                   AND (sleep_tokens.expires IS NULL
                        OR sleep_tokens.expires > ?2 AND sleep_tokens.ends > ledger_time())
                   AND EXISTS (SELECT 1 FROM gateways
                               WHERE gateways.instance = instances.id AND gateways.revoked IS NULL)",
            )?
            .query_row(params![token.0, now.millis()], |row| {
                Ok(SleepAsker {
                    instance: row.get::<_, String>(0)?.into(),
                    tenant: row.get::<_, String>(1)?.into(),
                    stop_url: row.get(2)?,
                })
            })
            .optional()
        })
        .await
    }
}
