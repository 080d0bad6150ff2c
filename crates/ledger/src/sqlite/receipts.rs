//! SQL of receipts: one row per delivery. If an entry carries it, the row of the entry holds its state.

mod carry;
mod lists;
mod outgoing;
mod replies;
mod rows;

use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, DispatchId, EntryId, InstanceId, MessageId, TenantId};
use rusqlite::{Connection, OptionalExtension, params};

use super::write_queue::JobTenant;
use super::{Sqlite, owner};
use crate::Fault;
use crate::receipts::{
    AttemptOutcome, Digest, NewReceipt, NewReply, OF_ONE_DISPATCH, Opened, Opening, Outgoing, Receipt,
    ReceiptFilter, ReceiptKey, Receipts, StoredReply,
};
pub(super) use carry::{CarriedReceipt, carried_by, carry};
pub(super) use lists::of_dispatch;
pub(super) use outgoing::{expire_instance, fail_outgoing_of, fail_tenant, forget_unsent};
pub(super) use replies::{answered_by, reply_times, unfinished};

#[async_trait]
impl Receipts for Sqlite {
    async fn open(&self, new: NewReceipt) -> Result<Opened, Fault> {
        if matches!(new.open, Opening::Entry) {
            return Err(Fault::Storage("a receipt for an entry is opened with that entry".to_owned()));
        }
        self.write_for(owner(&new.tenant), move |db| match rows::insert(db, &new, None)? {
            Some(key) => Ok(Opened::Fresh(key)),
            None => same(db, &new.tenant, &new.dispatch, new.digest).map(Box::new).map(Opened::Known),
        })
        .await
    }

    async fn receipt(
        &self,
        tenant: &TenantId,
        dispatch: &DispatchId,
        digest: Digest,
    ) -> Result<Option<Receipt>, Fault> {
        let (tenant, dispatch) = (tenant.clone(), dispatch.clone());
        self.read(move |db| same(db, &tenant, &dispatch, digest).optional()).await
    }

    async fn receipts_of(
        &self,
        tenant: Option<&TenantId>,
        sent_by: Option<&InstanceId>,
        dispatch: &DispatchId,
    ) -> Result<Vec<Receipt>, Fault> {
        let (tenant, sent_by, dispatch) = (tenant.cloned(), sent_by.cloned(), dispatch.clone());
        self.read(move |db| of_dispatch(db, tenant.as_ref(), sent_by.as_ref(), &dispatch, OF_ONE_DISPATCH))
            .await
    }

    async fn receipts(
        &self,
        filter: ReceiptFilter,
        before: Option<ReceiptKey>,
        at_most: u32,
    ) -> Result<Vec<Receipt>, Fault> {
        self.read(move |db| lists::newest_first(db, &filter, before, at_most)).await
    }

    async fn withdraw(&self, key: ReceiptKey, error: String) -> Result<(), Fault> {
        let owner = self.tenant_of_receipt(key).await?;
        let timepiece = self.timepiece.clone();
        self.write_for(owner, move |db| outgoing::withdraw(db, key, &error, timepiece.now())).await
    }

    async fn note_answer(
        &self,
        tenant: &TenantId,
        dispatch: &DispatchId,
        digest: Digest,
        answer: String,
    ) -> Result<(), Fault> {
        let owner = owner(tenant);
        let (tenant, dispatch) = (tenant.clone(), dispatch.clone());
        self.write_for(owner, move |db| {
            db.prepare_cached(
                "UPDATE receipts SET answer = ?4 WHERE dispatch = ?1 AND tenant = ?2 AND digest = ?3",
            )?
            .execute(params![dispatch.as_str(), tenant.as_str(), digest, answer])
            .map(drop)
        })
        .await
    }

    async fn attempted(&self, key: ReceiptKey, attempted: AttemptOutcome) -> Result<(), Fault> {
        let owner = self.tenant_of_receipt(key).await?;
        let timepiece = self.timepiece.clone();
        self.write_for(owner, move |db| outgoing::attempted(db, key, &attempted, timepiece.now())).await
    }

    async fn claim_outgoing(
        &self,
        lease_until: Moment,
        except: &[TenantId],
        at_most: u32,
    ) -> Result<Vec<Outgoing>, Fault> {
        let except = outgoing::listed(except);
        self.write(move |db| outgoing::claim(db, lease_until, &except, at_most)).await
    }

    async fn free_outgoing(&self) -> Result<(), Fault> {
        self.write(outgoing::free).await
    }

    async fn hold(&self, key: ReceiptKey, until: Moment) -> Result<(), Fault> {
        // Called by the loop that serves all tenants, which must not wait for the turn of one.
        self.write(move |db| outgoing::hold(db, key, until)).await
    }

    async fn next_outgoing(&self, except: &[TenantId]) -> Result<Option<Duration>, Fault> {
        let except = outgoing::listed(except);
        self.read(move |db| outgoing::next(db, &except)).await
    }

    async fn waiting(&self, tenant: &TenantId, at_most: u32) -> Result<u32, Fault> {
        let tenant = tenant.clone();
        self.read(move |db| outgoing::waiting(db, &tenant, at_most)).await
    }

    async fn start_scheduled(&self, key: ReceiptKey, lease_until: Moment) -> Result<Option<Outgoing>, Fault> {
        let owner = self.tenant_of_receipt(key).await?;
        self.write_for(owner, move |db| outgoing::start_scheduled(db, key, lease_until)).await
    }

    async fn said(
        &self,
        by: &InstanceId,
        chat: &ChatId,
        to: Option<&EntryId>,
        reply: NewReply,
    ) -> Result<Option<ReceiptKey>, Fault> {
        let owner = self.tenant_of(by);
        let (by, chat, to) = (by.clone(), chat.clone(), to.cloned());
        self.write_for(owner, move |db| {
            let found = replies::receipt_of_reply(db, &by, &chat, to.as_ref())?;
            if let Some(receipt) = found {
                replies::keep(db, receipt, &reply)?;
            }
            Ok(found)
        })
        .await
    }

    async fn amended(&self, by: &InstanceId, chat: &ChatId, reply: NewReply) -> Result<bool, Fault> {
        let owner = self.tenant_of(by);
        let (by, chat) = (by.clone(), chat.clone());
        self.write_for(owner, move |db| replies::amend(db, &by, &chat, &reply)).await
    }

    async fn unfinished(
        &self,
        by: &InstanceId,
        chat: &ChatId,
        to: Option<&EntryId>,
    ) -> Result<Option<(MessageId, String)>, Fault> {
        let (by, chat, to) = (by.clone(), chat.clone(), to.cloned());
        self.read(move |db| {
            let found = unfinished(db, &by, &chat, to.as_ref())?;
            Ok(found.map(|begun| (begun.message, begun.text)))
        })
        .await
    }

    async fn replied(&self, to: ReceiptKey, reply: NewReply) -> Result<(), Fault> {
        let owner = self.tenant_of_receipt(to).await?;
        self.write_for(owner, move |db| replies::keep(db, to, &reply)).await
    }

    async fn replies(&self, to: ReceiptKey) -> Result<Vec<StoredReply>, Fault> {
        self.read(move |db| replies::oldest_first(db, to)).await
    }
}

impl Sqlite {
    /// The tenant of a receipt, as the owner of writes for it.
    async fn tenant_of_receipt(&self, key: ReceiptKey) -> Result<JobTenant, Fault> {
        let tenant: Option<String> = self
            .read(move |db| {
                db.prepare_cached("SELECT tenant FROM receipts WHERE key = ?1")?
                    .query_row([key.0], |row| row.get(0))
                    .optional()
            })
            .await?;
        Ok(tenant.map(Into::into))
    }
}

/// Stores a delivery that is still to be made, unless it is already stored.
pub(super) fn note(db: &Connection, new: &NewReceipt) -> rusqlite::Result<ReceiptKey> {
    match rows::insert(db, new, None)? {
        Some(key) => Ok(key),
        None => same(db, &new.tenant, &new.dispatch, new.digest).map(|first| first.key),
    }
}

fn same(
    db: &Connection,
    tenant: &TenantId,
    dispatch: &DispatchId,
    digest: Digest,
) -> rusqlite::Result<Receipt> {
    db.prepare_cached(&format!(
        "{} WHERE receipts.dispatch = ?1 AND receipts.tenant = ?2 AND receipts.digest = ?3",
        rows::select("")
    ))?
    .query_row(params![dispatch.as_str(), tenant.as_str(), digest], rows::receipt)
}

fn at(db: &Connection, key: ReceiptKey) -> rusqlite::Result<Option<Receipt>> {
    db.prepare_cached(&format!("{} WHERE receipts.key = ?1", rows::select("")))?
        .query_row([key.0], rows::receipt)
        .optional()
}

/// The end of a delivery that has no entry, if it has ended.
pub(super) fn ended(db: &Connection, key: ReceiptKey) -> rusqlite::Result<Option<Moment>> {
    db.prepare_cached("SELECT ended FROM receipts WHERE key = ?1")?
        .query_row([key.0], |row| row.get(0).map(rows::moment))
}

/// The query plan of SQLite.
#[cfg(test)]
pub(super) fn plan(statement: &str) -> String {
    let mut db = Connection::open_in_memory().unwrap();
    super::migrate::run(&mut db).unwrap();
    let clock = super::ledger_time::LedgerClock::start(&mut db, &posthouse_time::Timepiece::wall());
    clock.unwrap().install(&db).unwrap();
    let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
    let zeros = rusqlite::params_from_iter(vec![0; explain.parameter_count()]);
    let steps = explain.query_map(zeros, |row| row.get::<_, String>("detail")).unwrap();
    steps.map(Result::unwrap).collect::<Vec<_>>().join("; ")
}
