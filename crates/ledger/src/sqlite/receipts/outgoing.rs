//! Pending deliveries and the results of their attempts.

use std::time::Duration;

use bytes::Bytes;
use posthouse_time::Moment;
use posthouse_wire::{InstanceId, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use crate::receipts::{AttemptOutcome, Outgoing, ReceiptKey};
use crate::sqlite::exchanges;
use crate::sqlite::ledger_time::left;

/// A delivery that has ended does not change. Neither does one that an entry carries, because the entry holds
/// its state.
pub(super) fn attempted(
    db: &Connection,
    key: ReceiptKey,
    attempted: &AttemptOutcome,
    now: Moment,
) -> rusqlite::Result<()> {
    match attempted {
        AttemptOutcome::Delivered { at, answer } => db
            .prepare_cached(
                "UPDATE receipts SET state = 3, delivered = ?2, answer = ?3, attempts = attempts + 1,
                   error = NULL, due = NULL, body = NULL
                 WHERE key = ?1 AND state = 1",
            )?
            .execute(params![key.0, at.millis(), answer]),
        AttemptOutcome::Postponed { due, error, answer } => db
            .prepare_cached(
                "UPDATE receipts SET due = ledger_time_at(?2), error = ?3, answer = ?4, attempts = attempts + 1
                 WHERE key = ?1 AND state = 1",
            )?
            .execute(params![key.0, due.millis(), error, answer]),
        // A scheduled delivery can fail too, if the clock refused it.
        AttemptOutcome::Failed { error, answer } => db
            .prepare_cached(
                "UPDATE receipts SET state = 5, ended = ?2, error = ?3, answer = ?4,
                   attempts = attempts + (state = 1), due = NULL, body = NULL
                 WHERE key = ?1 AND state IN (0, 1)",
            )?
            .execute(params![key.0, now.millis(), error, answer]),
        AttemptOutcome::PutOff { due } => db
            .prepare_cached("UPDATE receipts SET state = 0, due = ?2 WHERE key = ?1 AND state = 1")?
            .execute(params![key.0, due.millis()]),
    }
    .map(drop)
}

pub(super) fn claim(
    db: &Connection,
    lease_until: Moment,
    except: &str,
    at_most: u32,
) -> rusqlite::Result<Vec<Outgoing>> {
    let due: Vec<i64> = db
        .prepare_cached(DUE)?
        .query_map(params![at_most, except], |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let mut lease = db.prepare_cached("UPDATE receipts SET due = ledger_time_at(?2) WHERE key = ?1")?;
    let mut claimed = Vec::with_capacity(due.len());
    for key in due {
        lease.execute([key, lease_until.millis()])?;
        claimed.extend(outgoing(db, key)?);
    }
    Ok(claimed)
}

pub(super) fn next(db: &Connection, except: &str) -> rusqlite::Result<Option<Duration>> {
    let next = db.prepare_cached(NEXT)?.query_row([except], |row| row.get(0)).optional()?;
    Ok(next.map(left))
}

/// Tenants as a parameter of the statements: a JSON list.
pub(super) fn listed(tenants: &[TenantId]) -> String {
    serde_json::to_string(tenants).expect("ids are strings")
}

pub(super) fn waiting(db: &Connection, tenant: &TenantId, at_most: u32) -> rusqlite::Result<u32> {
    db.prepare_cached(WAITING)?.query_row(params![tenant.as_str(), at_most], |row| row.get(0))
}

/// The clock decides that the time has come. A delivery that was started before is started again only if the
/// result was never reported.
pub(super) fn start_scheduled(
    db: &Connection,
    key: ReceiptKey,
    lease_until: Moment,
) -> rusqlite::Result<Option<Outgoing>> {
    let brought = db
        .prepare_cached(
            "UPDATE receipts SET state = 1, due = ledger_time_at(?2), counted = ledger_time()
             WHERE key = ?1 AND (state = 0 OR (state = 1 AND due <= ledger_time()))",
        )?
        .execute([key.0, lease_until.millis()])?;
    if brought == 0 { Ok(None) } else { outgoing(db, key.0) }
}

pub(super) fn free(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE receipts SET due = ledger_time() WHERE state = 1 AND due > ledger_time()")?
        .execute([])
        .map(drop)
}

/// The row stays under a digest that nobody asks for, so that its key is not used again.
pub(super) fn withdraw(db: &Connection, key: ReceiptKey, error: &str, now: Moment) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE receipts SET state = 5, ended = ?3, error = ?2, due = NULL, body = NULL, digest = randomblob(16)
         WHERE key = ?1 AND state = 0",
    )?
    .execute(params![key.0, error, now.millis()])
    .map(drop)
}

/// Deletes a delivery that was refused before anything was sent. No entry and no alarm refers to its key, so
/// the key may be used again.
pub(in crate::sqlite) fn forget_unsent(db: &Connection, key: ReceiptKey) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM receipts WHERE key = ?1 AND state = 1 AND entry IS NULL")?
        .execute([key.0])
        .map(drop)
}

pub(super) fn hold(db: &Connection, key: ReceiptKey, until: Moment) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE receipts SET due = ledger_time_at(?2) WHERE key = ?1 AND state = 1 AND due IS NOT NULL",
    )?
    .execute(params![key.0, until.millis()])
    .map(drop)
}

/// Fails the pending deliveries and open questions of a connector that is being removed.
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

/// Fails the pending deliveries and open questions of a tenant that is being removed.
pub(in crate::sqlite) fn fail_tenant(
    db: &Connection,
    tenant: &TenantId,
    now: Moment,
) -> rusqlite::Result<()> {
    let error = "the tenant was removed";
    db.execute(FAIL_TENANT, params![tenant.as_str(), error, now.millis()])?;
    exchanges::fail_tenant(db, tenant, error, now)
}

/// Expires the pending deliveries of an agent that is being removed, and fails the open questions to it. The
/// entries in its inbox are dropped separately.
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
    WHERE due IS NOT NULL AND state = 1 AND due <= (SELECT ledger_time())
      AND tenant NOT IN (SELECT value FROM json_each(?2)) ORDER BY due LIMIT ?1";

const NEXT: &str = "SELECT max(due - ledger_time(), 0) FROM receipts INDEXED BY receipts_due
    WHERE due IS NOT NULL AND state = 1
      AND tenant NOT IN (SELECT value FROM json_each(?1)) ORDER BY due LIMIT 1";

const WAITING: &str = "SELECT count(*) FROM
    (SELECT 1 FROM receipts INDEXED BY receipts_waiting WHERE tenant = ?1 AND state = 1 LIMIT ?2)";

// These statements walk the pending deliveries of all tenants. Those are few, and removals are rare.

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
