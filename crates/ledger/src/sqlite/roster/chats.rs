//! Which chats are within whose reach.

use posthouse_wire::{ChatId, InstanceId, SessionKey};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{identity, route_to};
use crate::roster::{Discriminator, Identity};

pub(super) fn move_chat(
    db: &Connection,
    on: &Identity,
    from: &ChatId,
    to: &ChatId,
) -> rusqlite::Result<bool> {
    if from == to {
        return Ok(false);
    }
    let moved = db.execute(
        "UPDATE OR IGNORE routes SET value = ?4 WHERE platform = ?1 AND bot = ?2 AND kind = 'chat' AND value = ?3",
        [on.platform.as_str(), on.bot.as_str(), from.as_str(), to.as_str()],
    )?;
    // Whoever already has the new id keeps it, and the old one leads nowhere any more.
    let gone = db.execute(
        "DELETE FROM routes WHERE platform = ?1 AND bot = ?2 AND kind = 'chat' AND value = ?3",
        [on.platform.as_str(), on.bot.as_str(), from.as_str()],
    )?;
    // One look-up per agent: chats are found by theirs.
    let owner = route_to(db, on, &Discriminator::Chat(to.clone()))?.map(|owner| owner.instance);
    db.execute(
        "INSERT INTO chats (instance, chat, platform, bot, scope, seen)
           SELECT instance, ?4, platform, bot, scope, seen FROM instances
             CROSS JOIN chats ON instance = instances.id AND chat = ?3 AND platform = ?1 AND bot = ?2
           WHERE ?5 IS NULL OR instance = ?5
         ON CONFLICT DO NOTHING",
        params![
            on.platform.as_str(),
            on.bot.as_str(),
            from.as_str(),
            to.as_str(),
            owner.as_ref().map(|id| id.as_str())
        ],
    )?;
    // The platform carries what is sent to the old id on to the new one. That lets a turn under way be
    // answered, and where a route says whose the chat is, it would be a way around that route.
    if owner.is_some() {
        db.execute(
            "DELETE FROM chats WHERE instance IN (SELECT id FROM instances)
               AND chat = ?3 AND platform = ?1 AND bot = ?2",
            [on.platform.as_str(), on.bot.as_str(), from.as_str()],
        )?;
    }
    Ok(moved + gone > 0)
}

pub(super) fn may_reach(
    db: &Connection,
    from: &InstanceId,
    on: &Identity,
    chat: &ChatId,
) -> rusqlite::Result<bool> {
    // What led here once may lead elsewhere by now, and then the chat is the other's.
    if let Some(owner) = route_to(db, on, &Discriminator::Chat(chat.clone()))? {
        return Ok(owner.instance == *from);
    }
    if route_to(db, on, &Discriminator::Any)?.is_some_and(|owner| owner.instance != *from) {
        return Ok(false);
    }
    // A scope's route that was there when the chat came here gave way to a more particular one,
    // such as its parent's; one made since has taken the chat along.
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM chats WHERE instance = ?1 AND chat = ?2 AND platform = ?3 AND bot = ?4
           AND NOT EXISTS (SELECT 1 FROM routes
             WHERE platform = ?3 AND bot = ?4 AND kind = 'scope' AND value = chats.scope
               AND instance <> ?1 AND created > chats.seen))",
    )?
    .query_row([from.as_str(), chat.as_str(), on.platform.as_str(), on.bot.as_str()], |row| row.get(0))
}

pub(super) fn last_identity(
    db: &Connection,
    of: &InstanceId,
    chat: &ChatId,
) -> rusqlite::Result<Option<Identity>> {
    db.prepare_cached(
        "SELECT platform, bot FROM chats WHERE instance = ?1 AND chat = ?2 ORDER BY seen DESC LIMIT 1",
    )?
    .query_row([of.as_str(), chat.as_str()], |row| identity(row, 0))
    .optional()
}

pub(super) fn chat_of_session(
    db: &Connection,
    of: &InstanceId,
    key: &SessionKey,
) -> rusqlite::Result<Option<(Identity, ChatId)>> {
    db.prepare_cached("SELECT platform, bot, chat FROM sessions WHERE instance = ?1 AND session_key = ?2")?
        .query_row([of.as_str(), key.as_str()], |row| {
            Ok((identity(row, 0)?, ChatId::from(row.get::<_, String>(2)?)))
        })
        .optional()
}
