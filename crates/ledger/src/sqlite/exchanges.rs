//! Questions: one row each, open until it is answered, fails or its time is up.

mod looked_for;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::delivery::DeliveryFailed;
use posthouse_wire::{ChatId, ClientId, CorrelationId, InstanceId, TenantId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::{Sqlite, receipts};
use crate::exchanges::{Answered, Asked, Exchange, ExchangeState, Exchanges, NewExchange};
use crate::{Fault, NewReceipt, TokenHash};

const EXCHANGE: &str =
    "SELECT tenant, correlation, caller, connector, agent, instance, chat, dispatch, digest,
       opened, deadline, state, ended, answer, answered, error, seq FROM exchanges";

#[async_trait]
impl Exchanges for Sqlite {
    async fn ask(&self, new: NewExchange, receipt: NewReceipt, most: u32) -> Result<Asked, Fault> {
        let timepiece = self.timepiece.clone();
        self.write(move |db| ask(db, &new, &receipt, most, timepiece.now())).await
    }

    async fn exchange(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
    ) -> Result<Option<Exchange>, Fault> {
        let (tenant, correlation) = (tenant.clone(), correlation.clone());
        self.read(move |db| named(db, &tenant, &correlation)).await
    }

    async fn exchange_in(&self, of: &InstanceId, chat: &ChatId) -> Result<Option<Exchange>, Fault> {
        let (of, chat) = (of.clone(), chat.clone());
        self.read(move |db| {
            // A question of the same name may be asked again once the first is forgotten.
            db.prepare_cached(&format!(
                "{EXCHANGE} WHERE instance = ?1 AND chat = ?2 ORDER BY seq DESC LIMIT 1"
            ))?
            .query_row([of.as_str(), chat.as_str()], exchange)
            .optional()
        })
        .await
    }

    async fn exchange_of_token(&self, token: TokenHash) -> Result<Option<Exchange>, Fault> {
        self.read(move |db| {
            db.prepare_cached(&format!("{EXCHANGE} WHERE reply_token = ?1"))?
                .query_row([token.0], exchange)
                .optional()
        })
        .await
    }

    async fn uncollected(&self, after: Option<i64>, at_most: u32) -> Result<Vec<(i64, Exchange)>, Fault> {
        self.read(move |db| looked_for::open(db, after, at_most)).await
    }

    async fn overdue(
        &self,
        since: Moment,
        after: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<(i64, Exchange)>, Fault> {
        self.read(move |db| looked_for::overdue(db, since, after, at_most)).await
    }

    async fn stop_looking(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault> {
        let (tenant, correlation) = (tenant.clone(), correlation.clone());
        self.write(move |db| looked_for::stop(db, &tenant, &correlation)).await
    }

    async fn exchanges(
        &self,
        tenant: &TenantId,
        caller: Option<&ClientId>,
        before: Option<(Moment, CorrelationId)>,
        at_most: u32,
    ) -> Result<Vec<Exchange>, Fault> {
        let (tenant, caller) = (tenant.clone(), caller.cloned());
        self.read(move |db| {
            let (opened, correlation) = match &before {
                Some((opened, correlation)) => (opened.millis(), correlation.as_str()),
                None => (i64::MAX, ""),
            };
            match &caller {
                Some(caller) => db
                    .prepare_cached(&of_caller())?
                    .query_map(
                        params![tenant.as_str(), opened, correlation, at_most, caller.as_str()],
                        exchange,
                    )?
                    .collect(),
                None => db
                    .prepare_cached(&of_tenant())?
                    .query_map(params![tenant.as_str(), opened, correlation, at_most], exchange)?
                    .collect(),
            }
        })
        .await
    }

    async fn answer(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        content: &str,
        sent_at: i64,
        now: Moment,
    ) -> Result<Answered, Fault> {
        let (tenant, correlation, content) = (tenant.clone(), correlation.clone(), content.to_owned());
        self.write(move |db| answer(db, &tenant, &correlation, &content, sent_at, now)).await
    }

    async fn fail(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        error: &str,
        now: Moment,
    ) -> Result<(), Fault> {
        let (tenant, correlation, error) = (tenant.clone(), correlation.clone(), error.to_owned());
        self.write(move |db| {
            db.prepare_cached(
                "UPDATE exchanges SET state = 3, ended = ?4, error = ?3
                 WHERE tenant = ?1 AND correlation = ?2 AND state = 0 AND deadline > ?4",
            )?
            .execute(params![tenant.as_str(), correlation.as_str(), error, now.millis()])
            .map(drop)
        })
        .await
    }

    async fn expire(&self, now: Moment, at_most: u32) -> Result<Vec<(TenantId, CorrelationId)>, Fault> {
        self.write(move |db| {
            let over: Vec<(i64, String, String)> = db
                .prepare_cached(OVER)?
                .query_map(params![now.millis(), at_most], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect::<rusqlite::Result<_>>()?;
            let mut end = db.prepare_cached(TIME_IS_UP)?;
            for (seq, _, _) in &over {
                end.execute([*seq, now.millis()])?;
            }
            Ok(over.into_iter().map(|(_, tenant, correlation)| (tenant.into(), correlation.into())).collect())
        })
        .await
    }

    async fn next_deadline(&self) -> Result<Option<Moment>, Fault> {
        self.read(|db| {
            let next = db.prepare_cached(NEXT)?.query_row([], |row| row.get(0)).optional()?;
            Ok(next.map(Moment::from_millis))
        })
        .await
    }
}

/// A question that was asked before is attached to however many are open.
fn ask(
    db: &Connection,
    new: &NewExchange,
    receipt: &NewReceipt,
    most: u32,
    now: Moment,
) -> rusqlite::Result<Asked> {
    if let Some(before) = named(db, &new.tenant, &new.correlation)? {
        let same = before.caller == new.caller && before.digest == new.digest;
        return Ok(if same { Asked::Attached(Box::new(before)) } else { Asked::InUse });
    }
    let open: u32 =
        db.prepare_cached(COUNT)?.query_row(params![new.tenant.as_str(), most], |row| row.get(0))?;
    if open >= most {
        return Ok(Asked::TooMany);
    }
    db.prepare_cached(
        "INSERT INTO exchanges
           (state, tenant, correlation, caller, connector, agent, instance, chat, dispatch, digest, reply_token,
            opened, deadline, collected)
         VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?
    .execute(params![
        new.tenant.as_str(),
        new.correlation.as_str(),
        new.caller.as_str(),
        new.connector,
        new.agent,
        new.instance.as_ref().map(InstanceId::as_str),
        new.chat.as_ref().map(ChatId::as_str),
        new.dispatch.as_str(),
        new.digest,
        new.reply_token.map(|token| token.0),
        new.opened.millis(),
        new.deadline.millis(),
        new.collected,
    ])?;
    receipts::note(db, receipt, now).map(Asked::Opened)
}

fn answer(
    db: &Connection,
    tenant: &TenantId,
    correlation: &CorrelationId,
    content: &str,
    sent_at: i64,
    now: Moment,
) -> rusqlite::Result<Answered> {
    let found = db
        .prepare_cached("SELECT seq, state, deadline FROM exchanges WHERE tenant = ?1 AND correlation = ?2")?
        .query_row([tenant.as_str(), correlation.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((seq, state, deadline)): Option<(i64, ExchangeState, i64)> = found else {
        return Ok(Answered::Absent);
    };
    match state {
        ExchangeState::Answered => Ok(Answered::Duplicate),
        ExchangeState::TimedOut | ExchangeState::Failed => Ok(Answered::Late),
        ExchangeState::Open if deadline <= now.millis() => {
            db.prepare_cached(TIME_IS_UP)?.execute([seq, now.millis()])?;
            Ok(Answered::Late)
        }
        ExchangeState::Open => {
            db.prepare_cached(
                "UPDATE exchanges SET state = 1, ended = ?2, answered = ?3, answer = ?4 WHERE seq = ?1",
            )?
            .execute(params![seq, now.millis(), sent_at, content])?;
            Ok(Answered::First)
        }
    }
}

/// Who was asked is gone.
pub(super) fn fail_instance(
    db: &Connection,
    instance: &InstanceId,
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    fail_open(db, "instance = ?1", params![instance.as_str()], error, now)
}

/// The way by which it was asked is gone.
pub(super) fn fail_connector(
    db: &Connection,
    tenant: &TenantId,
    connector: &str,
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    fail_open(db, "tenant = ?1 AND connector = ?2", params![tenant.as_str(), connector], error, now)
}

/// Who asks is gone.
pub(super) fn fail_tenant(
    db: &Connection,
    tenant: &TenantId,
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    fail_open(db, "tenant = ?1", params![tenant.as_str()], error, now)
}

fn fail_open(
    db: &Connection,
    which: &str,
    given: &[&dyn ToSql],
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    let open: Vec<(i64, String)> = db
        .prepare(&format!("SELECT seq, agent FROM exchanges WHERE state = 0 AND {which}"))?
        .query_map(given, |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let mut fail =
        db.prepare_cached("UPDATE exchanges SET state = 3, ended = ?2, error = ?3 WHERE seq = ?1")?;
    for (seq, agent) in open {
        let error = DeliveryFailed::client_validation(agent, error);
        let error = serde_json::to_string(&error).expect("words and numbers are always JSON");
        fail.execute(params![seq, now.millis(), error])?;
    }
    Ok(())
}

fn named(
    db: &Connection,
    tenant: &TenantId,
    correlation: &CorrelationId,
) -> rusqlite::Result<Option<Exchange>> {
    db.prepare_cached(&format!("{EXCHANGE} WHERE tenant = ?1 AND correlation = ?2"))?
        .query_row([tenant.as_str(), correlation.as_str()], exchange)
        .optional()
}

fn exchange(row: &Row<'_>) -> rusqlite::Result<Exchange> {
    Ok(Exchange {
        tenant: row.get::<_, String>(0)?.into(),
        correlation: row.get::<_, String>(1)?.into(),
        caller: row.get::<_, String>(2)?.into(),
        connector: row.get(3)?,
        agent: row.get(4)?,
        instance: row.get::<_, Option<String>>(5)?.map(Into::into),
        chat: row.get::<_, Option<String>>(6)?.map(Into::into),
        dispatch: row.get::<_, String>(7)?.into(),
        digest: row.get(8)?,
        opened: Moment::from_millis(row.get(9)?),
        deadline: Moment::from_millis(row.get(10)?),
        state: row.get(11)?,
        ended: row.get::<_, Option<i64>>(12)?.map(Moment::from_millis),
        answer: row.get::<_, Option<String>>(13)?.zip(row.get(14)?),
        error: row.get(15)?,
    })
}

fn of_tenant() -> String {
    format!(
        "{EXCHANGE} INDEXED BY exchanges_tenant WHERE tenant = ?1 AND (opened, correlation) < (?2, ?3)
         ORDER BY opened DESC, correlation DESC LIMIT ?4"
    )
}

fn of_caller() -> String {
    format!(
        "{EXCHANGE} INDEXED BY exchanges_caller
         WHERE tenant = ?1 AND caller = ?5 AND (opened, correlation) < (?2, ?3)
         ORDER BY opened DESC, correlation DESC LIMIT ?4"
    )
}

/// Counted no further than it matters.
const COUNT: &str = "SELECT count(*) FROM
    (SELECT 1 FROM exchanges INDEXED BY exchanges_open WHERE tenant = ?1 AND state = 0 LIMIT ?2)";

const OVER: &str = "SELECT seq, tenant, correlation FROM exchanges INDEXED BY exchanges_deadline
    WHERE state = 0 AND deadline <= ?1 ORDER BY deadline LIMIT ?2";

/// It is kept from the day that somebody noticed, not from the deadline: a house that was away for long
/// still says so to whoever comes back with it.
const TIME_IS_UP: &str = "UPDATE exchanges SET state = 2, ended = ?2 WHERE seq = ?1";

const NEXT: &str = "SELECT deadline FROM exchanges INDEXED BY exchanges_deadline
    WHERE state = 0 ORDER BY deadline LIMIT 1";

impl FromSql for ExchangeState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(ExchangeState::Open),
            1 => Ok(ExchangeState::Answered),
            2 => Ok(ExchangeState::TimedOut),
            3 => Ok(ExchangeState::Failed),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::receipts::plan;

    #[test]
    fn every_list_is_read_in_its_order() {
        for (statement, walk) in [
            (
                of_tenant(),
                "SEARCH exchanges USING INDEX exchanges_tenant (tenant=? AND (opened,correlation)<(?,?))",
            ),
            (
                of_caller(),
                "SEARCH exchanges USING INDEX exchanges_caller (tenant=? AND caller=? AND (opened,correlation)<(?,?))",
            ),
            (OVER.to_owned(), "SEARCH exchanges USING INDEX exchanges_deadline (deadline<?)"),
        ] {
            let plan = plan(&statement);
            assert!(plan.starts_with(walk) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    #[test]
    fn whoever_was_asked_or_asks_is_found_by_an_index() {
        for which in ["instance = ?1", "tenant = ?1 AND connector = ?2", "tenant = ?1"] {
            let plan = plan(&format!("SELECT seq, agent FROM exchanges WHERE state = 0 AND {which}"));
            assert!(plan.starts_with("SEARCH exchanges USING INDEX"), "{plan}");
        }
        let plan = plan(COUNT);
        assert!(plan.contains("SEARCH exchanges USING COVERING INDEX exchanges_open (tenant=?)"), "{plan}");
    }
}
