//! Search indexes of the data of tenants.
//!
//! Each tenant has an index of its own, so results, scores and speed depend on the tenant's own entries alone. An index
//! is a file beside the ledger. It holds no text and nothing that the ledger does not have: an index that is missing,
//! damaged or from another ledger is made again. So its writes need not survive a power loss, and they are not part of
//! a commit.
//!
//! Work on an index runs on threads of its own, one piece at a time for each tenant, and tenants take turns. So the
//! searches of one tenant never occupy more than one thread.

mod bm25;
mod index_file;
mod index_queue;
mod rare_word;
mod tokenizer;
mod word_counts;

use std::path::PathBuf;
use std::sync::Arc;

use posthouse_time::Timepiece;
use tokio::sync::oneshot;

use self::index_queue::{IndexQueue, IndexWorkers};
use crate::Fault;
pub(super) use bm25::TextScore;
pub(super) use index_file::{IndexHit, IndexHits, IndexRow, IndexSearch, IndexState, PruneTimes};
pub(super) use index_queue::IndexPosition;
pub(super) use rare_word::RareWordTexts;
pub(super) use tokenizer::Tokenizer;

/// The indexes of all tenants.
pub(super) struct DataIndexes {
    queue: Arc<IndexQueue>,
    /// Declared after the queue; dropping it ends the threads.
    _workers: IndexWorkers,
    timepiece: Timepiece,
    tokenizer: Arc<Tokenizer>,
}

/// A piece of work on an index, or why it was not done.
pub(super) enum IndexAnswer<T> {
    Done(T),
    /// Too much work of the tenant is waiting.
    TooMany,
    /// The index was damaged and has been deleted. It has to be made again.
    Lost,
}

impl DataIndexes {
    /// Indexes in the files of a folder, or in memory. The folder is created with the first file.
    pub(super) fn open(folder: Option<PathBuf>, timepiece: Timepiece) -> Result<Self, Fault> {
        let queue = Arc::new(IndexQueue::new(folder));
        let workers = IndexWorkers::start(&queue)?;
        Ok(Self { queue, _workers: workers, timepiece, tokenizer: Arc::default() })
    }

    /// The tokenizer of all indexes.
    pub(super) fn tokenizer(&self) -> Arc<Tokenizer> {
        Arc::clone(&self.tokenizer)
    }

    /// How far the index of a tenant is, as far as it is known without opening the file.
    pub(super) fn position(&self, tenant: &str) -> IndexPosition {
        self.queue.position(tenant)
    }

    /// Reports that an entry was committed.
    pub(super) fn wrote(&self, tenant: &str, seq: i64) {
        self.queue.wrote(tenant, seq);
    }

    /// Whether so many entries wait for the index that a writer should catch up.
    pub(super) fn is_behind(&self, tenant: &str) -> bool {
        self.queue.is_behind(tenant)
    }

    /// Reports that this many entries do not wait any more.
    pub(super) fn added(&self, tenant: &str, entries: usize) {
        self.queue.added(tenant, entries);
    }

    /// Reports that the index has everything up to this number, and that nothing follows it.
    pub(super) fn caught_up(&self, tenant: &str, seq: i64) {
        self.queue.caught_up(tenant, seq);
    }

    /// The lock of those who bring the index of this tenant up to date.
    pub(super) fn catching_up(&self, tenant: &str) -> Arc<tokio::sync::Mutex<()>> {
        self.queue.catching_up(tenant)
    }

    /// Opens the index, or creates an empty one.
    pub(super) async fn state(&self, tenant: &str) -> Result<IndexAnswer<IndexState>, Fault> {
        self.run(tenant, |index| index.state()).await
    }

    /// Makes the index empty.
    pub(super) async fn reset(&self, tenant: &str) -> Result<(), Fault> {
        self.run(tenant, |index| index.reset()).await.map(drop)
    }

    /// Adds entries; those that the index already has are skipped. Returns the number of the last.
    pub(super) async fn add(
        &self,
        tenant: &str,
        rows: Vec<IndexRow>,
        prune: PruneTimes,
    ) -> Result<IndexAnswer<i64>, Fault> {
        self.run(tenant, move |index| index.add(&rows, prune)).await
    }

    pub(super) async fn search(
        &self,
        tenant: &str,
        search: IndexSearch,
    ) -> Result<IndexAnswer<IndexHits>, Fault> {
        let (timepiece, tokenizer) = (self.timepiece.clone(), self.tokenizer());
        self.run(tenant, move |index| index.search(&search, &tokenizer, &timepiece)).await
    }

    /// Deletes the index of a removed tenant.
    pub(super) async fn remove(&self, tenant: &str) -> Result<(), Fault> {
        self.run(tenant, |index| index.remove()).await.map(drop)
    }

    async fn run<T, W>(&self, tenant: &str, work: W) -> Result<IndexAnswer<T>, Fault>
    where
        T: Send + 'static,
        W: FnOnce(&mut index_file::TenantIndex) -> rusqlite::Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let added = self.queue.add(
            tenant,
            Box::new(move |index| {
                // The caller may have gone away.
                if !reply.is_closed() {
                    let _ = reply.send(index.run(work));
                }
            }),
        )?;
        if !added {
            return Ok(IndexAnswer::TooMany);
        }
        answer.await.map_err(|_| Fault::Closed)?
    }
}
