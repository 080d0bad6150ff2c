//! SQL of dead bots and replaced credentials.

use async_trait::async_trait;
use posthouse_time::Moment;
use rusqlite::{Connection, params};

use super::{Sqlite, vault};
use crate::dead_bots::{DeadBot, DeadBots};
use crate::{BotRef, Fault, Sealed};

#[async_trait]
impl DeadBots for Sqlite {
    async fn mark_dead(&self, dead: DeadBot) -> Result<bool, Fault> {
        self.write(move |db| {
            if !exists(db, &dead.bot)? {
                return Ok(false);
            }
            db.execute(
                "INSERT INTO dead_bots (platform, bot, since, why) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO NOTHING",
                params![dead.bot.platform.as_str(), dead.bot.bot.as_str(), dead.since.millis(), dead.why],
            )?;
            Ok(true)
        })
        .await
    }

    async fn mark_working(&self, bot: &BotRef) -> Result<(), Fault> {
        let bot = bot.clone();
        self.write(move |db| unmark(db, &bot)).await
    }

    async fn dead_bots(&self) -> Result<Vec<DeadBot>, Fault> {
        self.read(|db| {
            db.prepare_cached("SELECT platform, bot, since, why FROM dead_bots ORDER BY platform, bot")?
                .query_map([], |row| {
                    Ok(DeadBot {
                        bot: BotRef {
                            platform: row.get::<_, String>(0)?.into(),
                            bot: row.get::<_, String>(1)?.into(),
                        },
                        since: Moment::from_millis(row.get(2)?),
                        why: row.get(3)?,
                    })
                })?
                .collect()
        })
        .await
    }

    async fn replace_credentials(&self, bot: &BotRef, secrets: Vec<(String, Sealed)>) -> Result<bool, Fault> {
        let bot = bot.clone();
        self.write(move |db| {
            if !exists(db, &bot)? {
                return Ok(false);
            }
            for (name, sealed) in &secrets {
                vault::put_credential(db, &bot.platform, &bot.bot, name, sealed)?;
            }
            unmark(db, &bot)?;
            Ok(true)
        })
        .await
    }
}

fn exists(db: &Connection, bot: &BotRef) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT EXISTS (SELECT 1 FROM bots WHERE platform = ?1 AND id = ?2)",
        [bot.platform.as_str(), bot.bot.as_str()],
        |row| row.get(0),
    )
}

fn unmark(db: &Connection, bot: &BotRef) -> rusqlite::Result<()> {
    db.execute(
        "DELETE FROM dead_bots WHERE platform = ?1 AND bot = ?2",
        [bot.platform.as_str(), bot.bot.as_str()],
    )
    .map(drop)
}
