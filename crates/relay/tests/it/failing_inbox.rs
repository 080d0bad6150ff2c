//! An inbox that cannot be read for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use ledger::{
    Acknowledgement, Append, Appended, BotRef, DeadLetter, DeadLetterFilter, Entry, ExpiredEntry,
    FailedDelivery, Fault, Inbox, Seq, StaleEntries, Unread,
};
use posthouse_time::Moment;
use posthouse_wire::{DedupKey, EntryId, InstanceId};

use crate::test_server::{TestServer, eventually, seconds};

/// Passes everything on, except that reading fails while it is told so.
pub struct FailingInbox {
    pub inner: Arc<dyn Inbox>,
    pub fails: AtomicBool,
    pub reads: AtomicUsize,
}

#[async_trait]
impl StaleEntries for FailingInbox {
    async fn agents_with_expired(&self) -> Result<Vec<InstanceId>, Fault> {
        self.inner.agents_with_expired().await
    }

    async fn expire(
        &self,
        of: &InstanceId,
        only: Option<Vec<EntryId>>,
        at_most: u16,
    ) -> Result<Vec<ExpiredEntry>, Fault> {
        self.inner.expire(of, only, at_most).await
    }

    async fn handed_late(&self, of: &InstanceId, entry: &EntryId) -> Result<(), Fault> {
        self.inner.handed_late(of, entry).await
    }
}

#[async_trait]
impl Inbox for FailingInbox {
    async fn append(&self, append: Append) -> Result<Appended, Fault> {
        self.inner.append(append).await
    }

    async fn known(&self, on: &BotRef, dedup: &DedupKey) -> Result<Option<EntryId>, Fault> {
        self.inner.known(on, dedup).await
    }

    async fn unread(&self, of: &InstanceId, after: Seq, at_most: u16) -> Result<Vec<Entry>, Fault> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(Fault::Full);
        }
        self.inner.unread(of, after, at_most).await
    }

    async fn size(&self, of: &InstanceId) -> Result<Unread, Fault> {
        self.inner.size(of).await
    }

    async fn acknowledged_at(&self, entry: &EntryId) -> Result<Option<Moment>, Fault> {
        self.inner.acknowledged_at(entry).await
    }

    async fn backlogs(&self) -> Result<Vec<(InstanceId, Unread)>, Fault> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(Fault::Full);
        }
        self.inner.backlogs().await
    }

    async fn acknowledge(&self, of: &InstanceId, taken: Vec<Acknowledgement>) -> Result<Unread, Fault> {
        self.inner.acknowledge(of, taken).await
    }

    async fn record_failed_delivery(
        &self,
        of: &InstanceId,
        entry: &EntryId,
        failure: FailedDelivery,
    ) -> Result<bool, Fault> {
        self.inner.record_failed_delivery(of, entry, failure).await
    }

    async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<Unread, Fault> {
        self.inner.recall(of, entry).await
    }

    async fn dead_letters(&self, filter: DeadLetterFilter, at_most: u32) -> Result<Vec<DeadLetter>, Fault> {
        self.inner.dead_letters(filter, at_most).await
    }

    async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault> {
        self.inner.redrive(entry).await
    }

    fn follow(&self, hear: Arc<dyn Fn(Entry) + Send + Sync>) {
        self.inner.follow(hear);
    }
}

#[tokio::test]
async fn a_failed_read_is_retried_with_back_off_and_not_in_a_busy_loop() {
    let server = TestServer::open().await;
    let heron = server.heron().await;
    heron.hears_from("one").await;
    let inbox = &server.inbox;
    inbox.fails.store(true, Ordering::SeqCst);
    let before = inbox.reads.load(Ordering::SeqCst);
    let mut gateway = heron.sits_with_window(1).await;
    let reads = || inbox.reads.load(Ordering::SeqCst) - before;
    eventually(|| reads() >= 1).await;
    gateway.hears_nothing().await;
    assert_eq!(reads(), 1, "nothing is read again before the back-off has passed");
    // A quarter of a second, then twice as long each time.
    for (count, pause) in [(2, 250), (3, 500), (4, 1_000), (5, 2_000)] {
        server.winds(std::time::Duration::from_millis(pause - 1));
        gateway.hears_nothing().await;
        assert_eq!(reads(), count - 1);
        server.winds(std::time::Duration::from_millis(1));
        eventually(|| reads() >= count).await;
        gateway.hears_nothing().await;
        assert_eq!(reads(), count);
    }
    inbox.fails.store(false, Ordering::SeqCst);
    server.winds(seconds(4));
    gateway.takes("one").await;
    heron.hears_from("two").await;
    gateway.takes("two").await;
}
