//! SQL of dead letters: failed deliveries that make one, their list, and sending one again.

use posthouse_time::Moment;
use posthouse_wire::{EntryId, InstanceId};
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::inbox::{DeadLetter, DeadLetterFilter, DeadLetterPosition, FailedDelivery, LOST, POISONED};

/// Counts a failed delivery of an entry. True if the entry became a dead letter by it.
pub(super) fn record_failure(
    db: &Connection,
    of: &InstanceId,
    entry: &EntryId,
    failure: FailedDelivery,
    now: Moment,
) -> rusqlite::Result<bool> {
    let Some(id) = entry.bytes() else { return Ok(false) };
    let (poison, loss) = match failure {
        FailedDelivery::Poison => (1, 0),
        FailedDelivery::ConnectionLost => (0, 1),
    };
    db.prepare_cached(
        "UPDATE entries SET lost = lost + ?4,
           poisoned = poisoned + CASE WHEN ?4 = 1 AND lost + 1 >= ?5 THEN 1 ELSE ?3 END
         WHERE id = ?1 AND instance = ?2 AND fate IS NULL",
    )?
    .execute(params![id, of.as_str(), poison, loss, LOST])?;
    let died = db
        .prepare_cached(
            "UPDATE entries SET fate = 'dead', ended = ?3, counted = ledger_time()
             WHERE id = ?1 AND instance = ?2 AND fate IS NULL AND poisoned >= ?4",
        )?
        .execute(params![id, of.as_str(), now.millis(), POISONED])?;
    Ok(died > 0)
}

/// The latest first.
pub(super) fn list(
    db: &Connection,
    filter: &DeadLetterFilter,
    at_most: u32,
) -> rusqlite::Result<Vec<DeadLetter>> {
    let DeadLetterFilter { instance, tenant, after } = filter;
    let after = after.unwrap_or(DeadLetterPosition { counted: i64::MAX, seq: i64::MAX });
    db.prepare_cached(
        "SELECT id, instance, platform, chat, accepted, ended, counted, seq FROM entries
         WHERE fate = 'dead' AND (?1 IS NULL OR instance = ?1)
           AND (?2 IS NULL OR instance IN (SELECT id FROM instances WHERE tenant = ?2))
           AND (counted, seq) < (?3, ?4)
         ORDER BY counted DESC, seq DESC LIMIT ?5",
    )?
    .query_map(
        params![
            instance.as_ref().map(|instance| instance.as_str()),
            tenant.as_ref().map(|tenant| tenant.as_str()),
            after.counted,
            after.seq,
            at_most
        ],
        dead_letter,
    )?
    .collect()
}

/// Puts a dead letter back into its inbox. Returns its agent.
pub(super) fn redrive(db: &Connection, entry: &EntryId) -> rusqlite::Result<Option<InstanceId>> {
    let Some(id) = entry.bytes() else { return Ok(None) };
    // Its retention starts anew. An entry that was given up on weeks ago would otherwise be dropped before its agent
    // could fetch it.
    db.prepare_cached(
        "UPDATE entries SET fate = NULL, ended = NULL, poisoned = 0, lost = 0, counted = ledger_time(),
           stale_at = NULL, stale_action = NULL
         WHERE id = ?1 AND fate = 'dead' RETURNING instance",
    )?
    .query_row([id], |row| row.get::<_, String>(0))
    .optional()
    .map(|found| found.map(InstanceId::from))
}

fn dead_letter(row: &Row<'_>) -> rusqlite::Result<DeadLetter> {
    Ok(DeadLetter {
        entry: EntryId::from_bytes(row.get(0)?),
        instance: row.get::<_, String>(1)?.into(),
        platform: row.get::<_, String>(2)?.into(),
        chat: row.get::<_, String>(3)?.into(),
        accepted: Moment::from_millis(row.get(4)?),
        died: Moment::from_millis(row.get(5)?),
        position: DeadLetterPosition { counted: row.get(6)?, seq: row.get(7)? },
    })
}
