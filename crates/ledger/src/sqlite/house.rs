use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use crate::{Fault, House};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Rows of each kind that one call of `prune` forgets at most, so that it never holds up a commit for long.
const A_LITTLE: u32 = 500;

#[async_trait]
impl House for Sqlite {
    async fn fact(&self, name: &'static str) -> Result<Option<String>, Fault> {
        self.read(move |db| {
            db.query_row("SELECT value FROM facts WHERE name = ?1", [name], |row| row.get(0)).optional()
        })
        .await
    }

    async fn set_fact(&self, name: &'static str, value: &str) -> Result<(), Fault> {
        let value = value.to_owned();
        self.write(move |db| {
            db.execute(
                "INSERT INTO facts (name, value) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET value = excluded.value",
                [name, &value],
            )
            .map(drop)
        })
        .await
    }

    async fn prune(&self) -> Result<bool, Fault> {
        let timepiece = self.timepiece.clone();
        self.write(move |db| {
            let now = timepiece.now();
            let mut more = false;
            for (forget, before) in [
                // Repeats are recognised for a day.
                (
                    "UPDATE entries SET dedup = NULL WHERE seq IN
                       (SELECT seq FROM entries WHERE dedup IS NOT NULL AND accepted < ?1 ORDER BY seq LIMIT ?2)",
                    now - DAY,
                ),
                // What nobody fetched in a week is dropped, and the row says so.
                (
                    "UPDATE entries SET fate = 'dropped', event = NULL, ended = durable WHERE seq IN
                       (SELECT seq FROM entries WHERE fate IS NULL AND accepted < ?1 ORDER BY seq LIMIT ?2)",
                    now - 7 * DAY,
                ),
                (
                    "DELETE FROM entries WHERE seq IN
                       (SELECT seq FROM entries WHERE accepted < ?1 AND fate IN ('acknowledged', 'dropped')
                        ORDER BY seq LIMIT ?2)",
                    now - 7 * DAY,
                ),
                (
                    "DELETE FROM entries WHERE seq IN
                       (SELECT seq FROM entries WHERE fate = 'dead' AND ended < ?1 LIMIT ?2)",
                    now - 30 * DAY,
                ),
                // A request id is remembered for ten minutes after it was finished; the row stays as a trace.
                (
                    "UPDATE actions SET request = NULL, outcome = NULL WHERE id IN
                       (SELECT id FROM actions WHERE request IS NOT NULL AND received < ?1 LIMIT ?2)",
                    now - Duration::from_secs(600),
                ),
                (
                    "DELETE FROM actions WHERE id IN (SELECT id FROM actions WHERE received < ?1 LIMIT ?2)",
                    now - 7 * DAY,
                ),
                (
                    "DELETE FROM capabilities WHERE id IN
                       (SELECT id FROM capabilities WHERE (expires < ?1 OR uses_left = 0) LIMIT ?2)",
                    now - HOUR,
                ),
                (
                    "DELETE FROM gateway_secrets WHERE id IN
                       (SELECT id FROM gateway_secrets WHERE expires < ?1 LIMIT ?2)",
                    now,
                ),
                (
                    "DELETE FROM chats WHERE (instance, chat, platform, bot) IN
                       (SELECT instance, chat, platform, bot FROM chats WHERE seen < ?1 LIMIT ?2)",
                    now - 90 * DAY,
                ),
                (
                    "DELETE FROM sessions WHERE (instance, session_key) IN
                       (SELECT instance, session_key FROM sessions WHERE seen < ?1 LIMIT ?2)",
                    now - 90 * DAY,
                ),
            ] {
                let gone = db.prepare_cached(forget)?.execute(params![before.millis(), A_LITTLE])?;
                more |= gone == A_LITTLE as usize;
            }
            Ok(more)
        })
        .await
    }

    async fn backup(&self, to: &Path) -> Result<(), Fault> {
        let to = to.to_owned();
        if to.exists() {
            return Err(Fault::Storage(format!("{}: there is a file of that name", to.display())));
        }
        let target =
            to.to_str().ok_or_else(|| Fault::Storage("the file's name is not UTF-8".to_owned()))?.to_owned();
        // A reader's snapshot: the writer goes on meanwhile.
        self.read(move |db| db.execute("VACUUM INTO ?1", [&target]).map(drop)).await
    }
}
