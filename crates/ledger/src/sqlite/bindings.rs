//! SQL of bindings, of link codes, and of where linked authors were seen.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, InstanceId, Platform, ScopeId, UserId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, claims, roster};
use crate::bindings::{
    AGENTS_OF_AN_AUTHOR, AUTHORS_OF_AN_AGENT, AuthorSighting, Binding, BindingPosition, Bindings, BoundAgent,
    ChangedPlace, LINK_CODES_OF_AN_AGENT, LinkingAuthor,
};
use crate::{BotRef, Discriminator, Fault, RouteTo, TokenHash};

/// Places of one agent's authors that are remembered. The oldest are forgotten.
const PLACES_OF_AN_AGENT: u32 = 4096;
/// Chats of one scope that are remembered. Further ones are not.
const CHATS_OF_A_SCOPE: u32 = 10_000;

#[async_trait]
impl Bindings for Sqlite {
    async fn mint_link_code(
        &self,
        of: &InstanceId,
        code: TokenHash,
        platform: Option<&Platform>,
        expires: Moment,
    ) -> Result<bool, Fault> {
        let owner = self.tenant_of(of);
        let (of, platform) = (of.clone(), platform.cloned());
        self.write_for(owner, move |db| {
            let minted = db.execute(
                "INSERT INTO link_codes (hash, instance, platform, expires, ends)
                 SELECT ?1, id, ?3, ?4, ledger_time_at(?4) FROM instances WHERE id = ?2",
                params![code.0, of.as_str(), platform.as_ref().map(Platform::as_str), expires.millis()],
            )?;
            db.execute(
                "DELETE FROM link_codes WHERE hash IN
                   (SELECT hash FROM link_codes WHERE instance = ?1 ORDER BY ends DESC, hash = ?3 DESC LIMIT -1 OFFSET ?2)",
                params![of.as_str(), LINK_CODES_OF_AN_AGENT, code.0],
            )?;
            Ok(minted > 0)
        })
        .await
    }

    async fn redeem_link_code(&self, code: TokenHash, by: LinkingAuthor) -> Result<Option<RouteTo>, Fault> {
        let now = self.timepiece.now();
        self.write(move |db| redeem(db, code, &by, now)).await
    }

    async fn revoke_link_code(&self, code: TokenHash) -> Result<(), Fault> {
        self.write(move |db| db.execute("DELETE FROM link_codes WHERE hash = ?1", [code.0]).map(drop)).await
    }

    async fn agents_of_author(&self, on: &BotRef, user: &UserId) -> Result<Vec<BoundAgent>, Fault> {
        let (on, user) = (on.clone(), user.clone());
        self.read(move |db| agents_of_author(db, &on, &user)).await
    }

    async fn linked_authors_near(
        &self,
        of: &InstanceId,
        on: &BotRef,
        chat: &ChatId,
        at_most: u32,
    ) -> Result<Vec<UserId>, Fault> {
        let (of, on, chat) = (of.clone(), on.clone(), chat.clone());
        self.read(move |db| {
            db.prepare_cached(
                "SELECT user FROM bindings b WHERE instance = ?1 AND platform = ?2 AND bot = ?3
                 ORDER BY EXISTS (SELECT 1 FROM author_places p WHERE p.instance = ?1 AND p.platform = ?2
                            AND p.bot = ?3 AND kind = 'chat' AND value = ?4 AND p.user = b.user) DESC, made DESC
                 LIMIT ?5",
            )?
            .query_map(
                params![of.as_str(), on.platform.as_str(), on.bot.as_str(), chat.as_str(), at_most],
                |row| row.get::<_, String>(0).map(UserId::from),
            )?
            .collect()
        })
        .await
    }

    async fn bindings(
        &self,
        of: Option<&InstanceId>,
        after: Option<BindingPosition>,
        at_most: u32,
    ) -> Result<Vec<Binding>, Fault> {
        let of = of.cloned();
        self.read(move |db| {
            let after = after.as_ref();
            let whose = if of.is_some() { "instance = ?1" } else { "?1 IS NULL" };
            db.prepare_cached(&format!(
                "SELECT platform, user, instance, tenant, bot, linked, dm_default FROM bindings
                 WHERE {whose} AND (?2 IS NULL OR (platform, bot, user, instance) > (?2, ?3, ?4, ?5))
                 ORDER BY platform, bot, user, instance LIMIT ?6"
            ))?
            .query_map(
                params![
                    of.as_ref().map(InstanceId::as_str),
                    after.map(|after| after.on.platform.as_str()),
                    after.map(|after| after.on.bot.as_str()),
                    after.map(|after| after.user.as_str()),
                    after.map(|after| after.instance.as_str()),
                    at_most
                ],
                binding,
            )?
            .collect()
        })
        .await
    }

    async fn unbind(&self, of: &InstanceId, platform: &Platform, user: &UserId) -> Result<bool, Fault> {
        let owner = self.tenant_of(of);
        let (of, platform, user, now) = (of.clone(), platform.clone(), user.clone(), self.timepiece.now());
        self.write_for(owner, move |db| {
            let gone = db.execute(
                "DELETE FROM bindings WHERE platform = ?1 AND user = ?2 AND instance = ?3",
                [platform.as_str(), user.as_str(), of.as_str()],
            )?;
            if gone > 0 {
                roster::end_of_author(db, &of, &platform, &user, now)?;
                db.execute(
                    "DELETE FROM author_places WHERE instance = ?1 AND platform = ?2 AND user = ?3",
                    [of.as_str(), platform.as_str(), user.as_str()],
                )?;
            }
            Ok(gone > 0)
        })
        .await
    }

    async fn set_dm_default(
        &self,
        of: &InstanceId,
        platform: &Platform,
        user: &UserId,
    ) -> Result<bool, Fault> {
        let owner = self.tenant_of(of);
        let (of, platform, user) = (of.clone(), platform.clone(), user.clone());
        self.write_for(owner, move |db| {
            // Only on the bots where the author linked this agent. On others, they have not chosen it.
            let changed = db.execute(
                "UPDATE bindings SET dm_default = (instance = ?3)
                 WHERE platform = ?1 AND user = ?2 AND bot IN
                   (SELECT bot FROM bindings WHERE instance = ?3 AND platform = ?1 AND user = ?2)",
                [platform.as_str(), user.as_str(), of.as_str()],
            )?;
            Ok(changed > 0)
        })
        .await
    }

    async fn note_author(&self, seen: AuthorSighting) -> Result<Vec<ChangedPlace>, Fault> {
        let now = self.timepiece.now();
        self.write(move |db| {
            if seen.direct {
                // Only linking makes a direct chat known: a message may also come from a chat of two people that the bot
                // merely reads along.
                db.prepare_cached(
                    "UPDATE dm_chats SET seen = ledger_time()
                     WHERE platform = ?1 AND bot = ?2 AND chat = ?3 AND user = ?4",
                )?
                .execute([
                    seen.on.platform.as_str(),
                    seen.on.bot.as_str(),
                    seen.chat.as_str(),
                    seen.user.as_str(),
                ])?;
                return Ok(Vec::new());
            }
            let mut proven = Vec::new();
            for agent in agents_of_author(db, &seen.on, &seen.user)? {
                if agent.fronts {
                    note_places(db, &seen, &agent.to.instance)?;
                    proven.extend(claims::prove(db, &seen, &agent.to.instance, now)?);
                }
            }
            Ok(proven)
        })
        .await
    }

    async fn note_place(&self, on: &BotRef, chat: &ChatId, scope: &ScopeId) -> Result<(), Fault> {
        let (on, chat, scope) = (on.clone(), chat.clone(), scope.clone());
        self.write(move |db| {
            db.prepare_cached(
                "INSERT INTO places (platform, bot, chat, scope, seen)
                 SELECT ?1, ?2, ?3, ?4, ledger_time()
                 WHERE (SELECT count(*) FROM places WHERE platform = ?1 AND bot = ?2 AND scope = ?4) < ?5
                 ON CONFLICT DO UPDATE SET scope = excluded.scope, seen = excluded.seen",
            )?
            .execute(params![
                on.platform.as_str(),
                on.bot.as_str(),
                chat.as_str(),
                scope.as_str(),
                CHATS_OF_A_SCOPE
            ])
            .map(drop)
        })
        .await
    }
}

/// The agents that an author linked on this bot, with those that still use it marked.
fn agents_of_author(db: &Connection, on: &BotRef, user: &UserId) -> rusqlite::Result<Vec<BoundAgent>> {
    let found: Vec<BoundAgent> = db
        .prepare_cached(
            "SELECT bindings.tenant, instance, dm_default, profile FROM bindings
             JOIN instances ON instances.id = instance WHERE platform = ?1 AND bot = ?2 AND user = ?3
             ORDER BY made DESC, instance",
        )?
        .query_map([on.platform.as_str(), on.bot.as_str(), user.as_str()], |row| {
            Ok(BoundAgent {
                to: route_to(row, 0)?,
                fronts: false,
                dm_default: row.get(2)?,
                profile: row.get(3)?,
            })
        })?
        .collect::<rusqlite::Result<_>>()?;
    found
        .into_iter()
        .map(|agent| Ok(BoundAgent { fronts: roster::uses_bot(db, &agent.to.instance, on)?, ..agent }))
        .collect()
}

fn redeem(
    db: &Connection,
    code: TokenHash,
    by: &LinkingAuthor,
    now: Moment,
) -> rusqlite::Result<Option<RouteTo>> {
    let LinkingAuthor { on, user, chat } = by;
    let to: Option<RouteTo> = db
        .prepare_cached(
            "SELECT instances.tenant, instances.id FROM link_codes
             JOIN instances ON instances.id = link_codes.instance
             WHERE hash = ?1 AND (platform IS NULL OR platform = ?2) AND expires > ?3 AND ends > ledger_time()",
        )?
        .query_row(params![code.0, on.platform.as_str(), now.millis()], |row| route_to(row, 0))
        .optional()?;
    let Some(to) = to else { return Ok(None) };
    if !roster::uses_bot(db, &to.instance, on)? || has_too_many(db, on, user, &to.instance)? {
        return Ok(None);
    }
    db.execute("DELETE FROM link_codes WHERE hash = ?1", [code.0])?;
    // Links may be made within one millisecond. The later one must still be the latest.
    db.execute(
        "INSERT INTO bindings (platform, user, instance, tenant, bot, linked, made)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6,
           max(ledger_time(),
             coalesce((SELECT max(made) + 1 FROM bindings WHERE platform = ?1 AND bot = ?5 AND user = ?2), 0)))
         ON CONFLICT DO UPDATE SET linked = excluded.linked, made = excluded.made",
        params![
            on.platform.as_str(),
            user.as_str(),
            to.instance.as_str(),
            to.tenant.as_str(),
            on.bot.as_str(),
            now.millis()
        ],
    )?;
    note_direct(db, on, user, chat)?;
    Ok(Some(to))
}

/// Whether a further link would be one too many. Linking again to the same agent never is.
fn has_too_many(
    db: &Connection,
    on: &BotRef,
    user: &UserId,
    instance: &InstanceId,
) -> rusqlite::Result<bool> {
    db.query_row(
        "SELECT (SELECT count(*) FROM bindings
                 WHERE platform = ?1 AND bot = ?2 AND user = ?3 AND instance <> ?4) >= ?5
           OR (SELECT count(*) FROM bindings INDEXED BY bindings_instance
               WHERE instance = ?4 AND NOT (platform = ?1 AND bot = ?2 AND user = ?3)) >= ?6",
        params![
            on.platform.as_str(),
            on.bot.as_str(),
            user.as_str(),
            instance.as_str(),
            AGENTS_OF_AN_AUTHOR,
            AUTHORS_OF_AN_AGENT
        ],
        |row| row.get(0),
    )
}

pub(super) fn is_bound(
    db: &Connection,
    of: &InstanceId,
    on: &BotRef,
    user: &UserId,
) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM bindings WHERE platform = ?1 AND bot = ?2 AND user = ?3 AND instance = ?4)",
    )?
    .query_row([on.platform.as_str(), on.bot.as_str(), user.as_str(), of.as_str()], |row| row.get(0))
}

fn note_direct(db: &Connection, on: &BotRef, user: &UserId, chat: &ChatId) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO dm_chats (platform, bot, chat, user, seen) VALUES (?1, ?2, ?3, ?4, ledger_time())
         ON CONFLICT DO UPDATE SET seen = excluded.seen",
    )?
    .execute([on.platform.as_str(), on.bot.as_str(), chat.as_str(), user.as_str()])
    .map(drop)
}

fn note_places(db: &Connection, seen: &AuthorSighting, of: &InstanceId) -> rusqlite::Result<()> {
    let (parent, scope) =
        (seen.parent.as_ref().map(ChatId::as_str), seen.scope.as_ref().map(ScopeId::as_str));
    for place in seen.places() {
        // A scope lies in nothing, and a parent chat only in the scope.
        let (parent, scope) = match &place {
            Discriminator::Chat(chat) if *chat == seen.chat => (parent, scope),
            Discriminator::Chat(_) => (None, scope),
            _ => (None, None),
        };
        db.prepare_cached(
            "INSERT INTO author_places (instance, platform, bot, kind, value, user, parent, scope, seen)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ledger_time())
             ON CONFLICT DO UPDATE SET parent = excluded.parent, scope = excluded.scope, seen = excluded.seen",
        )?
        .execute(params![
            of.as_str(),
            seen.on.platform.as_str(),
            seen.on.bot.as_str(),
            place.kind(),
            place.value(),
            seen.user.as_str(),
            parent,
            scope
        ])?;
    }
    db.execute(
        "DELETE FROM author_places WHERE (instance, platform, bot, kind, value, user) IN
           (SELECT instance, platform, bot, kind, value, user FROM author_places WHERE instance = ?1
            ORDER BY seen DESC LIMIT -1 OFFSET ?2)",
        params![of.as_str(), PLACES_OF_AN_AGENT],
    )
    .map(drop)
}

fn route_to(row: &Row<'_>, at: usize) -> rusqlite::Result<RouteTo> {
    Ok(RouteTo { tenant: row.get::<_, String>(at)?.into(), instance: row.get::<_, String>(at + 1)?.into() })
}

fn binding(row: &Row<'_>) -> rusqlite::Result<Binding> {
    Ok(Binding {
        on: BotRef { platform: row.get::<_, String>(0)?.into(), bot: row.get::<_, String>(4)?.into() },
        user: row.get::<_, String>(1)?.into(),
        to: RouteTo { instance: row.get::<_, String>(2)?.into(), tenant: row.get::<_, String>(3)?.into() },
        linked: Moment::from_millis(row.get(5)?),
        dm_default: row.get(6)?,
    })
}
