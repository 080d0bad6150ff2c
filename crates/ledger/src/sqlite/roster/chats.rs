//! Chats that an agent may reach.

use posthouse_wire::{ChatId, InstanceId, SessionKey};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows::{bot_ref, route_to};
use crate::roster::{BotRef, Discriminator};

pub(super) fn move_chat(db: &Connection, on: &BotRef, from: &ChatId, to: &ChatId) -> rusqlite::Result<bool> {
    let moved = db.execute(
        "UPDATE OR IGNORE routes SET value = ?4 WHERE platform = ?1 AND bot = ?2 AND kind = 'chat' AND value = ?3",
        [on.platform.as_str(), on.bot.as_str(), from.as_str(), to.as_str()],
    )?;
    // A route for the new id stays as it is. The old id then has no route any more.
    let gone = db.execute(
        "DELETE FROM routes WHERE platform = ?1 AND bot = ?2 AND kind = 'chat' AND value = ?3",
        [on.platform.as_str(), on.bot.as_str(), from.as_str()],
    )?;
    let key = [on.platform.as_str(), on.bot.as_str(), from.as_str(), to.as_str()];
    for table in ["claims", "author_places"] {
        db.execute(
            &format!(
                "UPDATE OR IGNORE {table} SET value = ?4
                 WHERE platform = ?1 AND bot = ?2 AND kind IN ('chat', 'key') AND value = ?3"
            ),
            key,
        )?;
    }
    // One lookup per agent, because the index of chats begins with the agent.
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
    // The platform forwards messages for the old id to the new one, so a running turn can still be answered.
    // If a route says who owns the new id, the old id would bypass that route.
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
    on: &BotRef,
    chat: &ChatId,
) -> rusqlite::Result<bool> {
    let owner = owner_of(db, on, &Discriminator::Chat(chat.clone()))?;
    if owner.as_ref() == Some(from) {
        return Ok(true);
    }
    if owner_of(db, on, &Discriminator::Any)?.is_some_and(|owner| owner != *from) {
        return Ok(false);
    }
    // Without any route on this bot, a delivery by a removed route gives no access.
    if !uses_bot(db, from, on)? {
        return Ok(false);
    }
    let key = [from.as_str(), chat.as_str(), on.platform.as_str(), on.bot.as_str()];
    // Messages of a linked author were delivered here although the chat belongs to another agent.
    let by_author: bool = db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM author_places
               JOIN bindings ON bindings.platform = author_places.platform AND bindings.bot = author_places.bot
                 AND bindings.user = author_places.user AND bindings.instance = author_places.instance
               WHERE author_places.instance = ?1 AND author_places.platform = ?3 AND author_places.bot = ?4
                 AND kind = 'chat' AND value = ?2)",
        )?
        .query_row(key, |row| row.get(0))?;
    // A route may have changed since the delivery. The chat then belongs to the other agent.
    if owner.is_some() && !by_author {
        return Ok(false);
    }
    // A scope route to another agent that existed when the chat was delivered here had yielded to a more
    // specific one, such as that of the parent chat. A newer scope route has taken over the chat.
    let delivered = db
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM chats WHERE instance = ?1 AND chat = ?2 AND platform = ?3 AND bot = ?4
               AND (?5 OR NOT EXISTS (SELECT 1 FROM routes
                 WHERE platform = ?3 AND bot = ?4 AND kind = 'scope' AND value = chats.scope
                   AND instance <> ?1 AND made > chats.seen)))",
        )?
        .query_row(params![key[0], key[1], key[2], key[3], by_author], |row| row.get(0))?;
    if delivered || lies_in_own_scope(db, from, on, chat)? {
        return Ok(true);
    }
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM dm_chats
           JOIN bindings ON bindings.platform = dm_chats.platform AND bindings.bot = dm_chats.bot
             AND bindings.user = dm_chats.user
           WHERE dm_chats.platform = ?3 AND dm_chats.bot = ?4 AND chat = ?2 AND instance = ?1)",
    )?
    .query_row(key, |row| row.get(0))
}

/// Whether the chat lies in a scope that belongs to this agent, by the platform's own word.
fn lies_in_own_scope(
    db: &Connection,
    from: &InstanceId,
    on: &BotRef,
    chat: &ChatId,
) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM places
           JOIN routes ON routes.platform = places.platform AND routes.bot = places.bot
             AND kind = 'scope' AND value = scope
           WHERE places.platform = ?3 AND places.bot = ?4 AND chat = ?2 AND instance = ?1)",
    )?
    .query_row([from.as_str(), chat.as_str(), on.platform.as_str(), on.bot.as_str()], |row| row.get(0))
}

/// The agent to which this place is routed.
pub(in crate::sqlite) fn owner_of(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
) -> rusqlite::Result<Option<InstanceId>> {
    Ok(route_to(db, on, which)?.map(|owner| owner.instance))
}

/// Whether this agent uses this bot, by a route or as one of its agents.
pub(in crate::sqlite) fn uses_bot(db: &Connection, of: &InstanceId, on: &BotRef) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM fronts WHERE instance = ?1 AND platform = ?2 AND bot = ?3)
           OR EXISTS (SELECT 1 FROM routes INDEXED BY routes_instance
                      WHERE instance = ?1 AND platform = ?2 AND bot = ?3)",
    )?
    .query_row([of.as_str(), on.platform.as_str(), on.bot.as_str()], |row| row.get(0))
}

pub(super) fn knows_chat(
    db: &Connection,
    of: &InstanceId,
    on: &BotRef,
    chat: &ChatId,
) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM chats WHERE instance = ?1 AND chat = ?2 AND platform = ?3 AND bot = ?4)",
    )?
    .query_row([of.as_str(), chat.as_str(), on.platform.as_str(), on.bot.as_str()], |row| row.get(0))
}

pub(super) fn last_identity(
    db: &Connection,
    of: &InstanceId,
    chat: &ChatId,
) -> rusqlite::Result<Option<BotRef>> {
    db.prepare_cached(
        "SELECT platform, bot FROM chats WHERE instance = ?1 AND chat = ?2 ORDER BY seen DESC LIMIT 1",
    )?
    .query_row([of.as_str(), chat.as_str()], |row| bot_ref(row, 0))
    .optional()
}

pub(super) fn chat_of_session(
    db: &Connection,
    of: &InstanceId,
    key: &SessionKey,
) -> rusqlite::Result<Option<(BotRef, ChatId)>> {
    db.prepare_cached("SELECT platform, bot, chat FROM sessions WHERE instance = ?1 AND session_key = ?2")?
        .query_row([of.as_str(), key.as_str()], |row| {
            Ok((bot_ref(row, 0)?, ChatId::from(row.get::<_, String>(2)?)))
        })
        .optional()
}
