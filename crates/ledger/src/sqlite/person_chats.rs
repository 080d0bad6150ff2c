//! SQL of the chats of people with two ids.

use async_trait::async_trait;
use posthouse_wire::ChatId;
use rusqlite::{OptionalExtension, params};

use super::Sqlite;
use crate::person_chats::{KnownPerson, PersonChats, PersonIds};
use crate::{BotRef, Fault};

#[async_trait]
impl PersonChats for Sqlite {
    async fn chat_of_person(&self, on: &BotRef, person: &PersonIds) -> Result<KnownPerson, Fault> {
        let (on, person) = (on.clone(), person.clone());
        self.read(move |db| {
            let mut find = db.prepare_cached(
                "SELECT chat, lasting FROM person_chats WHERE id = ?1 AND bot = ?2 AND platform = ?3",
            )?;
            let mut find = |id: &str| {
                let row = find.query_row([id, on.bot.as_str(), on.platform.as_str()], |row| {
                    Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?))
                });
                row.optional()
            };
            if let Some(lasting) = &person.lasting
                && let Some((chat, _)) = find(lasting.as_str())?
            {
                return Ok(KnownPerson::InChat(chat.into()));
            }
            let Some(shown) = &person.shown else { return Ok(KnownPerson::Unknown) };
            Ok(match (find(shown.as_str())?, &person.lasting) {
                (None, _) => KnownPerson::Unknown,
                (Some((_, Some(before))), Some(now)) if before != now.as_str() => KnownPerson::TookOver,
                (Some((chat, _)), _) => KnownPerson::InChat(chat.into()),
            })
        })
        .await
    }

    async fn note_person(&self, on: &BotRef, person: &PersonIds, chat: &ChatId) -> Result<(), Fault> {
        let (on, person, chat) = (on.clone(), person.clone(), chat.clone());
        self.write(move |db| {
            let mut note = db.prepare_cached(
                "INSERT INTO person_chats (id, bot, platform, chat, lasting, counted)
                 SELECT ?1, id, platform, ?4, ?5, ledger_time() FROM bots WHERE id = ?2 AND platform = ?3
                 ON CONFLICT DO UPDATE SET chat = excluded.chat, lasting = coalesce(excluded.lasting, lasting),
                   counted = excluded.counted",
            )?;
            let lasting = person.lasting.as_ref().map(|id| id.as_str());
            for id in [&person.lasting, &person.shown].into_iter().flatten() {
                note.execute(params![
                    id.as_str(),
                    on.bot.as_str(),
                    on.platform.as_str(),
                    chat.as_str(),
                    lasting
                ])?;
            }
            Ok(())
        })
        .await
    }
}
