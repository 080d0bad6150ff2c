//! SQL of exchanges: one row per question, open until it is answered, fails or times out.

mod ending;
mod polled;

use std::collections::HashSet;
use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, ClientId, CorrelationId, InstanceId, TenantId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, params};

use self::ending::{NEXT, OPEN, OVER, OverdueQuestion};
use super::ledger_time::left;
use super::usage::{ROW, count_for_tenant};
use super::{Sqlite, owner, receipts};
use crate::exchanges::{Answered, AskResult, Exchange, ExchangeState, Exchanges, NewExchange};
use crate::{Fault, NewReceipt, ReceiptKey, TokenHash};

pub(super) use ending::{fail_connector, fail_instance, fail_tenant};

const EXCHANGE: &str =
    "SELECT tenant, correlation, caller, connector, agent, instance, chat, dispatch, digest,
       opened, CASE state WHEN 0 THEN wall_time_at(ends) ELSE deadline END, state, ended, answer, answered, error,
       seq, max(ends - ledger_time(), 0) FROM exchanges";

#[async_trait]
impl Exchanges for Sqlite {
    async fn ask(&self, new: NewExchange, receipt: NewReceipt, most: u32) -> Result<AskResult, Fault> {
        self.write_for(owner(&new.tenant), move |db| ask(db, &new, &receipt, most)).await
    }

    async fn delete_unsent_question(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        receipt: ReceiptKey,
    ) -> Result<(), Fault> {
        let owner = owner(tenant);
        let (tenant, correlation) = (tenant.clone(), correlation.clone());
        self.write_for(owner, move |db| {
            db.prepare_cached("DELETE FROM exchanges WHERE tenant = ?1 AND correlation = ?2 AND state = 0")?
                .execute([tenant.as_str(), correlation.as_str()])?;
            receipts::forget_unsent(db, receipt)
        })
        .await
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
            // A question with the same id can be asked again once the first is deleted.
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
        self.read(move |db| polled::open(db, after, at_most)).await
    }

    async fn overdue(
        &self,
        since: Moment,
        after: Option<i64>,
        at_most: u32,
    ) -> Result<Vec<(i64, Exchange)>, Fault> {
        self.read(move |db| polled::overdue(db, since, after, at_most)).await
    }

    async fn stop_looking(&self, tenant: &TenantId, correlation: &CorrelationId) -> Result<(), Fault> {
        let owner = owner(tenant);
        let (tenant, correlation) = (tenant.clone(), correlation.clone());
        self.write_for(owner, move |db| polled::stop(db, &tenant, &correlation)).await
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
        let owner = owner(tenant);
        let (tenant, correlation, content) = (tenant.clone(), correlation.clone(), content.to_owned());
        self.write_for(owner, move |db| ending::answer(db, &tenant, &correlation, &content, sent_at, now))
            .await
    }

    async fn fail(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        error: &str,
        now: Moment,
    ) -> Result<(), Fault> {
        let owner = owner(tenant);
        let (tenant, correlation, error) = (tenant.clone(), correlation.clone(), error.to_owned());
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "UPDATE exchanges SET state = 3, ended = ?4, error = ?3, counted = ledger_time()
                 WHERE tenant = ?1 AND correlation = ?2 AND state = 0 AND ends > ledger_time()",
            )?
            .execute(params![tenant.as_str(), correlation.as_str(), error, now.millis()])
            .map(drop)
        })
        .await
    }

    async fn expire(
        &self,
        now: Moment,
        at_most: u32,
        writing: HashSet<(TenantId, CorrelationId)>,
    ) -> Result<Vec<(TenantId, CorrelationId)>, Fault> {
        self.write(move |db| {
            let over: Vec<OverdueQuestion> = db
                .prepare_cached(OVER)?
                .query_map(params![at_most], OverdueQuestion::read)?
                .collect::<rusqlite::Result<_>>()?;
            let mut ended = Vec::with_capacity(over.len());
            for question in over {
                let name = (question.tenant.as_str().into(), question.correlation.as_str().into());
                question.end(db, now, writing.contains(&name))?;
                ended.push(name);
            }
            Ok(ended)
        })
        .await
    }

    async fn answer_with_begun(
        &self,
        tenant: &TenantId,
        correlation: &CorrelationId,
        now: Moment,
    ) -> Result<bool, Fault> {
        let owner = owner(tenant);
        let (tenant, correlation) = (tenant.clone(), correlation.clone());
        self.write_for(owner, move |db| {
            let open = db
                .prepare_cached(OPEN)?
                .query_row([tenant.as_str(), correlation.as_str()], OverdueQuestion::read)
                .optional()?;
            match open {
                Some(question) => question.take_begun(db, now),
                None => Ok(false),
            }
        })
        .await
    }

    async fn next_deadline(&self) -> Result<Option<Duration>, Fault> {
        self.read(|db| {
            let next = db.prepare_cached(NEXT)?.query_row([], |row| row.get(0)).optional()?;
            Ok(next.map(left))
        })
        .await
    }
}

/// A repeated question is attached even if the limit of open questions is reached.
fn ask(db: &Connection, new: &NewExchange, receipt: &NewReceipt, most: u32) -> rusqlite::Result<AskResult> {
    if let Some(before) = named(db, &new.tenant, &new.correlation)? {
        let same = before.caller == new.caller && before.digest == new.digest;
        return Ok(if same { AskResult::Attached(Box::new(before)) } else { AskResult::InUse });
    }
    let open: u32 =
        db.prepare_cached(COUNT)?.query_row(params![new.tenant.as_str(), most], |row| row.get(0))?;
    if open >= most {
        return Ok(AskResult::TooMany);
    }
    db.prepare_cached(
        "INSERT INTO exchanges
           (state, tenant, correlation, caller, connector, agent, instance, chat, dispatch, digest, reply_token,
            opened, deadline, ends, collected)
         VALUES (0, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ledger_time_at(?12), ?13)",
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
    count_for_tenant(db, new.tenant.as_str(), ROW)?;
    receipts::note(db, receipt).map(AskResult::Opened)
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
        left: left(row.get(17)?),
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

/// Counts only up to the limit.
const COUNT: &str = "SELECT count(*) FROM
    (SELECT 1 FROM exchanges INDEXED BY exchanges_open WHERE tenant = ?1 AND state = 0 LIMIT ?2)";

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
            (OVER.to_owned(), "SEARCH exchanges USING INDEX exchanges_ends (ends<?)"),
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
