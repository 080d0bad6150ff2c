//! Quotas: how many messages, actions, requests and sockets a tenant and each of its agents may have.
//!
//! Rates are token buckets in memory, on the monotonic clock. A check takes well below a microsecond, and locks only what
//! belongs to the tenant. A bucket is forgotten only when it is full again, so forgetting one frees nobody of a limit.
//! Their number is bounded by what can be taken in a minute: an agent's bucket is touched only when its tenant's bucket
//! had room.

mod bucket;
mod limit_values;
mod tenant_buckets;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use foldhash::fast::RandomState;
use ledger::{LimitName, OwnLimits, TenantLimits};
use parking_lot::Mutex;
use posthouse_wire::{InstanceId, TenantId};

use self::bucket::MINUTE;
pub use self::limit_values::LimitValues;
use self::tenant_buckets::TenantBuckets;
use crate::roster_versions::RosterChange;
use crate::{Fault, Metrics, RosterView};

/// Lifetime of the cached limits of a tenant.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Number of remembered tenants above which those that use nothing are forgotten.
const TENANTS: usize = 1024;
/// Shortest time between two log lines about one tenant.
const LOG_EVERY: Duration = MINUTE;

/// What is counted per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// A message to an agent.
    Message,
    /// An action of an agent.
    Action,
    /// The action `typing`. It takes a tenth of another.
    Typing,
    /// Looking up whether an action that has no room was carried out before.
    ActionLookup,
    /// An HTTP request of a gateway.
    Request,
    /// An HTTP request of a program. It has its own bucket: a program that polls too fast must not keep the agents of its
    /// tenant from connecting.
    ProgramRequest,
}

impl QuotaKind {
    /// Number of different buckets.
    const BUCKETS: usize = 5;

    fn bucket(self) -> usize {
        match self {
            Self::Message => 0,
            Self::Action | Self::Typing => 1,
            Self::ActionLookup => 2,
            Self::Request => 3,
            Self::ProgramRequest => 4,
        }
    }

    fn tenths(self) -> u32 {
        if self == Self::Typing { 1 } else { 10 }
    }

    /// The limits of the tenant and of one agent.
    fn limits(self) -> (LimitName, LimitName) {
        match self {
            Self::Message => (LimitName::Messages, LimitName::AgentMessages),
            Self::Action | Self::Typing | Self::ActionLookup => (LimitName::Actions, LimitName::AgentActions),
            Self::Request => (LimitName::Requests, LimitName::AgentRequests),
            Self::ProgramRequest => (LimitName::ProgramRequests, LimitName::AgentProgramRequests),
        }
    }

    /// The label in metrics and in the log.
    fn label(self) -> &'static str {
        match self {
            Self::Message => "messages",
            Self::Action | Self::Typing | Self::ActionLookup => "actions",
            Self::Request => "requests",
            Self::ProgramRequest => "program_requests",
        }
    }
}

/// A limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverQuota {
    /// The limit that is reached, of the tenant or of an agent.
    pub limit: LimitName,
    pub value: u32,
    /// When there is room for one more, at the earliest.
    pub retry_after: Duration,
}

impl OverQuota {
    /// Whole seconds to wait, for a `Retry-After` header.
    pub fn retry_seconds(&self) -> u32 {
        u32::try_from(self.retry_after.as_millis().div_ceil(1000)).unwrap_or(60).max(1)
    }

    /// Whose limit it is, for texts.
    pub fn whose(&self) -> &'static str {
        match self.limit {
            LimitName::Messages
            | LimitName::Sockets
            | LimitName::Actions
            | LimitName::Requests
            | LimitName::ProgramRequests => "tenant",
            LimitName::AgentMessages
            | LimitName::AgentSockets
            | LimitName::AgentActions
            | LimitName::AgentRequests
            | LimitName::AgentProgramRequests => "agent",
        }
    }
}

/// What a tenant uses now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuotaUse {
    /// What is taken of each limit per minute. It falls as the buckets refill.
    pub messages: u32,
    pub actions: u32,
    pub requests: u32,
    pub program_requests: u32,
    /// Open sockets.
    pub sockets: u32,
}

/// The quotas of all tenants. Clones share them.
#[derive(Clone)]
pub struct Quotas(Arc<Inner>);

struct Inner {
    records: Arc<dyn TenantLimits>,
    roster: RosterView,
    defaults: LimitValues,
    metrics: Arc<Metrics>,
    tenants: DashMap<TenantId, Arc<Mutex<TenantBuckets>>, RandomState>,
    /// Number of tenants that remained after the last cleanup.
    left: AtomicUsize,
}

/// A socket that counts against its agent and tenant, until it is dropped.
pub struct SocketPlace(Box<CountedSocket>);

/// In a box, because the memory of every idle agent holds a place.
struct CountedSocket {
    buckets: Arc<Mutex<TenantBuckets>>,
    agent: InstanceId,
}

impl Drop for SocketPlace {
    fn drop(&mut self) {
        self.0.buckets.lock().close_socket(&self.0.agent);
    }
}

impl Quotas {
    pub(crate) fn new(
        records: Arc<dyn TenantLimits>,
        roster: RosterView,
        defaults: LimitValues,
        metrics: Arc<Metrics>,
    ) -> Self {
        let (tenants, left) = (DashMap::default(), AtomicUsize::new(0));
        Self(Arc::new(Inner { records, roster, defaults, metrics, tenants, left }))
    }

    /// Takes one, of the agent's limit if there is an agent, and of the tenant's. If one of the two has no room, neither
    /// is charged.
    pub async fn take(
        &self,
        what: QuotaKind,
        tenant: &TenantId,
        agent: Option<&InstanceId>,
    ) -> Result<(), OverQuota> {
        let buckets = self.with_limits(tenant).await;
        self.take_from(&buckets, what, tenant, agent)
    }

    /// The same with the last known limits. Call [`Quotas::refresh`] before, where waiting is possible.
    pub fn try_take(&self, what: QuotaKind, tenant: &TenantId, agent: &InstanceId) -> Result<(), OverQuota> {
        self.take_from(&self.buckets(tenant), what, tenant, Some(agent))
    }

    /// Reads the limits of a tenant again if they may have changed.
    pub async fn refresh(&self, tenant: &TenantId) {
        self.with_limits(tenant).await;
    }

    /// Counts a socket that is about to open.
    pub async fn open_socket(&self, tenant: &TenantId, agent: &InstanceId) -> Result<SocketPlace, OverQuota> {
        let buckets = self.with_limits(tenant).await;
        let opened = buckets.lock().open_socket(agent);
        opened.inspect_err(|over| self.refused("sockets", tenant, Some(agent), over, &buckets))?;
        Ok(SocketPlace(Box::new(CountedSocket { buckets, agent: agent.clone() })))
    }

    /// The limits of a tenant.
    pub async fn limits(&self, of: &TenantId) -> LimitValues {
        self.with_limits(of).await.lock().limits
    }

    /// The limits that were set for a tenant.
    pub async fn own_limits(&self, of: &TenantId) -> Result<OwnLimits, Fault> {
        Ok(self.0.records.tenant_limits(of).await?)
    }

    /// Sets limits of a tenant, or restores the defaults. False when there is no such tenant.
    pub async fn set_limits(
        &self,
        of: &TenantId,
        changes: BTreeMap<LimitName, Option<u32>>,
    ) -> Result<bool, Fault> {
        let changed = self.0.records.set_tenant_limits(of, changes).await?;
        self.0.roster.tenant_changed(of);
        Ok(changed)
    }

    /// What a tenant uses now.
    pub async fn used(&self, by: &TenantId) -> QuotaUse {
        let now = self.0.roster.now();
        self.with_limits(by).await.lock().used(now)
    }

    fn take_from(
        &self,
        buckets: &Arc<Mutex<TenantBuckets>>,
        what: QuotaKind,
        tenant: &TenantId,
        agent: Option<&InstanceId>,
    ) -> Result<(), OverQuota> {
        let now = self.0.roster.now();
        let taken = buckets.lock().take(what, agent, now);
        // A lookup that has no room is part of an action that was counted as refused.
        if let Err(over) = &taken
            && what != QuotaKind::ActionLookup
        {
            self.refused(what.label(), tenant, agent, over, buckets);
        }
        taken
    }

    /// Counts a refusal, and logs one line per tenant and minute.
    fn refused(
        &self,
        what: &'static str,
        tenant: &TenantId,
        agent: Option<&InstanceId>,
        over: &OverQuota,
        buckets: &Mutex<TenantBuckets>,
    ) {
        self.0.metrics.count_over_quota(what, over.whose());
        let due = buckets.lock().count_refusal(self.0.roster.now());
        if let Some(refused) = due {
            let agent = agent.map(InstanceId::as_str).unwrap_or_default();
            let (limit, value) = (over.limit.as_str(), over.value);
            tracing::warn!(tenant.id = %tenant, agent.id = agent, limit, value, refused, "a quota is used up");
        }
    }

    /// The buckets of a tenant, with limits that are not older than the last known change.
    async fn with_limits(&self, tenant: &TenantId) -> Arc<Mutex<TenantBuckets>> {
        let buckets = self.buckets(tenant);
        let read = buckets.lock().limits_read;
        let depends_on = [RosterChange::Tenant(tenant.clone())];
        if read.is_some_and(|read| self.0.roster.still_holds(read, &depends_on, REMEMBERED)) {
            return buckets;
        }
        let read = self.0.roster.read_mark();
        match self.0.records.tenant_limits(tenant).await {
            Ok(own) => {
                let mut buckets = buckets.lock();
                (buckets.limits, buckets.limits_read) = (self.0.defaults.with(&own), Some(read));
            }
            // Nobody is refused because of it.
            Err(fault) => {
                tracing::error!(%fault, tenant.id = %tenant, "could not read the limits of a tenant; its last known ones hold");
            }
        }
        buckets
    }

    fn buckets(&self, tenant: &TenantId) -> Arc<Mutex<TenantBuckets>> {
        if let Some(buckets) = self.0.tenants.get(tenant) {
            return Arc::clone(&buckets);
        }
        // Only after the number has doubled since the last cleanup, so that the amortized cost per tenant is constant.
        if self.0.tenants.len() >= TENANTS.max(2 * self.0.left.load(Ordering::Relaxed)) {
            let now = self.0.roster.now();
            // Whoever holds a tenant's buckets got them under the same lock, so none is removed while it is charged.
            self.0
                .tenants
                .retain(|_, buckets| Arc::strong_count(buckets) > 1 || !buckets.lock().is_idle(now));
            self.0.left.store(self.0.tenants.len(), Ordering::Relaxed);
        }
        let made = self.0.tenants.entry(tenant.clone());
        Arc::clone(&made.or_insert_with(|| Arc::new(Mutex::new(TenantBuckets::new(self.0.defaults)))))
    }
}
