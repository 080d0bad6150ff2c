//! Lists of receipts, in order.

use posthouse_wire::{DispatchId, InstanceId, TenantId};
use rusqlite::Connection;
use rusqlite::types::ToSql;

use super::rows::{self, STATE};
use crate::receipts::{Receipt, ReceiptFilter, ReceiptKey, ReceiptState};

/// In the order they were opened. The number is limited, because programs can use an id any number of times.
pub(in crate::sqlite) fn of_dispatch(
    db: &Connection,
    tenant: Option<&TenantId>,
    sent_by: Option<&InstanceId>,
    dispatch: &DispatchId,
    at_most: u32,
) -> rusqlite::Result<Vec<Receipt>> {
    let tenant = tenant.map(TenantId::as_str);
    let sent_by = sent_by.map(InstanceId::as_str);
    let dispatch = dispatch.as_str();
    let mut given: Vec<(&str, &dyn ToSql)> = vec![(":dispatch", &dispatch), (":at_most", &at_most)];
    given.extend(tenant.as_ref().map(|tenant| (":tenant", any(tenant))));
    given.extend(sent_by.as_ref().map(|sent_by| (":sent_by", any(sent_by))));
    let statement = dispatched(tenant.is_some(), sent_by.is_some());
    db.prepare_cached(&statement)?.query_map(&*given, rows::receipt)?.collect()
}

/// The index of the dispatch is used for every filter, because a dispatch has fewer receipts than an agent
/// has sent.
fn dispatched(by_tenant: bool, by_sender: bool) -> String {
    let tenant = if by_tenant { "AND receipts.tenant = :tenant" } else { "" };
    let sender = if by_sender { "AND receipts.sent_by = :sent_by" } else { "" };
    format!(
        "{} WHERE receipts.dispatch = :dispatch {tenant} {sender} ORDER BY receipts.key LIMIT :at_most",
        rows::select("INDEXED BY receipts_same")
    )
}

pub(super) fn newest_first(
    db: &Connection,
    filter: &ReceiptFilter,
    before: Option<ReceiptKey>,
    at_most: u32,
) -> rusqlite::Result<Vec<Receipt>> {
    let before = before.map_or(i64::MAX, |key| key.0);
    let tenant = filter.tenant.as_ref().map(TenantId::as_str);
    let sent_by = filter.sent_by.as_ref().map(InstanceId::as_str);
    let state = filter.state.map(rows::number);
    let mut given: Vec<(&str, &dyn ToSql)> = vec![(":before", &before), (":at_most", &at_most)];
    for (name, value) in [
        (":tenant", tenant.as_ref().map(any)),
        (":sent_by", sent_by.as_ref().map(any)),
        (":agent", filter.agent.as_ref().map(any)),
        (":state", state.as_ref().map(any)),
    ] {
        given.extend(value.map(|value| (name, value)));
    }
    db.prepare_cached(&listing(filter))?.query_map(&*given, rows::receipt)?.collect()
}

/// The list that is certainly the shortest is walked from its newest end. The other conditions filter on the
/// way.
fn listing(filter: &ReceiptFilter) -> String {
    let mut narrowed = String::from("receipts.key < :before");
    for (requested, condition) in [
        (filter.tenant.is_some(), "receipts.tenant = :tenant"),
        (filter.sent_by.is_some(), "receipts.sent_by = :sent_by"),
        (filter.agent.is_some(), OF_AGENT),
        (filter.state.is_some(), &format!("{STATE} = :state")),
    ] {
        if requested {
            narrowed = format!("{narrowed} AND {condition}");
        }
    }
    let indexed = match filter {
        // Scheduled receipts are few among very many, so they have an index of their own.
        ReceiptFilter { state: Some(ReceiptState::Scheduled), .. } => {
            narrowed.push_str(" AND receipts.state = 0 AND receipts.due IS NOT NULL");
            "INDEXED BY receipts_due"
        }
        ReceiptFilter { sent_by: Some(_), .. } => "INDEXED BY receipts_sent_by",
        ReceiptFilter { tenant: Some(_), .. } => "INDEXED BY receipts_tenant",
        _ => "NOT INDEXED",
    };
    format!("{} WHERE {narrowed} ORDER BY receipts.key DESC LIMIT :at_most", rows::select(indexed))
}

/// Connectors split an address themselves, so a wake may be stored under an agent with a session.
const OF_AGENT: &str = "(receipts.agent = :agent
    OR substr(receipts.agent, 1, length(:agent) + 1) = :agent || '@')";

fn any<T: ToSql>(value: &T) -> &dyn ToSql {
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::receipts::plan;

    #[test]
    fn every_list_is_read_in_its_order() {
        let tenants = ReceiptFilter { tenant: Some("ten".into()), ..ReceiptFilter::default() };
        let agents = ReceiptFilter { sent_by: Some("inst".into()), ..tenants.clone() };
        let delivered = ReceiptFilter { state: Some(ReceiptState::Delivered), ..tenants.clone() };
        for (filter, walk) in [
            (ReceiptFilter::default(), "SEARCH receipts USING INTEGER PRIMARY KEY (rowid<?)"),
            (tenants, "SEARCH receipts USING INDEX receipts_tenant (tenant=? AND rowid<?)"),
            (delivered, "SEARCH receipts USING INDEX receipts_tenant (tenant=? AND rowid<?)"),
            (agents, "SEARCH receipts USING INDEX receipts_sent_by (sent_by=? AND rowid<?)"),
        ] {
            let plan = plan(&listing(&filter));
            assert!(plan.starts_with(walk) && !plan.contains("TEMP B-TREE"), "{plan}");
        }
    }

    #[test]
    fn a_dispatch_is_found_by_its_id_and_tenant_whoever_sent_it() {
        for (by_tenant, by_sender, walk) in [
            (false, false, "SEARCH receipts USING INDEX receipts_same (dispatch=?)"),
            (true, false, "SEARCH receipts USING INDEX receipts_same (dispatch=? AND tenant=?)"),
            (true, true, "SEARCH receipts USING INDEX receipts_same (dispatch=? AND tenant=?)"),
        ] {
            let plan = plan(&dispatched(by_tenant, by_sender));
            assert!(plan.starts_with(walk), "{plan}");
        }
    }

    #[test]
    fn what_is_scheduled_is_found_without_walking_through_the_rest() {
        let filter = ReceiptFilter { state: Some(ReceiptState::Scheduled), ..ReceiptFilter::default() };
        let plan = plan(&listing(&filter));
        assert!(plan.starts_with("SEARCH receipts USING INDEX receipts_due (state=?"), "{plan}");
    }
}
