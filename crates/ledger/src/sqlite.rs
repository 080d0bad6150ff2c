//! SQLite backend: one writer thread with group commit, and separate reading connections.

mod access;
mod arms;
mod audit;
mod bindings;
mod checkpoint;
mod claims;
mod connectors;
mod data;
mod data_index;
mod dead_bots;
mod enroll_tokens;
mod event_feeds;
mod exchanges;
mod gateway_settings;
mod inbox;
mod interactions;
mod invitations;
mod ledger_time;
mod media;
mod migrate;
mod opening;
mod outbox;
mod person_chats;
mod pool;
mod principals;
mod prompts;
mod provisioning;
mod prune;
mod receipts;
mod relevance;
mod rooms;
mod roster;
mod server_facts;
mod shared_bots;
mod skill_approval;
mod skill_runs;
mod skill_triggers;
mod skills;
mod sleep;
mod staleness;
mod tenant_limits;
mod threads;
mod tokens;
mod trace;
mod usage;
mod vault;
mod write_queue;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use posthouse_time::Timepiece;
use posthouse_wire::{InstanceId, TenantId};
use rusqlite::Connection;

use crate::{
    Access, Arms, Audit, Bindings, CapabilityUses, Connectors, DataEntries, DeadBots, EnrollTokens, Entry,
    EventFeeds, Exchanges, Fault, GatewaySettings, Inbox, Invitations, MediaRecords, Outbox, PersonChats,
    Principals, Prompts, Provisioning, Receipts, RelevancePolicies, Rooms, Roster, ScopeClaims, ServerFacts,
    SharedBots, SkillApproval, SkillRuns, SkillTriggers, Skills, SleepRecords, Staleness, TenantLimits,
    Threads, Tokens, Traces, Usage, VaultRecords,
};
use arms::JobCounts;
use data_index::DataIndexes;
use inbox::counts::InboxCounts;
use ledger_time::LedgerClock;
use pool::Pool;
use usage::UsageSums;
use write_queue::JobTenant;
use writer::Writer;

/// Location of a ledger.
#[derive(Clone, Debug)]
pub enum Location {
    /// A folder. One server at a time can open it.
    Folder(PathBuf),
    /// In memory, for tests. It is lost with the handle.
    Memory,
}

/// The ledger, as a handle that can be cloned and shared.
#[derive(Clone)]
pub struct Ledger(Arc<Sqlite>);

type Follower = Arc<dyn Fn(Entry) + Send + Sync>;

pub(crate) struct Sqlite {
    /// None in memory, where reads use the connection of the writer. This field is declared before `writer`
    /// so that it is dropped first: the writer can copy the log into the database file only when it closes
    /// last.
    pool: Option<Pool>,
    writer: Writer,
    /// The wall clock, for times that people read.
    timepiece: Timepiece,
    /// Ledger time, for the retention of rows.
    clock: LedgerClock,
    follower: OnceLock<Follower>,
    /// Number of reads.
    reads: AtomicU64,
    inbox_counts: Arc<InboxCounts>,
    usage: Arc<UsageSums>,
    job_counts: Arc<JobCounts>,
    indexes: Arc<DataIndexes>,
}

impl Ledger {
    /// Opens or creates the ledger and migrates its schema.
    pub async fn open(place: Location, timepiece: Timepiece) -> Result<Self, Fault> {
        tokio::task::spawn_blocking(move || opening::open(place, timepiece))
            .await
            .map_err(|_| Fault::Closed)?
    }

    pub fn inbox(&self) -> Arc<dyn Inbox> {
        self.0.clone()
    }

    pub fn outbox(&self) -> Arc<dyn Outbox> {
        self.0.clone()
    }

    pub fn roster(&self) -> Arc<dyn Roster> {
        self.0.clone()
    }

    pub fn bindings(&self) -> Arc<dyn Bindings> {
        self.0.clone()
    }

    pub fn claims(&self) -> Arc<dyn ScopeClaims> {
        self.0.clone()
    }

    pub fn shared_bots(&self) -> Arc<dyn SharedBots> {
        self.0.clone()
    }

    pub fn principals(&self) -> Arc<dyn Principals> {
        self.0.clone()
    }

    pub fn event_feeds(&self) -> Arc<dyn EventFeeds> {
        self.0.clone()
    }

    pub fn person_chats(&self) -> Arc<dyn PersonChats> {
        self.0.clone()
    }

    pub fn dead_bots(&self) -> Arc<dyn DeadBots> {
        self.0.clone()
    }

    pub fn sleep(&self) -> Arc<dyn SleepRecords> {
        self.0.clone()
    }

    pub fn staleness(&self) -> Arc<dyn Staleness> {
        self.0.clone()
    }

    pub fn skill_approval(&self) -> Arc<dyn SkillApproval> {
        self.0.clone()
    }

    pub fn skill_runs(&self) -> Arc<dyn SkillRuns> {
        self.0.clone()
    }

    pub fn skill_triggers(&self) -> Arc<dyn SkillTriggers> {
        self.0.clone()
    }

    pub fn tenant_limits(&self) -> Arc<dyn TenantLimits> {
        self.0.clone()
    }

    pub fn relevance(&self) -> Arc<dyn RelevancePolicies> {
        self.0.clone()
    }

    pub fn gateway_settings(&self) -> Arc<dyn GatewaySettings> {
        self.0.clone()
    }

    pub fn provisioning(&self) -> Arc<dyn Provisioning> {
        self.0.clone()
    }

    pub fn rooms(&self) -> Arc<dyn Rooms> {
        self.0.clone()
    }

    pub fn prompts(&self) -> Arc<dyn Prompts> {
        self.0.clone()
    }

    pub fn threads(&self) -> Arc<dyn Threads> {
        self.0.clone()
    }

    pub fn enroll_tokens(&self) -> Arc<dyn EnrollTokens> {
        self.0.clone()
    }

    pub fn invitations(&self) -> Arc<dyn Invitations> {
        self.0.clone()
    }

    pub fn media(&self) -> Arc<dyn MediaRecords> {
        self.0.clone()
    }

    pub fn traces(&self) -> Arc<dyn Traces> {
        self.0.clone()
    }

    pub fn capability_uses(&self) -> Arc<dyn CapabilityUses> {
        self.0.clone()
    }

    pub fn vault(&self) -> Arc<dyn VaultRecords> {
        self.0.clone()
    }

    pub fn arms(&self) -> Arc<dyn Arms> {
        self.0.clone()
    }

    pub fn connectors(&self) -> Arc<dyn Connectors> {
        self.0.clone()
    }

    pub fn receipts(&self) -> Arc<dyn Receipts> {
        self.0.clone()
    }

    pub fn exchanges(&self) -> Arc<dyn Exchanges> {
        self.0.clone()
    }

    pub fn tokens(&self) -> Arc<dyn Tokens> {
        self.0.clone()
    }

    pub fn access(&self) -> Arc<dyn Access> {
        self.0.clone()
    }

    pub fn audit(&self) -> Arc<dyn Audit> {
        self.0.clone()
    }

    pub fn usage(&self) -> Arc<dyn Usage> {
        self.0.clone()
    }

    /// Sets the limit of tenants that have no storage limit of their own.
    pub fn set_default_tenant_limit(&self, bytes: i64) {
        self.0.usage.set_default_limit(bytes);
    }

    /// Sets the limit of tenants that have no limit of their own on the bytes of their files.
    pub fn set_default_media_limit(&self, bytes: i64) {
        self.0.usage.set_default_media_limit(bytes);
    }

    pub fn skills(&self) -> Arc<dyn Skills> {
        self.0.clone()
    }

    pub fn data(&self) -> Arc<dyn DataEntries> {
        self.0.clone()
    }

    /// Sets the limit of tenants that have no limit of their own on the bytes of their data.
    pub fn set_default_data_limit(&self, bytes: i64) {
        self.0.usage.set_default_data_limit(bytes);
    }

    pub fn facts(&self) -> Arc<dyn ServerFacts> {
        self.0.clone()
    }

    /// Limits the file to this many pages. It simulates a full disk in tests that cannot mount one.
    #[doc(hidden)]
    pub async fn limit_pages(&self, pages: u32) -> Result<(), Fault> {
        self.0.write(move |db| db.pragma_update(None, "max_page_count", pages)).await
    }

    /// Limits each kind of history to this many rows, for tests.
    #[doc(hidden)]
    pub fn limit_history(&self, rows: i64) {
        self.0.usage.set_history_rows(rows);
    }

    /// Makes every write of this kind (`INSERT`, `UPDATE` or `DELETE`) to this table fail, until it is called
    /// with None. It simulates a fault in the middle of a transaction, for tests.
    #[doc(hidden)]
    pub async fn fail_writes(&self, kind_and_table: Option<(&str, &str)>) -> Result<(), Fault> {
        let mut sql = "DROP TRIGGER IF EXISTS temp.failing;".to_owned();
        if let Some((kind, table)) = kind_and_table {
            sql.push_str(&format!(
                "CREATE TEMP TRIGGER failing BEFORE {kind} ON main.{table}
                 BEGIN SELECT RAISE(ABORT, 'this write was made to fail'); END;"
            ));
        }
        self.0.write(move |db| db.execute_batch(&sql)).await
    }

    /// Number of reads since the ledger was opened.
    #[doc(hidden)]
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// Number of commits since the ledger was opened.
    #[doc(hidden)]
    pub fn commits(&self) -> u64 {
        self.0.writer.commits()
    }
}

impl Sqlite {
    /// Runs `work` in the next commit and resolves after it.
    async fn write<T, W>(&self, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.writer.write(None, work, |_| ()).await
    }

    /// As [`Sqlite::write`], but for a tenant, whose share of a commit is limited.
    async fn write_for<T, W>(&self, owner: JobTenant, work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.writer.write(owner, work, |_| ()).await
    }

    /// As [`Sqlite::write_for`]. `after` gets the result on the writer's thread, in commit order.
    async fn write_then<T, W, A>(&self, owner: JobTenant, work: W, after: A) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
        A: FnOnce(&T) + Send + 'static,
    {
        self.writer.write(owner, work, after).await
    }

    /// The tenant of an agent, as the owner of writes for it.
    fn tenant_of(&self, agent: &InstanceId) -> JobTenant {
        self.usage.tenant_of(agent.as_str())
    }

    async fn read<T, W>(&self, mut work: W) -> Result<T, Fault>
    where
        T: Send + 'static,
        W: FnMut(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.reads.fetch_add(1, Ordering::Relaxed);
        match &self.pool {
            Some(pool) => pool.read(work).await,
            None => self.write(move |db| work(db)).await,
        }
    }
}

/// A tenant as the owner of writes for it.
fn owner(tenant: &TenantId) -> JobTenant {
    Some(tenant.as_str().into())
}
