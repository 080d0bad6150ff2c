//! SQL of the uses of capabilities and bots' credentials.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId, InstanceId, Platform, TenantId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::Fault;
use crate::sqlite::{Sqlite, owner};
use crate::vault::{CapabilityUses, CredentialUse};

/// Number of actions that one read searches for uses of a bot's credentials. An index on the agent would find them at
/// once, but it would be written for every message that an agent sends. Between two reads, others get their turn.
const WINDOW: i64 = if cfg!(test) { 2 } else { 100_000 };
/// Actions whose times may be in another order than they were stored.
const DISORDER: i64 = 1_000;

#[async_trait]
impl CapabilityUses for Sqlite {
    async fn begin_bot_use(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        entry: Option<&EntryId>,
        platform: &Platform,
    ) -> Result<i64, Fault> {
        let (tenant, instance, now) = (tenant.clone(), instance.clone(), self.timepiece.now().millis());
        let (entry, kind) = (entry.and_then(EntryId::bytes), format!("{platform}.bot"));
        self.write_for(owner(&tenant), move |db| {
            db.prepare_cached(
                "INSERT INTO capability_uses (tenant, instance, entry, kind, at, counted)
                 VALUES (?1, ?2, ?3, ?4, ?5, ledger_time())",
            )?
            .execute(params![tenant.as_str(), instance.as_str(), entry, kind, now])?;
            Ok(db.last_insert_rowid())
        })
        .await
    }

    async fn end_use(
        &self,
        tenant: &TenantId,
        number: i64,
        called: &str,
        outcome: &str,
    ) -> Result<(), Fault> {
        let (called, outcome) = (called.to_owned(), outcome.to_owned());
        self.write_for(owner(tenant), move |db| {
            db.prepare_cached("UPDATE capability_uses SET called = ?2, outcome = ?3 WHERE seq = ?1")?
                .execute(params![number, called, outcome])
                .map(drop)
        })
        .await
    }

    async fn credential_uses(
        &self,
        of: &InstanceId,
        after: Option<(Moment, ActionId)>,
        at_most: u32,
    ) -> Result<Vec<CredentialUse>, Fault> {
        let page = UsesPage {
            of: of.clone(),
            at: after.as_ref().map_or(i64::MAX, |(at, _)| at.millis()),
            action: after.and_then(|(_, action)| action.bytes()),
            at_most,
        };
        let first = page.clone();
        let (mut uses, mut before, oldest) =
            self.read(move |db| Ok((first.of_capabilities(db)?, first.newest(db)?, oldest(db)?))).await?;
        let (wanted, mut found) = (usize::try_from(at_most).unwrap_or(usize::MAX), 0);
        while found < wanted && before > oldest {
            let (page, newest) = (page.clone(), before);
            before -= WINDOW;
            let part = self.read(move |db| page.of_bots(db, newest - WINDOW, newest)).await?;
            found += part.len();
            uses.extend(part);
        }
        let key = |one: &CredentialUse| (one.at, one.position.bytes());
        uses.sort_by_key(|one| std::cmp::Reverse(key(one)));
        uses.truncate(wanted);
        Ok(uses)
    }
}

/// A page of the uses of an agent: those before this time and action.
#[derive(Clone)]
struct UsesPage {
    of: InstanceId,
    at: i64,
    action: Option<[u8; 16]>,
    at_most: u32,
}

impl UsesPage {
    /// Uses of capabilities, and those of bots' credentials without an action. These have their number as position.
    fn of_capabilities(&self, db: &Connection) -> rusqlite::Result<Vec<CredentialUse>> {
        db.prepare_cached(
            "SELECT at, kind, entry, action, called, outcome, coalesce(action, unhex(printf('%032x', seq))) AS position
             FROM capability_uses
             WHERE instance = ?1 AND (at, position) < (?2, coalesce(?4, x'')) ORDER BY at DESC, position DESC LIMIT ?3",
        )?
        .query_map(params![self.of.as_str(), self.at, self.at_most, self.action], credential_use)?
        .collect()
    }

    /// The position of the newest action that may be on the page.
    fn newest(&self, db: &Connection) -> rusqlite::Result<i64> {
        let newest: Option<i64> = db.query_row("SELECT max(seq) FROM actions", [], |row| row.get(0))?;
        let newest = newest.unwrap_or(0);
        let Some(action) = self.action else { return Ok(newest) };
        let after: Option<i64> = db
            .prepare_cached("SELECT seq FROM actions WHERE id = ?1")?
            .query_row([action], |row| row.get(0))
            .optional()?;
        Ok(after.map_or(newest, |after| newest.min(after + DISORDER)))
    }

    /// Uses of the credentials of bots, among the actions after the one position and up to the other.
    fn of_bots(&self, db: &Connection, after: i64, up_to: i64) -> rusqlite::Result<Vec<CredentialUse>> {
        db.prepare_cached(
            "SELECT coalesce(posted, received), platform || '.bot', answers, id, called,
               CASE WHEN finished IS NULL THEN NULL WHEN success THEN 'ok' ELSE coalesce(error, 'failed') END, id
             FROM actions
             WHERE seq > ?5 AND seq <= ?6 AND instance = ?1 AND called IS NOT NULL
               AND (coalesce(posted, received), id) < (?2, coalesce(?4, x''))
             ORDER BY seq DESC LIMIT ?3",
        )?
        .query_map(
            params![self.of.as_str(), self.at, self.at_most, self.action, after, up_to],
            credential_use,
        )?
        .collect()
    }
}

/// The position before all actions.
fn oldest(db: &Connection) -> rusqlite::Result<i64> {
    db.query_row("SELECT coalesce(min(seq), 1) - 1 FROM actions", [], |row| row.get(0))
}

fn credential_use(row: &Row<'_>) -> rusqlite::Result<CredentialUse> {
    Ok(CredentialUse {
        at: Moment::from_millis(row.get(0)?),
        kind: row.get(1)?,
        entry: row.get::<_, Option<[u8; 16]>>(2)?.map(EntryId::from_bytes),
        action: row.get::<_, Option<[u8; 16]>>(3)?.map(ActionId::from_bytes),
        called: row.get(4)?,
        outcome: row.get(5)?,
        position: ActionId::from_bytes(row.get(6)?),
    })
}

#[cfg(test)]
mod tests {
    use posthouse_time::Timepiece;
    use posthouse_wire::Outcome;

    use super::*;
    use crate::{BeginOutcome, Ledger, Location, Request};

    #[tokio::test]
    async fn all_uses_of_an_agent_are_found_page_by_page_however_many_actions_of_others_lie_between() {
        let clock = Timepiece::wound(Moment::from_seconds(1));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let (outbox, records) = (ledger.outbox(), ledger.capability_uses());
        let mut own = Vec::new();
        for number in 0..30 {
            clock.wind(std::time::Duration::from_secs(1));
            let is_own = number % 7 == 0;
            let agent = InstanceId::from(if is_own { "inst_heron" } else { "inst_other" });
            let request = Request {
                gateway: "gw".into(),
                request: number.to_string().as_str().into(),
                instance: agent.clone(),
                op: "send".to_owned(),
                platform: "telegram".into(),
                bot: "tb".into(),
                chat: None,
                reply_to: None,
                received: clock.now(),
            };
            let BeginOutcome::Fresh { action, .. } = outbox.begin(request).await.unwrap() else {
                panic!("it is new");
            };
            outbox
                .finish(&agent, &action, &Outcome::done(), Some(clock.now()), Some("sendMessage"))
                .await
                .unwrap();
            if is_own {
                own.push(action);
            }
        }
        own.reverse();
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = records.credential_uses(&"inst_heron".into(), after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.at, last.position.clone()));
            found.extend(page.into_iter().map(|one| one.action.unwrap()));
        }
        assert_eq!(found, own);
        assert!(records.credential_uses(&"inst_none".into(), None, 2).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn uses_without_an_action_are_listed_once_each_although_many_have_the_same_time() {
        let clock = Timepiece::wound(Moment::from_seconds(1));
        let ledger = Ledger::open(Location::Memory, clock.clone()).await.unwrap();
        let records = ledger.capability_uses();
        let (tenant, heron, entry) = ("ten_acme".into(), "inst_heron".into(), EntryId::from_bytes([7; 16]));
        for number in 0..5 {
            let begun =
                records.begin_bot_use(&tenant, &heron, Some(&entry), &"telegram".into()).await.unwrap();
            if number > 0 {
                records.end_use(&tenant, begun, "getFile", "ok").await.unwrap();
            }
        }
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = records.credential_uses(&heron, after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some((last.at, last.position.clone()));
            found.extend(page);
        }
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|one| one.kind == "telegram.bot" && one.entry.as_ref() == Some(&entry)));
        assert!(found[..4].iter().all(|one| one.called.as_deref() == Some("getFile")));
        assert_eq!((&found[4].called, &found[4].outcome), (&None, &None), "the first has not ended");
    }
}
