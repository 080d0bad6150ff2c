//! Questions whose answers the server polls for. They are read in the order they were asked, so that the many
//! questions of one tenant do not displace those of the others.

use posthouse_time::Moment;
use posthouse_wire::{CorrelationId, TenantId};
use rusqlite::{Connection, Row, params};

use super::EXCHANGE;
use crate::exchanges::Exchange;

pub(super) fn open(
    db: &Connection,
    after: Option<i64>,
    at_most: u32,
) -> rusqlite::Result<Vec<(i64, Exchange)>> {
    db.prepare_cached(&of_open())?.query_map(params![after.unwrap_or(0), at_most], numbered)?.collect()
}

pub(super) fn overdue(
    db: &Connection,
    since: Moment,
    after: Option<i64>,
    at_most: u32,
) -> rusqlite::Result<Vec<(i64, Exchange)>> {
    db.prepare_cached(&of_overdue())?
        .query_map(params![after.unwrap_or(0), at_most, since.millis()], numbered)?
        .collect()
}

pub(super) fn stop(db: &Connection, tenant: &TenantId, correlation: &CorrelationId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE exchanges SET collected = 0 WHERE tenant = ?1 AND correlation = ?2")?
        .execute([tenant.as_str(), correlation.as_str()])
        .map(drop)
}

fn numbered(row: &Row<'_>) -> rusqlite::Result<(i64, Exchange)> {
    Ok((row.get("seq")?, super::exchange(row)?))
}

fn of_open() -> String {
    format!(
        "{EXCHANGE} INDEXED BY exchanges_uncollected WHERE state = 0 AND collected = 1 AND seq > ?1
         ORDER BY seq LIMIT ?2"
    )
}

fn of_overdue() -> String {
    format!(
        "{EXCHANGE} INDEXED BY exchanges_overdue
         WHERE collected = 1 AND state >= 2 AND seq > ?1 AND counted > (SELECT ledger_time_at(?3)) ORDER BY seq LIMIT ?2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::receipts::plan;

    #[test]
    fn what_has_to_be_looked_for_is_walked_through_apart_from_the_rest() {
        for (statement, walk) in [
            (of_open(), "SEARCH exchanges USING INDEX exchanges_uncollected (seq>?)"),
            (of_overdue(), "SEARCH exchanges USING INDEX exchanges_overdue (seq>?)"),
        ] {
            let plan = plan(&statement);
            assert!(plan.starts_with(walk) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }
}
