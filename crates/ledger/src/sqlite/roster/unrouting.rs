//! Removal of routes: ends the waiting entries and the access to chats that they gave.

use posthouse_time::Moment;
use posthouse_wire::{ChatId, Event, InstanceId, ScopeId, Source};
use rusqlite::{Connection, params};

use super::rows::{removed, route_to};
use crate::roster::{BotRef, Discriminator, Removed};

pub(super) fn remove_route(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
    now: Moment,
) -> rusqlite::Result<Removed> {
    let owner = route_to(db, on, which)?;
    let gone = db.execute(
        "DELETE FROM routes WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4",
        [on.platform.as_str(), on.bot.as_str(), which.kind(), which.value()],
    )?;
    if let Some(owner) = owner {
        let left = routes_left(db, on, &owner.instance)?;
        end_waiting(db, on, which, &owner.instance, &left, now)?;
        forget_chats(db, on, which, &owner.instance, &left)?;
    }
    Ok(removed(gone))
}

/// Ends the entries that wait for any agent of a bot that is about to be removed.
pub(super) fn end_all_waiting(db: &Connection, on: &BotRef, now: Moment) -> rusqlite::Result<()> {
    let owners: Vec<InstanceId> = db
        .prepare_cached("SELECT DISTINCT instance FROM routes WHERE platform = ?1 AND bot = ?2")?
        .query_map([on.platform.as_str(), on.bot.as_str()], |row| row.get::<_, String>(0).map(Into::into))?
        .collect::<rusqlite::Result<_>>()?;
    for owner in owners {
        end_waiting(db, on, &Discriminator::Any, &owner, &[], now)?;
    }
    Ok(())
}

/// Ends the entries of an agent on this bot that no route covers. False when there were none.
pub(super) fn end_unrouted(
    db: &Connection,
    on: &BotRef,
    instance: &InstanceId,
    now: Moment,
) -> rusqlite::Result<bool> {
    let left = routes_left(db, on, instance)?;
    end_waiting(db, on, &Discriminator::Any, instance, &left, now).map(|ended| ended > 0)
}

fn routes_left(db: &Connection, on: &BotRef, instance: &InstanceId) -> rusqlite::Result<Vec<Discriminator>> {
    let mut find = db.prepare_cached(
        "SELECT kind, value FROM routes INDEXED BY routes_instance
         WHERE instance = ?1 AND platform = ?2 AND bot = ?3",
    )?;
    let mut rows = find.query([instance.as_str(), on.platform.as_str(), on.bot.as_str()])?;
    let mut left = Vec::new();
    while let Some(row) = rows.next()? {
        left.extend(Discriminator::from_parts(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?));
    }
    Ok(left)
}

/// Whether an event from this source may have come by a route for `which`. The path of the webhook is not
/// stored, so a path route always may.
fn came_by(from: &Source, which: &Discriminator) -> bool {
    match which {
        Discriminator::Any | Discriminator::Path(_) => true,
        Discriminator::Chat(chat) => {
            from.chat_id.as_ref() == Some(chat) || from.parent_chat_id.as_ref() == Some(chat)
        }
        Discriminator::Scope(scope) => from.scope_id.as_ref() == Some(scope),
    }
}

/// The rows stay as traces. An entry that another route of the same agent covers keeps waiting. Dead letters
/// end too, because redriving one would deliver it without a route. Returns the number of ended entries.
fn end_waiting(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
    instance: &InstanceId,
    left: &[Discriminator],
    now: Moment,
) -> rusqlite::Result<usize> {
    let mut ended = 0;
    for whose in ["fate IS NULL", "fate = 'dead'"] {
        ended += end_those(db, on, which, instance, left, now, whose)?;
    }
    Ok(ended)
}

fn end_those(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
    instance: &InstanceId,
    left: &[Discriminator],
    now: Moment,
    whose: &str,
) -> rusqlite::Result<usize> {
    let key = [instance.as_str(), on.platform.as_str(), on.bot.as_str()];
    let everything = *which == Discriminator::Any && left.is_empty();
    if everything {
        return db.execute(
            &format!(
                "UPDATE entries SET fate = 'unrouted', event = NULL, refs = NULL, forward = NULL, ended = ?4,
                   counted = ledger_time()
                 WHERE instance = ?1 AND {whose} AND platform = ?2 AND bot = ?3"
            ),
            params![key[0], key[1], key[2], now.millis()],
        );
    }
    let mut find = db.prepare_cached(&format!(
        "SELECT seq, event FROM entries
         WHERE instance = ?1 AND {whose} AND platform = ?2 AND bot = ?3 ORDER BY seq"
    ))?;
    let mut ended: Vec<i64> = Vec::new();
    let mut rows = find.query(key)?;
    while let Some(row) = rows.next()? {
        let event: Option<Vec<u8>> = row.get(1)?;
        let event: Event = event.and_then(|event| serde_json::from_slice(&event).ok()).unwrap_or_default();
        let is_covered = left.iter().any(|other| came_by(&event.source, other));
        if came_by(&event.source, which) && !is_covered {
            ended.push(row.get(0)?);
        }
    }
    drop(rows);
    let mut end = db.prepare_cached(
        "UPDATE entries SET fate = 'unrouted', event = NULL, refs = NULL, forward = NULL, ended = ?2, counted = ledger_time()
         WHERE seq = ?1",
    )?;
    for seq in &ended {
        end.execute(params![seq, now.millis()])?;
    }
    Ok(ended.len())
}

/// On a shared bot, an agent that keeps another route must lose the chats that only the removed route gave
/// it. An owned bot has one route: without it nothing can be reached, and with it the chats come back.
fn forget_chats(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
    instance: &InstanceId,
    left: &[Discriminator],
) -> rusqlite::Result<()> {
    let column = match which {
        Discriminator::Chat(_) => "chat",
        Discriminator::Scope(_) => "scope",
        Discriminator::Any | Discriminator::Path(_) => return Ok(()),
    };
    let key = [instance.as_str(), on.platform.as_str(), on.bot.as_str(), which.value()];
    let chats: Vec<(ChatId, Option<ScopeId>)> = db
        .prepare_cached(&format!(
            "SELECT chat, scope FROM chats
             WHERE instance = ?1 AND platform = ?2 AND bot = ?3 AND {column} = ?4"
        ))?
        .query_map(key, |row| {
            Ok((row.get::<_, String>(0)?.into(), row.get::<_, Option<String>>(1)?.map(Into::into)))
        })?
        .collect::<rusqlite::Result<_>>()?;
    for (chat, scope) in chats {
        let from = Source { chat_id: Some(chat.clone()), scope_id: scope, ..Source::default() };
        if left.iter().any(|other| came_by(&from, other)) {
            continue;
        }
        db.execute(
            "DELETE FROM chats WHERE instance = ?1 AND chat = ?4 AND platform = ?2 AND bot = ?3",
            [key[0], key[1], key[2], chat.as_str()],
        )?;
    }
    Ok(())
}
