//! The end of a question: by an answer, at its deadline, or because its agent, connector or tenant is removed.

use posthouse_time::Moment;
use posthouse_wire::delivery::DeliveryFailed;
use posthouse_wire::{ChatId, CorrelationId, InstanceId, TenantId};
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::exchanges::{Answered, ExchangeState};
use crate::sqlite::receipts;

pub(super) fn answer(
    db: &Connection,
    tenant: &TenantId,
    correlation: &CorrelationId,
    content: &str,
    sent_at: i64,
    now: Moment,
) -> rusqlite::Result<Answered> {
    let found = db
        .prepare_cached(
            "SELECT seq, state, ends <= ledger_time() FROM exchanges WHERE tenant = ?1 AND correlation = ?2",
        )?
        .query_row([tenant.as_str(), correlation.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    let Some((seq, state, is_over)): Option<(i64, ExchangeState, bool)> = found else {
        return Ok(Answered::Absent);
    };
    match state {
        ExchangeState::Answered => Ok(Answered::Duplicate),
        ExchangeState::TimedOut | ExchangeState::Failed => Ok(Answered::Late),
        ExchangeState::Open if is_over => {
            db.prepare_cached(TIME_IS_UP)?.execute([seq, now.millis()])?;
            Ok(Answered::Late)
        }
        ExchangeState::Open => {
            db.prepare_cached(
                "UPDATE exchanges SET state = 1, ended = ?2, answered = ?3, answer = ?4, counted = ledger_time()
                 WHERE seq = ?1",
            )?
            .execute(params![seq, now.millis(), sent_at, content])?;
            Ok(Answered::First)
        }
    }
}

/// Fails the open questions to an agent that is being removed.
pub(in crate::sqlite) fn fail_instance(
    db: &Connection,
    instance: &InstanceId,
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    fail_open(db, "instance = ?1", params![instance.as_str()], error, now)
}

/// Fails the open questions over a connector that is being removed.
pub(in crate::sqlite) fn fail_connector(
    db: &Connection,
    tenant: &TenantId,
    connector: &str,
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    fail_open(db, "tenant = ?1 AND connector = ?2", params![tenant.as_str(), connector], error, now)
}

/// Fails the open questions of a tenant that is being removed.
pub(in crate::sqlite) fn fail_tenant(
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
    let mut fail = db.prepare_cached(
        "UPDATE exchanges SET state = 3, ended = ?2, error = ?3, counted = ledger_time() WHERE seq = ?1",
    )?;
    for (seq, agent) in open {
        let error = DeliveryFailed::client_validation(agent, error);
        let error = serde_json::to_string(&error).expect("strings and numbers are always JSON");
        fail.execute(params![seq, now.millis(), error])?;
    }
    Ok(())
}

/// A question past its deadline.
pub(super) struct OverdueQuestion {
    seq: i64,
    pub tenant: String,
    pub correlation: String,
    instance: Option<InstanceId>,
    chat: Option<ChatId>,
}

impl OverdueQuestion {
    pub fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            seq: row.get(0)?,
            tenant: row.get(1)?,
            correlation: row.get(2)?,
            instance: row.get::<_, Option<String>>(3)?.map(Into::into),
            chat: row.get::<_, Option<String>>(4)?.map(Into::into),
        })
    }

    /// A question times out if no part of its answer has come, or if the agent is still writing: half an
    /// answer is none.
    pub fn end(&self, db: &Connection, now: Moment, is_writing: bool) -> rusqlite::Result<()> {
        if !is_writing && self.take_begun(db, now)? {
            return Ok(());
        }
        db.prepare_cached(TIME_IS_UP)?.execute([self.seq, now.millis()]).map(drop)
    }

    /// Takes the text so far as the answer. A stock agent that has sent its whole answer in parts sends
    /// nothing more when it is done. False when it has sent nothing.
    pub fn take_begun(&self, db: &Connection, now: Moment) -> rusqlite::Result<bool> {
        let (Some(instance), Some(chat)) = (&self.instance, &self.chat) else { return Ok(false) };
        let Some(begun) = receipts::unfinished(db, instance, chat, None)? else { return Ok(false) };
        receipts::answered_by(db, &begun)?;
        db.prepare_cached(
            "UPDATE exchanges SET state = 1, ended = ?2, counted = ledger_time(), answered = ?2, answer = ?3
             WHERE seq = ?1",
        )?
        .execute(params![self.seq, now.millis(), begun.text])?;
        Ok(true)
    }
}

pub(super) const OVER: &str =
    "SELECT seq, tenant, correlation, instance, chat FROM exchanges INDEXED BY exchanges_ends
    WHERE state = 0 AND ends <= (SELECT ledger_time()) ORDER BY ends LIMIT ?1";

/// An open question with time left.
pub(super) const OPEN: &str = "SELECT seq, tenant, correlation, instance, chat FROM exchanges
    WHERE tenant = ?1 AND correlation = ?2 AND state = 0 AND ends > ledger_time()";

/// The retention counts from the time at which the deadline was noticed, not from the deadline. A server that
/// was down for long can still report the timeout to a caller that returns.
const TIME_IS_UP: &str = "UPDATE exchanges SET state = 2, ended = ?2, counted = ledger_time() WHERE seq = ?1";

pub(super) const NEXT: &str = "SELECT max(ends - ledger_time(), 0) FROM exchanges INDEXED BY exchanges_ends
    WHERE state = 0 ORDER BY ends LIMIT 1";
