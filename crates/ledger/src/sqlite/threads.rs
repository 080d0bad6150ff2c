//! SQL of the threads that agents have created.

use async_trait::async_trait;
use posthouse_wire::{ChatId, ThreadId};
use rusqlite::{OptionalExtension, Row, params};

use super::Sqlite;
use crate::threads::{MadeThread, THREADS_OF_AN_AGENT, Threads};
use crate::{BotRef, Fault};

const THREAD: &str = "SELECT platform, bot, chat, thread, instance, name, renamed FROM made_threads
     WHERE platform = ?1 AND bot = ?2 AND chat = ?3";

#[async_trait]
impl Threads for Sqlite {
    async fn made_thread(&self, thread: MadeThread) -> Result<(), Fault> {
        self.write_for(self.tenant_of(&thread.instance), move |db| {
            let MadeThread { on, chat, thread, instance, name, .. } = &thread;
            // The agent may have been removed meanwhile. Another agent's thread is not taken over.
            db.prepare_cached(
                "INSERT INTO made_threads (platform, bot, chat, thread, instance, name, counted)
                 SELECT ?1, ?2, ?3, ?4, id, ?6, ledger_time() FROM instances WHERE id = ?5
                 ON CONFLICT DO UPDATE SET name = excluded.name, renamed = 0, counted = excluded.counted
                   WHERE instance = excluded.instance",
            )?
            .execute([
                on.platform.as_str(),
                on.bot.as_str(),
                chat.as_str(),
                thread.as_str(),
                instance.as_str(),
                name,
            ])?;
            db.prepare_cached(
                "DELETE FROM made_threads WHERE (platform, bot, chat, thread) IN
                   (SELECT platform, bot, chat, thread FROM made_threads WHERE instance = ?1
                    ORDER BY counted DESC LIMIT -1 OFFSET ?2)",
            )?
            .execute(params![instance.as_str(), THREADS_OF_AN_AGENT])
            .map(drop)
        })
        .await
    }

    async fn thread(
        &self,
        on: &BotRef,
        chat: &ChatId,
        thread: &ThreadId,
    ) -> Result<Option<MadeThread>, Fault> {
        let (on, chat, thread) = (on.clone(), chat.clone(), thread.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{THREAD} AND thread = ?4"))?
                .query_row([on.platform.as_str(), on.bot.as_str(), chat.as_str(), thread.as_str()], made)
                .optional()
        })
        .await
    }

    async fn threads_in(&self, on: &BotRef, chat: &ChatId) -> Result<Vec<MadeThread>, Fault> {
        let (on, chat) = (on.clone(), chat.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{THREAD} ORDER BY name, thread"))?
                .query_map([on.platform.as_str(), on.bot.as_str(), chat.as_str()], made)?
                .collect()
        })
        .await
    }

    async fn thread_named(&self, made: &MadeThread, name: &str) -> Result<(), Fault> {
        let owner = self.tenant_of(&made.instance);
        let (on, chat, thread) = (made.on.clone(), made.chat.clone(), made.thread.clone());
        let name = name.to_owned();
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "UPDATE made_threads SET renamed = 1
                 WHERE platform = ?1 AND bot = ?2 AND chat = ?3 AND thread = ?4 AND name <> ?5",
            )?
            .execute([on.platform.as_str(), on.bot.as_str(), chat.as_str(), thread.as_str(), name.as_str()])
            .map(drop)
        })
        .await
    }
}

fn made(row: &Row<'_>) -> rusqlite::Result<MadeThread> {
    Ok(MadeThread {
        on: BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(1)?.into() },
        chat: row.get::<_, String>(2)?.into(),
        thread: row.get::<_, String>(3)?.into(),
        instance: row.get::<_, String>(4)?.into(),
        name: row.get(5)?,
        renamed: row.get(6)?,
    })
}
