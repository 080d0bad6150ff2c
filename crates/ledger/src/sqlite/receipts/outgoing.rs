//! Deliveries that are still to be made, and how their attempts end.

use bytes::Bytes;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::rows;
use crate::receipts::{Attempted, Outgoing, ReceiptKey};
use crate::sqlite::exchanges;

/// A delivery that has ended stays as it ended, and what an entry carries is the entry's to tell.
pub(super) fn attempted(
    db: &Connection,
    key: ReceiptKey,
    attempted: &Attempted,
    now: Moment,
) -> rusqlite::Result<()> {
    match attempted {
        Attempted::Delivered { at, answer } => db
            .prepare_cached(
                "UPDATE receipts SET state = 3, delivered = ?2, answer = ?3, attempts = attempts + 1,
                   error = NULL, due = NULL, body = NULL
                 WHERE key = ?1 AND state = 1",
            )?
            .execute(params![key.0, at.millis(), answer]),
        Attempted::Postponed { due, error, answer } => db
            .prepare_cached(
                "UPDATE receipts SET due = ?2, error = ?3, answer = ?4, attempts = attempts + 1
                 WHERE key = ?1 AND state = 1",
            )?
            .execute(params![key.0, due.millis(), error, answer]),
        // One that was only scheduled can fail as well: the clock would not have it.
        Attempted::Failed { error, answer } => db
            .prepare_cached(
                "UPDATE receipts SET state = 5, ended = ?2, error = ?3, answer = ?4,
                   attempts = attempts + (state = 1), due = NULL, body = NULL
                 WHERE key = ?1 AND state IN (0, 1)",
            )?
            .execute(params![key.0, now.millis(), error, answer]),
        Attempted::Answered { answer } => db
            .prepare_cached("UPDATE receipts SET answer = ?2 WHERE key = ?1")?
            .execute(params![key.0, answer]),
    }
    .map(drop)
}

pub(super) fn claim(
    db: &Connection,
    now: Moment,
    lease_until: Moment,
    except: &str,
    at_most: u32,
) -> rusqlite::Result<Vec<Outgoing>> {
    let due: Vec<i64> = db
        .prepare_cached(DUE)?
        .query_map(params![now.millis(), at_most, except], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut lease = db.prepare_cached("UPDATE receipts SET due = ?2 WHERE key = ?1")?;
    let mut claimed = Vec::with_capacity(due.len());
    for key in due {
        lease.execute([key, lease_until.millis()])?;
        claimed.extend(outgoing(db, key)?);
    }
    Ok(claimed)
}

pub(super) fn next(db: &Connection, except: &str) -> rusqlite::Result<Option<Moment>> {
    let next = db.prepare_cached(NEXT)?.query_row([except], |row| row.get(0)).optional()?;
    Ok(rows::moment(next))
}

/// Tenants as the statements take them: a list in JSON.
pub(super) fn listed(tenants: &[TenantId]) -> String {
    serde_json::to_string(tenants).expect("ids are texts")
}

pub(super) fn waiting(db: &Connection, tenant: &TenantId, at_most: u32) -> rusqlite::Result<u32> {
    db.prepare_cached(WAITING)?.query_row(params![tenant.as_str(), at_most], |row| row.get(0))
}

/// That the time has come is the clock's to say. One that was brought up before is brought up again only
/// if whoever had it never reported.
pub(super) fn bring_up(
    db: &Connection,
    key: ReceiptKey,
    now: Moment,
    lease_until: Moment,
) -> rusqlite::Result<Option<Outgoing>> {
    let brought = db
        .prepare_cached(
            "UPDATE receipts SET state = 1, due = ?3, counted = ?2
             WHERE key = ?1 AND (state = 0 OR (state = 1 AND due <= ?2))",
        )?
        .execute([key.0, now.millis(), lease_until.millis()])?;
    if brought == 0 { Ok(None) } else { outgoing(db, key.0) }
}

pub(super) fn free(db: &Connection, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE receipts SET due = ?1 WHERE state = 1 AND due > ?1")?
        .execute([now.millis()])
        .map(drop)
}

/// The row stays, so that its key is not given out again, under a digest that nobody asks for.
pub(super) fn withdraw(db: &Connection, key: ReceiptKey, error: &str, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE receipts SET state = 5, ended = ?3, error = ?2, due = NULL, body = NULL, digest = randomblob(16)
         WHERE key = ?1 AND state = 0",
    )?
    .execute(params![key.0, error, now.millis()])
    .map(drop)
}

pub(super) fn hold(db: &Connection, key: ReceiptKey, until: Moment) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE receipts SET due = ?2 WHERE key = ?1 AND state = 1 AND due IS NOT NULL")?
        .execute(params![key.0, until.millis()])
        .map(drop)
}

/// A connector is taken away: what it had still to deliver has failed, and nobody answers by it any more.
pub(in crate::sqlite) fn fail_outgoing_of(
    db: &Connection,
    tenant: &TenantId,
    connector: &str,
    error: &str,
    now: Moment,
) -> rusqlite::Result<()> {
    db.prepare_cached(FAIL_CONNECTOR)?.execute(params![tenant.as_str(), connector, error, now.millis()])?;
    exchanges::fail_connector(db, tenant, connector, error, now)
}

/// A tenant is taken away, with everything that could still deliver.
pub(in crate::sqlite) fn fail_tenant(
    db: &Connection,
    tenant: &TenantId,
    now: Moment,
) -> rusqlite::Result<()> {
    let error = "the tenant was removed";
    db.execute(FAIL_TENANT, params![tenant.as_str(), error, now.millis()])?;
    exchanges::fail_tenant(db, tenant, error, now)
}

/// An agent is taken away: nobody will come for what was still to be brought to it, nor answer. What lies
/// in its inbox is dropped there.
pub(in crate::sqlite) fn expire_instance(
    db: &Connection,
    instance: &InstanceId,
    now: Moment,
) -> rusqlite::Result<()> {
    db.execute(EXPIRE_INSTANCE, params![instance.as_str(), now.millis()])?;
    exchanges::fail_instance(db, instance, "the agent was removed", now)
}

fn outgoing(db: &Connection, key: i64) -> rusqlite::Result<Option<Outgoing>> {
    let body = db
        .prepare_cached("SELECT body FROM receipts WHERE key = ?1 AND body IS NOT NULL")?
        .query_row([key], |row| row.get::<_, Vec<u8>>(0))
        .optional()?;
    let Some(body) = body else { return Ok(None) };
    let receipt = super::at(db, ReceiptKey(key))?;
    Ok(receipt.map(|receipt| Outgoing { receipt, body: Bytes::from(body) }))
}

const DUE: &str = "SELECT key FROM receipts INDEXED BY receipts_due
    WHERE due IS NOT NULL AND state = 1 AND due <= ?1
      AND tenant NOT IN (SELECT value FROM json_each(?3)) ORDER BY due LIMIT ?2";

const NEXT: &str = "SELECT due FROM receipts INDEXED BY receipts_due
    WHERE due IS NOT NULL AND state = 1
      AND tenant NOT IN (SELECT value FROM json_each(?1)) ORDER BY due LIMIT 1";

const WAITING: &str = "SELECT count(*) FROM
    (SELECT 1 FROM receipts INDEXED BY receipts_waiting WHERE tenant = ?1 AND state = 1 LIMIT ?2)";

// These walk through what is still to be done, of everybody: that is little, and removing is rare.

const FAIL_CONNECTOR: &str = "UPDATE receipts SET state = 5, ended = ?4, error = ?3, due = NULL, body = NULL
    WHERE key IN (SELECT key FROM receipts INDEXED BY receipts_due
                  WHERE due IS NOT NULL AND state IN (0, 1) AND tenant = ?1 AND connector = ?2)";

const FAIL_TENANT: &str = "UPDATE receipts SET state = 5, ended = ?3, error = ?2, due = NULL, body = NULL
    WHERE key IN (SELECT key FROM receipts INDEXED BY receipts_due
                  WHERE due IS NOT NULL AND state IN (0, 1) AND tenant = ?1)";

const EXPIRE_INSTANCE: &str = "UPDATE receipts SET state = 6, ended = ?2, due = NULL, body = NULL
    WHERE key IN (SELECT key FROM receipts INDEXED BY receipts_due
                  WHERE due IS NOT NULL AND state IN (0, 1) AND instance = ?1)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_to_be_done_next_is_found_at_the_head_of_an_index() {
        for statement in [DUE, NEXT] {
            let plan = crate::sqlite::receipts::plan(statement);
            assert!(plan.starts_with("SEARCH receipts USING COVERING INDEX receipts_due"), "{plan}");
            assert!(!plan.contains("TEMP B-TREE"), "it is in order as it is read: {plan}");
        }
    }
}
