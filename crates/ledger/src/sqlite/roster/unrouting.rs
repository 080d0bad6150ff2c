//! Removal of routes: ends the waiting entries and the access to chats that they gave.

use posthouse_time::Moment;
use posthouse_wire::{ChatId, Event, InstanceId, Platform, ScopeId, Source, UserId};
use rusqlite::{Connection, Row, params};

use super::chats::uses_bot;
use super::rows::{bot_ref, removed, route_to};
use crate::roster::{BotRef, Discriminator, Removed};
use crate::sqlite::bindings::is_bound;

pub(in crate::sqlite) fn remove_route(
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
        let left = Coverage::of(db, on, &owner.instance)?;
        end_waiting(db, &UnroutedEntries::By(which), &left, now)?;
        forget_chats(db, which, &left)?;
    }
    Ok(removed(gone))
}

/// Ends the entries that wait for any agent of a bot that is about to be removed.
pub(super) fn end_all_waiting(db: &Connection, on: &BotRef, now: Moment) -> rusqlite::Result<()> {
    let owners: Vec<InstanceId> = db
        .prepare_cached(
            "SELECT instance FROM routes WHERE platform = ?1 AND bot = ?2
             UNION SELECT instance FROM fronts WHERE platform = ?1 AND bot = ?2",
        )?
        .query_map([on.platform.as_str(), on.bot.as_str()], |row| row.get::<_, String>(0).map(Into::into))?
        .collect::<rusqlite::Result<_>>()?;
    for owner in owners {
        end_waiting(db, &UnroutedEntries::By(&Discriminator::Any), &Coverage::none(on, &owner), now)?;
    }
    Ok(())
}

/// Ends the entries of an agent on this bot that no route covers. False when there were none.
pub(in crate::sqlite) fn end_unrouted(
    db: &Connection,
    on: &BotRef,
    instance: &InstanceId,
    now: Moment,
) -> rusqlite::Result<bool> {
    let left = Coverage::of(db, on, instance)?;
    end_waiting(db, &UnroutedEntries::By(&Discriminator::Any), &left, now).map(|ended| ended > 0)
}

/// Ends what an agent had because of an author whose link was removed: their waiting entries, and the chats that it
/// could reach because of them.
pub(in crate::sqlite) fn end_of_author(
    db: &Connection,
    instance: &InstanceId,
    platform: &Platform,
    user: &UserId,
    now: Moment,
) -> rusqlite::Result<()> {
    let bots: Vec<BotRef> = db
        .prepare_cached(
            "SELECT platform, bot FROM fronts WHERE instance = ?1 AND platform = ?2
             UNION SELECT platform, bot FROM routes WHERE instance = ?1 AND platform = ?2",
        )?
        .query_map([instance.as_str(), platform.as_str()], |row| bot_ref(row, 0))?
        .collect::<rusqlite::Result<_>>()?;
    for on in bots {
        let left = Coverage::of(db, &on, instance)?;
        end_waiting(db, &UnroutedEntries::Author(user), &left, now)?;
        let chats: Vec<(ChatId, Option<ScopeId>)> = db
            .prepare_cached(
                "SELECT value, scope FROM author_places
                 WHERE instance = ?1 AND platform = ?2 AND bot = ?3 AND user = ?4 AND kind = 'chat'
                 UNION SELECT chat, NULL FROM dm_chats WHERE platform = ?2 AND bot = ?3 AND user = ?4",
            )?
            .query_map(
                [instance.as_str(), platform.as_str(), on.bot.as_str(), user.as_str()],
                chat_and_scope,
            )?
            .collect::<rusqlite::Result<_>>()?;
        left.forget_uncovered(db, chats, Some(user))?;
    }
    Ok(())
}

/// What still leads to an agent on a bot.
struct Coverage<'a> {
    on: &'a BotRef,
    instance: &'a InstanceId,
    routes: Vec<Discriminator>,
    /// The agent uses the bot, so messages of its linked authors are for it.
    by_authors: bool,
}

impl<'a> Coverage<'a> {
    fn none(on: &'a BotRef, instance: &'a InstanceId) -> Self {
        Self { on, instance, routes: Vec::new(), by_authors: false }
    }

    fn of(db: &Connection, on: &'a BotRef, instance: &'a InstanceId) -> rusqlite::Result<Self> {
        let mut find = db.prepare_cached(
            "SELECT kind, value FROM routes INDEXED BY routes_instance
             WHERE instance = ?1 AND platform = ?2 AND bot = ?3",
        )?;
        let mut rows = find.query([instance.as_str(), on.platform.as_str(), on.bot.as_str()])?;
        let mut routes = Vec::new();
        while let Some(row) = rows.next()? {
            routes.extend(Discriminator::from_parts(&row.get::<_, String>(0)?, &row.get::<_, String>(1)?));
        }
        let by_authors = uses_bot(db, instance, on)?
            && db
                .prepare_cached(
                    "SELECT EXISTS (SELECT 1 FROM bindings WHERE instance = ?1 AND platform = ?2 AND bot = ?3)",
                )?
                .query_row([instance.as_str(), on.platform.as_str(), on.bot.as_str()], |row| row.get(0))?;
        Ok(Self { on, instance, routes, by_authors })
    }

    fn is_nothing(&self) -> bool {
        self.routes.is_empty() && !self.by_authors
    }

    fn covers(&self, db: &Connection, from: &Source) -> rusqlite::Result<bool> {
        if self.routes.iter().any(|route| came_by(from, route)) {
            return Ok(true);
        }
        match &from.user_id {
            Some(user) if self.by_authors => is_bound(db, self.instance, self.on, user),
            _ => Ok(false),
        }
    }

    /// Takes the chats from the agent that neither a route nor another linked author than `except` gives it.
    fn forget_uncovered(
        &self,
        db: &Connection,
        chats: Vec<(ChatId, Option<ScopeId>)>,
        except: Option<&UserId>,
    ) -> rusqlite::Result<()> {
        let bot = [self.on.platform.as_str(), self.on.bot.as_str()];
        for (chat, scope) in chats {
            let from = Source { chat_id: Some(chat.clone()), scope_id: scope, ..Source::default() };
            let by_author: bool = self.by_authors
                && db
                    .prepare_cached(
                        "SELECT EXISTS (SELECT 1 FROM bindings b WHERE b.instance = ?1 AND b.platform = ?2
                           AND b.bot = ?3 AND b.user IS NOT ?5
                           AND (EXISTS (SELECT 1 FROM author_places p WHERE p.instance = ?1 AND p.platform = ?2
                                  AND p.bot = ?3 AND kind = 'chat' AND value = ?4 AND p.user = b.user)
                             OR EXISTS (SELECT 1 FROM dm_chats d WHERE d.platform = ?2 AND d.bot = ?3
                                  AND d.chat = ?4 AND d.user = b.user)))",
                    )?
                    .query_row(
                        params![
                            self.instance.as_str(),
                            bot[0],
                            bot[1],
                            chat.as_str(),
                            except.map(UserId::as_str)
                        ],
                        |row| row.get(0),
                    )?;
            if !by_author && !self.routes.iter().any(|route| came_by(&from, route)) {
                db.execute(
                    "DELETE FROM chats WHERE instance = ?1 AND chat = ?4 AND platform = ?2 AND bot = ?3",
                    [self.instance.as_str(), bot[0], bot[1], chat.as_str()],
                )?;
            }
        }
        Ok(())
    }
}

/// The entries that end unless something else leads to their agent.
enum UnroutedEntries<'a> {
    /// Those that came by this route.
    By(&'a Discriminator),
    /// Those that this author wrote.
    Author(&'a UserId),
}

impl UnroutedEntries<'_> {
    fn concerns(&self, from: &Source) -> bool {
        match self {
            UnroutedEntries::By(which) => came_by(from, which),
            UnroutedEntries::Author(user) => from.user_id.as_ref() == Some(user),
        }
    }
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
    which: &UnroutedEntries<'_>,
    left: &Coverage<'_>,
    now: Moment,
) -> rusqlite::Result<usize> {
    let mut ended = 0;
    for whose in ["fate IS NULL", "fate = 'dead'"] {
        ended += end_those(db, which, left, now, whose)?;
    }
    Ok(ended)
}

fn end_those(
    db: &Connection,
    which: &UnroutedEntries<'_>,
    left: &Coverage<'_>,
    now: Moment,
    whose: &str,
) -> rusqlite::Result<usize> {
    let key = [left.instance.as_str(), left.on.platform.as_str(), left.on.bot.as_str()];
    if matches!(which, UnroutedEntries::By(Discriminator::Any)) && left.is_nothing() {
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
        if which.concerns(&event.source) && !left.covers(db, &event.source)? {
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
fn forget_chats(db: &Connection, which: &Discriminator, left: &Coverage<'_>) -> rusqlite::Result<()> {
    let column = match which {
        Discriminator::Chat(_) => "chat",
        Discriminator::Scope(_) => "scope",
        Discriminator::Any | Discriminator::Path(_) => return Ok(()),
    };
    let key = [left.instance.as_str(), left.on.platform.as_str(), left.on.bot.as_str(), which.value()];
    let chats: Vec<(ChatId, Option<ScopeId>)> = db
        .prepare_cached(&format!(
            "SELECT chat, scope FROM chats
             WHERE instance = ?1 AND platform = ?2 AND bot = ?3 AND {column} = ?4"
        ))?
        .query_map(key, chat_and_scope)?
        .collect::<rusqlite::Result<_>>()?;
    left.forget_uncovered(db, chats, None)
}

fn chat_and_scope(row: &Row<'_>) -> rusqlite::Result<(ChatId, Option<ScopeId>)> {
    Ok((row.get::<_, String>(0)?.into(), row.get::<_, Option<String>>(1)?.map(Into::into)))
}
