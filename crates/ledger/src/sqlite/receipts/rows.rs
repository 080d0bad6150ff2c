//! Rows of receipts: columns, inserts and reads.

use posthouse_time::Moment;
use posthouse_wire::{ClientId, EntryId, InstanceId, TenantId};
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};

use super::super::usage::{ROW, count_for_tenant};
use crate::Owner;
use crate::receipts::{DispatchVerb, NewReceipt, Opening, Receipt, ReceiptKey, ReceiptState};

/// State of a receipt that an entry carries: the entry holds the real one.
pub(super) const CARRIED: i64 = 2;

/// State of a delivery, from the receipt or its entry. An entry that is gone without a fate of its own
/// expired.
pub(super) const STATE: &str = "CASE WHEN receipts.state <> 2 THEN receipts.state
       WHEN entries.fate = 'acknowledged' THEN 4
       WHEN entries.fate = 'dead' THEN 5
       WHEN entries.fate = 'dropped' OR entries.id IS NULL THEN 6
       WHEN entries.handed IS NOT NULL THEN 3
       ELSE 1 END";

/// The columns of a receipt from `receipts`, read by the given index if there is one.
pub(super) fn select(indexed: &str) -> String {
    format!(
        "SELECT receipts.key, receipts.tenant, receipts.dispatch, receipts.digest, receipts.connector,
           receipts.agent, receipts.instance, receipts.chat, receipts.session, receipts.verb, receipts.sender,
           receipts.sent_by, receipts.sent, receipts.accepted,
           CASE receipts.state WHEN 2 THEN entries.handed ELSE receipts.delivered END,
           CASE receipts.state WHEN 2 THEN entries.ended ELSE receipts.ended END,
           {STATE}, CASE receipts.state WHEN 1 THEN wall_time_at(receipts.due) ELSE receipts.due END,
           receipts.attempts, receipts.error, receipts.skipped, receipts.entry,
           receipts.answer
         FROM receipts {indexed}
         LEFT JOIN entries ON entries.id = receipts.entry AND receipts.state = 2"
    )
}

pub(super) fn receipt(row: &Row<'_>) -> rusqlite::Result<Receipt> {
    let tenant = TenantId::from(row.get::<_, String>(1)?);
    let sent_by = row.get::<_, Option<String>>(11)?.map(InstanceId::from);
    let state = numbered(row.get(16)?)?;
    let sender = match row.get::<_, Option<String>>(10)? {
        Some(sender) => ClientId::from(sender),
        None => usual_sender(&tenant, sent_by.as_ref()),
    };
    Ok(Receipt {
        key: ReceiptKey(row.get(0)?),
        dispatch: row.get::<_, String>(2)?.into(),
        digest: row.get(3)?,
        connector: row.get(4)?,
        agent: row.get(5)?,
        instance: row.get::<_, Option<String>>(6)?.map(Into::into),
        chat: row.get::<_, Option<String>>(7)?.map(Into::into),
        session: row.get(8)?,
        verb: row.get(9)?,
        sender,
        sent_at: Moment::from_millis(row.get(12)?),
        accepted_at: Moment::from_millis(row.get(13)?),
        delivered_at: moment(row.get(14)?),
        acknowledged_at: moment(row.get(15)?).filter(|_| state == ReceiptState::Acknowledged),
        state,
        due: moment(row.get(17)?),
        attempts: row.get(18)?,
        error: row.get(19)?,
        skipped: row.get(20)?,
        entry: row.get::<_, Option<[u8; 16]>>(21)?.map(EntryId::from_bytes),
        answer: row.get(22)?,
        tenant,
        sent_by,
    })
}

pub(super) fn moment(millis: Option<i64>) -> Option<Moment> {
    millis.map(Moment::from_millis)
}

/// Writes a receipt, carried by the entry if there is one. None when the same delivery came before.
pub(super) fn insert(
    db: &Connection,
    new: &NewReceipt,
    entry: Option<[u8; 16]>,
) -> rusqlite::Result<Option<ReceiptKey>> {
    let (state, body, due) = match &new.open {
        Opening::Attempt { body, due } if entry.is_none() => (1, Some(&body[..]), Some(due.millis())),
        Opening::Scheduled { body, at } if entry.is_none() => (0, Some(&body[..]), Some(at.millis())),
        _ => (CARRIED, None, None),
    };
    let made = db
        .prepare_cached(
            "INSERT INTO receipts
               (state, tenant, dispatch, digest, connector, agent, instance, chat, session, verb, sender, sent_by,
                sent, accepted, counted, due, skipped, entry, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ledger_time(),
               CASE ?1 WHEN 1 THEN ledger_time_at(?15) ELSE ?15 END, ?16,
               ?17, ?18)
             ON CONFLICT DO NOTHING",
        )?
        .execute(params![
            state,
            new.tenant.as_str(),
            new.dispatch.as_str(),
            new.digest,
            new.connector,
            new.agent,
            new.instance.as_ref().map(InstanceId::as_str),
            new.chat.as_ref().map(|chat| chat.as_str()),
            new.session,
            new.verb,
            unusual_sender(new),
            new.sent_by.as_ref().map(InstanceId::as_str),
            new.sent_at.millis(),
            new.accepted.millis(),
            due,
            new.skipped,
            entry,
            body,
        ])?;
    if made == 0 {
        return Ok(None);
    }
    let key = ReceiptKey(db.last_insert_rowid());
    count_for_tenant(db, new.tenant.as_str(), ROW + body.map_or(0, |body| body.len() as i64))?;
    Ok(Some(key))
}

/// Most deliveries are sent with the credential that they are stored under.
fn usual_sender(tenant: &TenantId, sent_by: Option<&InstanceId>) -> ClientId {
    match sent_by {
        Some(instance) => Owner::Instance(instance.clone()).client(),
        None => Owner::Tenant(tenant.clone()).client(),
    }
}

fn unusual_sender(new: &NewReceipt) -> Option<&str> {
    let usual = usual_sender(&new.tenant, new.sent_by.as_ref());
    (new.sender != usual).then(|| new.sender.as_str())
}

impl ToSql for DispatchVerb {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            DispatchVerb::Deliver => 0,
            DispatchVerb::Wake => 1,
            DispatchVerb::Exchange => 2,
        }
        .into())
    }
}

impl FromSql for DispatchVerb {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        match value.as_i64()? {
            0 => Ok(DispatchVerb::Deliver),
            1 => Ok(DispatchVerb::Wake),
            2 => Ok(DispatchVerb::Exchange),
            other => Err(FromSqlError::OutOfRange(other)),
        }
    }
}

/// The stored number of a state. A delivery that an entry carries has none of its own.
pub(super) fn number(of: ReceiptState) -> i64 {
    match of {
        ReceiptState::Scheduled => 0,
        ReceiptState::Queued => 1,
        ReceiptState::Delivered => 3,
        ReceiptState::Acknowledged => 4,
        ReceiptState::Failed => 5,
        ReceiptState::Expired => 6,
    }
}

fn numbered(number: i64) -> rusqlite::Result<ReceiptState> {
    let state = ReceiptState::ALL.into_iter().find(|state| self::number(*state) == number);
    state.ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}
