//! `Post`: the shared handle, its parts, and shutdown.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use errand::Errand;
use identity::Identity;
use ledger::{Connectors, Exchanges, Receipts, Usage};
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;
use relay::Relay;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::WebhookSigner;

use crate::connector::memory::Memory;
use crate::directory::Known;
use crate::scheduled::{TARGET, WakeTarget};
use crate::tenant_limit::TenantLimit;
use crate::tenant_rounds::TenantRounds;
use crate::tenant_turns::TenantTurns;
use crate::waiting::Waiting;
use crate::writing::Writing;
use crate::{Config, Metrics};

/// Time that shutdown waits for running attempts.
const CLOSED_WITHIN: Duration = Duration::from_secs(6);

/// The largest number of concurrent retries on this server. One running attempt per tenant does not count, so that
/// other tenants cannot block a tenant completely.
const HANDS: usize = 128;

/// The dependencies of the post. It gets `WebhookSigner` to sign with, never the vault itself.
pub struct Parts {
    pub config: Config,
    pub receipts: Arc<dyn Receipts>,
    pub exchanges: Arc<dyn Exchanges>,
    pub connectors: Arc<dyn Connectors>,
    pub usage: Arc<dyn Usage>,
    pub relay: Relay,
    pub identity: Identity,
    pub clock: Clock,
    pub webhook_signer: WebhookSigner,
    pub errand: Errand,
    /// The public URL of the server. Reply URLs begin with it.
    pub public_url: String,
    pub timepiece: Timepiece,
}

/// The post: programs send messages, wakes and questions to agents. A cheap handle to clone.
#[derive(Clone)]
pub struct Post(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub config: Config,
    pub receipts: Arc<dyn Receipts>,
    pub exchanges: Arc<dyn Exchanges>,
    pub connectors: Arc<dyn Connectors>,
    pub usage: Arc<dyn Usage>,
    pub relay: Relay,
    pub identity: Identity,
    pub clock: Clock,
    pub webhook_signer: WebhookSigner,
    pub errand: Errand,
    pub public_url: String,
    pub timepiece: Timepiece,
    pub metrics: Arc<Metrics>,
    pub known: Known,
    pub turns: TenantTurns,
    /// State that outlives the connectors, which are rebuilt often.
    pub memory: Memory,
    pub waiting: Waiting,
    /// Agents that are writing the answer to a question.
    pub writing: Writing,
    /// Permits for concurrent retries.
    pub hands: Arc<Semaphore>,
    pub busy: TenantLimit,
    /// Polling rounds for answers to open questions, and to questions past their deadline.
    pub looks: TenantRounds,
    pub late_looks: TenantRounds,
    /// Wakes the sending loop: a delivery is due sooner than expected.
    pub nudge: Notify,
    /// Wakes the timeout loop: a new question may have the earliest deadline.
    pub asked: Notify,
    /// Wakes the alarm loop: an alarm of a scheduled wake could not be set.
    pub alarms: Notify,
    /// Wakes the polling loop: a new question may need its answer collected.
    pub collecting: Notify,
    pub tasks: TaskTracker,
    pub closing: CancellationToken,
}

impl Post {
    /// Creates the post and registers it with the clock for scheduled wakes.
    pub fn new(parts: Parts) -> Self {
        let post = Self(Arc::new(Inner {
            config: parts.config,
            receipts: parts.receipts,
            exchanges: parts.exchanges,
            connectors: parts.connectors,
            usage: parts.usage,
            relay: parts.relay,
            identity: parts.identity,
            clock: parts.clock,
            webhook_signer: parts.webhook_signer,
            errand: parts.errand,
            public_url: parts.public_url,
            timepiece: parts.timepiece,
            metrics: Arc::default(),
            known: Known::default(),
            turns: TenantTurns::default(),
            memory: Memory::default(),
            waiting: Waiting::default(),
            writing: Writing::default(),
            hands: Arc::new(Semaphore::new(HANDS)),
            busy: TenantLimit::default(),
            looks: TenantRounds::default(),
            late_looks: TenantRounds::default(),
            nudge: Notify::new(),
            asked: Notify::new(),
            alarms: Notify::new(),
            collecting: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }));
        post.0.clock.register(TARGET, Arc::new(WakeTarget(Arc::downgrade(&post.0))));
        post
    }

    /// Starts nothing more and waits for running attempts.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        if self.0.timepiece.within(CLOSED_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("closed while deliveries were still running: their result is unknown");
        }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The stored connectors, aliases and permissions. Call [`Post::changed`] after a change.
    pub fn connectors(&self) -> &Arc<dyn Connectors> {
        &self.0.connectors
    }

    /// Announces that connectors, aliases or permissions of a tenant have changed.
    pub fn changed(&self, tenant: &TenantId) {
        self.0.identity.roster.tenant_changed(tenant);
    }
}
