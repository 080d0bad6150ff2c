//! SQL of claims. A claim that is live is a route with the origin `claim`.

mod rows;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId, Platform};
use rusqlite::{Connection, OptionalExtension, params};

use rows::{changed_place, claim, seen_place};

use super::{Sqlite, roster};
use crate::bindings::{AuthorSighting, ChangedPlace};
use crate::claims::{
    CLAIMS_OF_AN_AGENT, ClaimFilter, ClaimPosition, ReplacedClaims, ScopeClaim, ScopeClaims,
};
use crate::{BotRef, Created, Discriminator, Fault};

/// Longest key, in bytes.
const LONGEST_KEY: usize = 256;
/// Kind of a claim of which it is not known yet whether it names a chat or a scope.
const UNTYPED: &str = "key";

#[async_trait]
impl ScopeClaims for Sqlite {
    async fn claim(
        &self,
        of: &InstanceId,
        on: &BotRef,
        value: &str,
        chats_only: bool,
    ) -> Result<Option<ChangedPlace>, Fault> {
        let owner = self.tenant_of(of);
        let (of, on, value, now) = (of.clone(), on.clone(), value.to_owned(), self.timepiece.now());
        self.write_for(owner, move |db| {
            if count(db, &of)? >= CLAIMS_OF_AN_AGENT || value.is_empty() || value.len() > LONGEST_KEY {
                return Ok(None);
            }
            let claim = NewClaim { on: &on, value: &value, of: &of, gateway: None, now };
            claim.go_live_where_seen(db, chats_only)
        })
        .await
    }

    async fn release_claim(
        &self,
        of: &InstanceId,
        platform: &Platform,
        value: &str,
    ) -> Result<Vec<ChangedPlace>, Fault> {
        let owner = self.tenant_of(of);
        let (of, platform, value, now) =
            (of.clone(), platform.clone(), value.to_owned(), self.timepiece.now());
        self.write_for(owner, move |db| {
            db.execute(
                "DELETE FROM claims WHERE instance = ?1 AND platform = ?2 AND value = ?3",
                [of.as_str(), platform.as_str(), &value],
            )?;
            let live =
                live_of(db, &of, |place| place.on.platform == platform && place.place.value() == value)?;
            remove_live(db, live, now)
        })
        .await
    }

    async fn replace_of_gateway(
        &self,
        of: &InstanceId,
        gateway: &GatewayId,
        on: &BotRef,
        keys: &[String],
    ) -> Result<ReplacedClaims, Fault> {
        let owner = self.tenant_of(of);
        let (of, gateway, on) = (of.clone(), gateway.clone(), on.clone());
        let (keys, now) = (keys.to_vec(), self.timepiece.now());
        self.write_for(owner, move |db| replace(db, &of, &gateway, &on, &keys, now)).await
    }

    async fn grant_claim(
        &self,
        of: &InstanceId,
        on: &BotRef,
        place: &Discriminator,
    ) -> Result<Created, Fault> {
        let (of, on, place, now) = (of.clone(), on.clone(), place.clone(), self.timepiece.now());
        self.write(move |db| {
            if let Some(why) = roster::why_no_route(db, &on, &place, &of)? {
                return Ok(Created::Unfit(why));
            }
            let value = place.value().to_owned();
            let gateway: Option<GatewayId> = db
                .prepare_cached(
                    "SELECT gateway FROM claims WHERE platform = ?1 AND bot = ?2 AND value = ?3 AND instance = ?4
                     AND gateway IS NOT NULL",
                )?
                .query_row([on.platform.as_str(), on.bot.as_str(), &value, of.as_str()], |row| {
                    row.get::<_, String>(0).map(GatewayId::from)
                })
                .optional()?;
            let claim = NewClaim { on: &on, value: &value, of: &of, gateway: gateway.as_ref(), now };
            Ok(if claim.go_live(db, &place, &[])? { Created::Made } else { Created::Taken })
        })
        .await
    }

    async fn claims(
        &self,
        filter: ClaimFilter,
        after: Option<ClaimPosition>,
        at_most: u32,
    ) -> Result<Vec<ScopeClaim>, Fault> {
        self.read(move |db| {
            let on = filter.on.as_ref();
            // Written out, so that the list of one agent or bot is read by an index.
            let of_bot = if on.is_some() { "platform = ?1 AND bot = ?2" } else { "?1 IS ?2" };
            let of_agent = if filter.instance.is_some() { "instance = ?3" } else { "?3 IS NULL" };
            let past = "(?5 IS NULL OR (platform, bot, kind, value, instance) > (?5, ?6, ?7, ?8, ?9))";
            let after = after.as_ref();
            db.prepare_cached(&format!(
                "SELECT platform, bot, kind, value, instance, gateway, created, 1 FROM routes
                 WHERE origin = 'claim' AND {of_bot} AND {of_agent} AND {past}
                 UNION ALL
                 SELECT platform, bot, kind, value, instance, gateway, created, 0 FROM claims
                 WHERE {of_bot} AND {of_agent} AND {past}
                 ORDER BY 1, 2, 3, 4, 5 LIMIT ?4"
            ))?
            .query_map(
                params![
                    on.map(|on| on.platform.as_str()),
                    on.map(|on| on.bot.as_str()),
                    filter.instance.as_ref().map(InstanceId::as_str),
                    at_most,
                    after.map(|after| after.on.platform.as_str()),
                    after.map(|after| after.on.bot.as_str()),
                    after.map(|after| after.kind.as_str()),
                    after.map(|after| after.value.as_str()),
                    after.map(|after| after.instance.as_str()),
                ],
                claim,
            )?
            .collect()
        })
        .await
    }
}

/// A claim that may become live.
struct NewClaim<'a> {
    on: &'a BotRef,
    value: &'a str,
    of: &'a InstanceId,
    gateway: Option<&'a GatewayId>,
    now: Moment,
}

impl NewClaim<'_> {
    /// Makes the claim live if an author of the agent was seen there. `None` when it is not live afterwards.
    fn go_live_where_seen(
        &self,
        db: &Connection,
        chats_only: bool,
    ) -> rusqlite::Result<Option<ChangedPlace>> {
        if !roster::uses_bot(db, self.of, self.on)? {
            return Ok(None);
        }
        let seen: Vec<(Discriminator, Vec<Discriminator>)> = db
            .prepare_cached(
                "SELECT kind, value, parent, scope FROM author_places
                 WHERE instance = ?1 AND platform = ?2 AND bot = ?3 AND kind IN ('scope', 'chat') AND value = ?4
                   AND EXISTS (SELECT 1 FROM bindings WHERE platform = author_places.platform
                                 AND bot = author_places.bot AND user = author_places.user
                                 AND instance = author_places.instance)
                 ORDER BY kind DESC, seen DESC",
            )?
            .query_map(self.key(), seen_place)?
            .collect::<rusqlite::Result<_>>()?;
        for (place, around) in seen {
            let fits = !chats_only || matches!(place, Discriminator::Chat(_));
            if fits && self.go_live(db, &place, &around)? {
                let (on, instance) = (self.on.clone(), self.of.clone());
                return Ok(Some(ChangedPlace { on, place, instance }));
            }
        }
        Ok(None)
    }

    fn key(&self) -> [&str; 4] {
        [self.of.as_str(), self.on.platform.as_str(), self.on.bot.as_str(), self.value]
    }

    /// Makes the claim a route, unless the place, or what it lies in, belongs to another agent. True when the agent
    /// has the place afterwards.
    fn go_live(
        &self,
        db: &Connection,
        place: &Discriminator,
        around: &[Discriminator],
    ) -> rusqlite::Result<bool> {
        // A key does not say its kind, so a value belongs to one agent, whatever its kind.
        let taken: bool = db
            .prepare_cached(
                "SELECT EXISTS (SELECT 1 FROM routes
                   WHERE platform = ?2 AND bot = ?3 AND kind IN ('chat', 'scope', 'path') AND value = ?4
                     AND instance <> ?1)",
            )?
            .query_row(self.key(), |row| row.get(0))?;
        if taken {
            return Ok(false);
        }
        for outer in around {
            if roster::owner_of(db, self.on, outer)?.is_some_and(|owner| owner != *self.of) {
                return Ok(false);
            }
        }
        db.execute(
            "INSERT INTO routes (platform, bot, kind, value, instance, created, made, origin, gateway)
             VALUES (?2, ?3, ?5, ?4, ?1, ?6, ledger_time(), 'claim', ?7) ON CONFLICT DO NOTHING",
            params![
                self.of.as_str(),
                self.on.platform.as_str(),
                self.on.bot.as_str(),
                self.value,
                place.kind(),
                self.now.millis(),
                self.gateway.map(GatewayId::as_str)
            ],
        )?;
        db.execute(
            "DELETE FROM claims WHERE instance = ?1 AND platform = ?2 AND bot = ?3 AND value = ?4",
            self.key(),
        )?;
        Ok(true)
    }

    fn store(&self, db: &Connection) -> rusqlite::Result<()> {
        db.execute(
            "INSERT INTO claims (platform, bot, kind, value, instance, gateway, created)
             VALUES (?2, ?3, ?5, ?4, ?1, ?6, ?7) ON CONFLICT DO UPDATE SET gateway = excluded.gateway",
            params![
                self.of.as_str(),
                self.on.platform.as_str(),
                self.on.bot.as_str(),
                self.value,
                UNTYPED,
                self.gateway.map(GatewayId::as_str),
                self.now.millis()
            ],
        )
        .map(drop)
    }
}

/// Makes the waiting claims of an agent live that this message of its author proves.
pub(super) fn prove(
    db: &Connection,
    seen: &AuthorSighting,
    of: &InstanceId,
    now: Moment,
) -> rusqlite::Result<Vec<ChangedPlace>> {
    let places = seen.places();
    let mut proven = Vec::new();
    for (at, place) in places.iter().enumerate().rev() {
        let waiting: Option<Option<String>> = db
            .prepare_cached(
                "SELECT gateway FROM claims WHERE platform = ?1 AND bot = ?2 AND kind IN ('key', ?3) AND value = ?4
                   AND instance = ?5 LIMIT 1",
            )?
            .query_row(
                [
                    seen.on.platform.as_str(),
                    seen.on.bot.as_str(),
                    place.kind(),
                    place.value(),
                    of.as_str(),
                ],
                |row| row.get(0),
            )
            .optional()?;
        let Some(gateway) = waiting else { continue };
        let gateway = gateway.map(GatewayId::from);
        let claim = NewClaim { on: &seen.on, value: place.value(), of, gateway: gateway.as_ref(), now };
        if claim.go_live(db, place, &places[at + 1..])? {
            proven.push(ChangedPlace { on: seen.on.clone(), place: place.clone(), instance: of.clone() });
        }
    }
    Ok(proven)
}

pub(super) fn replace(
    db: &Connection,
    of: &InstanceId,
    gateway: &GatewayId,
    on: &BotRef,
    keys: &[String],
    now: Moment,
) -> rusqlite::Result<ReplacedClaims> {
    db.execute(
        "DELETE FROM claims WHERE instance = ?1 AND platform = ?2 AND gateway = ?3",
        [of.as_str(), on.platform.as_str(), gateway.as_str()],
    )?;
    let dropped = live_of_gateway(db, of, gateway, &on.platform)?
        .into_iter()
        .filter(|live| live.on != *on || !keys.iter().any(|key| key == live.place.value()))
        .collect();
    let mut replaced = ReplacedClaims { live: Vec::new(), changed: remove_live(db, dropped, now)? };
    if !roster::uses_bot(db, of, on)? {
        return Ok(replaced);
    }
    let mut left = CLAIMS_OF_AN_AGENT.saturating_sub(count(db, of)?);
    for key in keys.iter().filter(|key| !key.is_empty() && key.len() <= LONGEST_KEY) {
        if replaced.live.contains(key) {
            continue;
        }
        if has_place(db, of, on, key)? {
            replaced.live.push(key.clone());
            continue;
        }
        if left == 0 {
            continue;
        }
        left -= 1;
        let claim = NewClaim { on, value: key, of, gateway: Some(gateway), now };
        claim.store(db)?;
        if let Some(changed) = claim.go_live_where_seen(db, false)? {
            replaced.changed.push(changed);
            replaced.live.push(key.clone());
        }
    }
    Ok(replaced)
}

/// Whether a route leads from the place with this value to the agent.
fn has_place(db: &Connection, of: &InstanceId, on: &BotRef, value: &str) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM routes WHERE platform = ?2 AND bot = ?3 AND kind IN ('chat', 'scope', 'path')
                          AND value = ?4 AND instance = ?1)",
    )?
    .query_row([of.as_str(), on.platform.as_str(), on.bot.as_str(), value], |row| row.get(0))
}

/// The number of claims of an agent, live or not.
fn count(db: &Connection, of: &InstanceId) -> rusqlite::Result<u32> {
    db.query_row(
        "SELECT (SELECT count(*) FROM claims WHERE instance = ?1)
              + (SELECT count(*) FROM routes WHERE instance = ?1 AND origin = 'claim')",
        [of.as_str()],
        |row| row.get(0),
    )
}

fn live_of_gateway(
    db: &Connection,
    of: &InstanceId,
    gateway: &GatewayId,
    platform: &Platform,
) -> rusqlite::Result<Vec<ChangedPlace>> {
    db.prepare_cached(
        "SELECT platform, bot, kind, value, instance FROM routes INDEXED BY routes_instance
         WHERE instance = ?1 AND origin = 'claim' AND gateway = ?2 AND platform = ?3",
    )?
    .query_map([of.as_str(), gateway.as_str(), platform.as_str()], changed_place)?
    .collect()
}

/// The live claims of an agent that are wanted.
pub(super) fn live_of(
    db: &Connection,
    of: &InstanceId,
    wanted: impl Fn(&ChangedPlace) -> bool,
) -> rusqlite::Result<Vec<ChangedPlace>> {
    let mut find = db.prepare_cached(
        "SELECT platform, bot, kind, value, instance FROM routes INDEXED BY routes_instance
         WHERE instance = ?1 AND origin = 'claim'",
    )?;
    let found: Vec<ChangedPlace> =
        find.query_map([of.as_str()], changed_place)?.collect::<rusqlite::Result<_>>()?;
    Ok(found.into_iter().filter(wanted).collect())
}

/// Removes live claims, and what waits because of them.
pub(super) fn remove_live(
    db: &Connection,
    places: Vec<ChangedPlace>,
    now: Moment,
) -> rusqlite::Result<Vec<ChangedPlace>> {
    for ChangedPlace { on, place, .. } in &places {
        roster::remove_route(db, on, place, now)?;
    }
    Ok(places)
}
