//! SQL of prompts.

use async_trait::async_trait;
use posthouse_wire::{ChatId, MessageId, PromptOptionId};
use rusqlite::{OptionalExtension, Row, params};

use super::Sqlite;
use crate::prompts::{PROMPTS_OF_AN_AGENT, Prompts, ShownPrompt};
use crate::{BotRef, Fault};

const PROMPT: &str = "SELECT platform, bot, chat, message, prompt, instance, options, pressed FROM prompts
     WHERE platform = ?1 AND bot = ?2 AND chat = ?3";

#[async_trait]
impl Prompts for Sqlite {
    async fn show(&self, prompt: ShownPrompt) -> Result<(), Fault> {
        let options = serde_json::json!(prompt.options).to_string();
        self.write_for(self.tenant_of(&prompt.instance), move |db| {
            let ShownPrompt { on, chat, message, prompt, instance, .. } = &prompt;
            // The agent may have been removed meanwhile.
            db.prepare_cached(
                "INSERT INTO prompts (platform, bot, chat, message, prompt, instance, options, counted)
                 SELECT ?1, ?2, ?3, ?4, ?5, id, ?7, ledger_time() FROM instances WHERE id = ?6
                 ON CONFLICT DO NOTHING",
            )?
            .execute(params![
                on.platform.as_str(),
                on.bot.as_str(),
                chat.as_str(),
                message.as_str(),
                prompt.as_str(),
                instance.as_str(),
                options,
            ])?;
            db.prepare_cached(
                "DELETE FROM prompts WHERE (platform, bot, chat, message) IN
                   (SELECT platform, bot, chat, message FROM prompts WHERE instance = ?1
                    ORDER BY counted DESC LIMIT -1 OFFSET ?2)",
            )?
            .execute(params![instance.as_str(), PROMPTS_OF_AN_AGENT])
            .map(drop)
        })
        .await
    }

    async fn prompt(
        &self,
        on: &BotRef,
        chat: &ChatId,
        message: &MessageId,
    ) -> Result<Option<ShownPrompt>, Fault> {
        let (on, chat, message) = (on.clone(), chat.clone(), message.clone());
        self.read(move |db| {
            db.prepare_cached(&format!("{PROMPT} AND message = ?4"))?
                .query_row([on.platform.as_str(), on.bot.as_str(), chat.as_str(), message.as_str()], prompt)
                .optional()
        })
        .await
    }

    async fn prompts_in(&self, on: &BotRef, chat: &ChatId) -> Result<Vec<ShownPrompt>, Fault> {
        let (on, chat) = (on.clone(), chat.clone());
        self.read(move |db| {
            db.prepare_cached(PROMPT)?
                .query_map([on.platform.as_str(), on.bot.as_str(), chat.as_str()], prompt)?
                .collect()
        })
        .await
    }

    async fn press(&self, prompt: &ShownPrompt, option: &PromptOptionId) -> Result<bool, Fault> {
        let owner = self.tenant_of(&prompt.instance);
        let (on, chat, message) = (prompt.on.clone(), prompt.chat.clone(), prompt.message.clone());
        let option = option.clone();
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "UPDATE prompts SET pressed = ?5
                 WHERE platform = ?1 AND bot = ?2 AND chat = ?3 AND message = ?4 AND pressed IS NULL",
            )?
            .execute([
                on.platform.as_str(),
                on.bot.as_str(),
                chat.as_str(),
                message.as_str(),
                option.as_str(),
            ])
            .map(|rows| rows > 0)
        })
        .await
    }
}

fn prompt(row: &Row<'_>) -> rusqlite::Result<ShownPrompt> {
    Ok(ShownPrompt {
        on: BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(1)?.into() },
        chat: row.get::<_, String>(2)?.into(),
        message: row.get::<_, String>(3)?.into(),
        prompt: row.get::<_, String>(4)?.into(),
        instance: row.get::<_, String>(5)?.into(),
        // The server wrote the list itself. A prompt without options accepts no press.
        options: serde_json::from_str(&row.get::<_, String>(6)?).unwrap_or_default(),
        pressed: row.get::<_, Option<String>>(7)?.map(PromptOptionId::from),
    })
}
