//! SQL of staleness: policies, and entries that expire. An entry becomes stale in ledger time.

use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::{Instant, Moment, Timepiece};
use posthouse_wire::{EntryId, Event, InstanceId, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::Sqlite;
use crate::staleness::{EntryStaleness, ExpiredEntry, StaleAction, StaleEntries, StalePolicy, Staleness};
use crate::{BotRef, Discriminator, Fault};

/// The waiting entries that may expire. These words are the condition of the index `entries_expiring`.
const EXPIRING: &str = "fate IS NULL AND stale_action = 'expire'";

#[async_trait]
impl Staleness for Sqlite {
    async fn set_route_staleness(
        &self,
        on: &BotRef,
        which: &Discriminator,
        policy: Option<StalePolicy>,
    ) -> Result<bool, Fault> {
        let (on, which) = (on.clone(), which.clone());
        self.write(move |db| set_for_route(db, &on, &which, policy)).await
    }

    async fn set_agent_staleness(&self, of: &InstanceId, policy: Option<StalePolicy>) -> Result<(), Fault> {
        let of = of.clone();
        self.write(move |db| {
            let (after, action) = columns(policy);
            db.execute(
                "UPDATE instances SET stale_after = ?2, stale_action = ?3 WHERE id = ?1",
                params![of.as_str(), after, action],
            )
            .map(drop)
        })
        .await
    }

    async fn staleness(
        &self,
        on: &BotRef,
        candidates: &[Discriminator],
        to: &InstanceId,
    ) -> Result<Option<StalePolicy>, Fault> {
        let (on, candidates, to) = (on.clone(), candidates.to_vec(), to.clone());
        self.read(move |db| {
            let mut route = db.prepare_cached(
                "SELECT stale_after, stale_action FROM routes
                 WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4 AND instance = ?5",
            )?;
            for which in &candidates {
                let key =
                    params![on.platform.as_str(), on.bot.as_str(), which.kind(), which.value(), to.as_str()];
                if let Some(policy) = route.query_row(key, |row| policy(row, 0)).optional()?.flatten() {
                    return Ok(Some(policy));
                }
            }
            agent_policy(db, &to)
        })
        .await
    }

    async fn agent_staleness(&self, of: &InstanceId) -> Result<Option<StalePolicy>, Fault> {
        let of = of.clone();
        self.read(move |db| agent_policy(db, &of)).await
    }

    async fn route_policies(&self) -> Result<Vec<(BotRef, Discriminator, StalePolicy)>, Fault> {
        self.read(|db| {
            let rows: Vec<_> = db
                .prepare_cached(
                    "SELECT platform, bot, kind, value, stale_after, stale_action FROM routes
                     WHERE stale_action IS NOT NULL",
                )?
                .query_map([], |row| {
                    let on = BotRef {
                        platform: row.get::<_, String>(0)?.into(),
                        bot: row.get::<_, String>(1)?.into(),
                    };
                    let which =
                        Discriminator::from_parts(&row.get::<_, String>(2)?, &row.get::<_, String>(3)?);
                    Ok((on, which, policy(row, 4)?))
                })?
                .collect::<rusqlite::Result<_>>()?;
            let whole = |(on, which, policy)| Some((on, which?, policy?));
            Ok(rows.into_iter().filter_map(whole).collect())
        })
        .await
    }
}

#[async_trait]
impl StaleEntries for Sqlite {
    async fn agents_with_expired(&self) -> Result<Vec<InstanceId>, Fault> {
        self.read(|db| {
            // From agent to agent in the index, however many entries wait for each.
            let mut next = db.prepare_cached(&format!(
                "SELECT min(instance) FROM entries INDEXED BY entries_expiring WHERE {EXPIRING} AND instance > ?1"
            ))?;
            let mut due = db.prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM entries INDEXED BY entries_expiring
                 WHERE {EXPIRING} AND instance = ?1 AND stale_at <= ledger_time())"
            ))?;
            let (mut last, mut found) = (String::new(), Vec::new());
            while let Some(instance) = next.query_row([&last], |row| row.get::<_, Option<String>>(0))? {
                if due.query_row([&instance], |row| row.get(0))? {
                    found.push(InstanceId::from(instance.as_str()));
                }
                last = instance;
            }
            Ok(found)
        })
        .await
    }

    async fn expire(
        &self,
        of: &InstanceId,
        only: Option<Vec<EntryId>>,
        at_most: u16,
    ) -> Result<Vec<ExpiredEntry>, Fault> {
        let (owner, now, of) = (self.tenant_of(of), self.timepiece.now(), of.clone());
        self.write_for(owner, move |db| {
            let seqs: Vec<i64> = match &only {
                Some(entries) => {
                    let mut find =
                        db.prepare_cached("SELECT seq FROM entries WHERE id = ?1 AND instance = ?2")?;
                    let ids = entries.iter().filter_map(EntryId::bytes);
                    let found =
                        ids.map(|id| find.query_row(params![id, of.as_str()], |row| row.get(0)).optional());
                    found.filter_map(Result::transpose).collect::<rusqlite::Result<_>>()?
                }
                None => db
                    .prepare_cached(&format!(
                        "SELECT seq FROM entries INDEXED BY entries_expiring
                         WHERE {EXPIRING} AND instance = ?1 AND stale_at <= ledger_time()
                         ORDER BY stale_at LIMIT ?2"
                    ))?
                    .query_map(params![of.as_str(), at_most], |row| row.get(0))?
                    .collect::<rusqlite::Result<_>>()?,
            };
            let ended = seqs.into_iter().map(|seq| expire_one(db, seq, &of, now));
            ended.filter_map(Result::transpose).collect()
        })
        .await
    }

    async fn handed_late(&self, of: &InstanceId, entry: &EntryId) -> Result<(), Fault> {
        let Some(id) = entry.bytes() else { return Ok(()) };
        let (owner, of, now) = (self.tenant_of(of), of.clone(), self.timepiece.now());
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "UPDATE entries SET marked_late = coalesce(marked_late, ?3) WHERE id = ?1 AND instance = ?2",
            )?
            .execute(params![id, of.as_str(), now.millis()])
            .map(drop)
        })
        .await
    }
}

/// Ends one entry if it is due to expire.
fn expire_one(
    db: &Connection,
    seq: i64,
    of: &InstanceId,
    now: Moment,
) -> rusqlite::Result<Option<ExpiredEntry>> {
    let waiting = db
        .prepare_cached(&format!(
            "SELECT id, platform, bot, chat, event,
               (SELECT tenant FROM instances WHERE instances.id = entries.instance) FROM entries
             WHERE seq = ?1 AND {EXPIRING} AND stale_at <= ledger_time()"
        ))?
        .query_row([seq], |row| {
            let event: Vec<u8> = row.get(4)?;
            let source =
                serde_json::from_slice::<Event>(&event).map(|event| event.source).unwrap_or_default();
            Ok(ExpiredEntry {
                entry: EntryId::from_bytes(row.get(0)?),
                tenant: row.get::<_, Option<String>>(5)?.map(TenantId::from),
                instance: of.clone(),
                on: BotRef {
                    platform: row.get::<_, String>(1)?.into(),
                    bot: row.get::<_, String>(2)?.into(),
                },
                chat: row.get::<_, String>(3)?.into(),
                thread: source.thread_id,
                chat_type: source.chat_type,
            })
        })
        .optional()?;
    if waiting.is_some() {
        db.prepare_cached(
            "UPDATE entries SET fate = 'stale', event = NULL, refs = NULL, forward = NULL, ended = ?2, counted = ledger_time()
             WHERE seq = ?1",
        )?
        .execute(params![seq, now.millis()])?;
    }
    Ok(waiting)
}

fn agent_policy(db: &Connection, of: &InstanceId) -> rusqlite::Result<Option<StalePolicy>> {
    db.prepare_cached("SELECT stale_after, stale_action FROM instances WHERE id = ?1")?
        .query_row([of.as_str()], |row| policy(row, 0))
        .optional()
        .map(Option::flatten)
}

pub(super) fn set_for_route(
    db: &Connection,
    on: &BotRef,
    which: &Discriminator,
    policy: Option<StalePolicy>,
) -> rusqlite::Result<bool> {
    let (after, action) = columns(policy);
    db.execute(
        "UPDATE routes SET stale_after = ?5, stale_action = ?6
         WHERE platform = ?1 AND bot = ?2 AND kind = ?3 AND value = ?4",
        params![on.platform.as_str(), on.bot.as_str(), which.kind(), which.value(), after, action],
    )
    .map(|changed| changed > 0)
}

fn columns(policy: Option<StalePolicy>) -> (Option<i64>, Option<&'static str>) {
    match policy {
        Some(policy) => (Some(millis(policy.after)), Some(policy.action.as_str())),
        None => (None, None),
    }
}

fn policy(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<StalePolicy>> {
    let (after, action): (Option<i64>, Option<String>) = (row.get(at)?, row.get(at + 1)?);
    let action = action.and_then(|action| action.parse().ok());
    Ok(after.zip(action).map(|(after, action)| StalePolicy { after: duration(after), action }))
}

/// The staleness of an entry that has just been appended.
pub(super) fn of_new(policy: Option<StalePolicy>, timepiece: &Timepiece) -> Option<EntryStaleness> {
    let policy = watched(policy)?;
    Some(EntryStaleness { policy, due: timepiece.instant() + policy.after })
}

/// A policy that changes anything. `Deliver` does not.
pub(super) fn watched(policy: Option<StalePolicy>) -> Option<StalePolicy> {
    policy.filter(|policy| policy.action != StaleAction::Deliver)
}

/// The columns of a new entry: the time until it is stale, and the action.
pub(super) fn entry_columns(policy: Option<StalePolicy>) -> (Option<i64>, Option<&'static str>) {
    columns(watched(policy))
}

/// The staleness of a stored entry, from the columns `stale_at - counted`, `stale_at - ledger_time()` and
/// `stale_action`.
pub(super) fn of_row(row: &Row<'_>, at: usize, now: Instant) -> rusqlite::Result<Option<EntryStaleness>> {
    let (after, left): (Option<i64>, Option<i64>) = (row.get(at)?, row.get(at + 1)?);
    let (Some(after), Some(left)) = (after, left) else { return Ok(None) };
    let Ok(action) = row.get_ref(at + 2)?.as_str()?.parse() else { return Ok(None) };
    let late = duration(left.saturating_neg());
    Ok(Some(EntryStaleness {
        // An entry that is late already was written longer ago than its policy says, by as much as it is late.
        policy: StalePolicy { after: duration(after) + late, action },
        due: now + duration(left),
    }))
}

fn duration(millis: i64) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(0))
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
