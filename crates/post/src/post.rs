//! The handle of this plane.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use errand::Errand;
use ledger::{Connectors, Exchanges, Receipts};
use posthouse_time::Timepiece;
use relay::Relay;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use vault::Stamps;

use crate::busy::Busy;
use crate::connector::memory::Memory;
use crate::directory::Known;
use crate::scheduled::{BELL, Ringer};
use crate::waiting::Waiting;
use crate::{Config, Metrics};

/// How long a closing post waits for attempts under way.
const CLOSED_WITHIN: Duration = Duration::from_secs(6);

/// Attempts made side by side at what is still to be sent.
const HANDS: usize = 128;

/// What the post is built from. It holds stamps, never the vault.
pub struct Parts {
    pub config: Config,
    pub receipts: Arc<dyn Receipts>,
    pub exchanges: Arc<dyn Exchanges>,
    pub connectors: Arc<dyn Connectors>,
    pub relay: Relay,
    pub clock: Clock,
    pub stamps: Stamps,
    pub errand: Errand,
    /// The one address of the house: answers are sent there.
    pub public_url: String,
    pub timepiece: Timepiece,
}

/// Programs writing to agents; a handle to share.
#[derive(Clone)]
pub struct Post(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub config: Config,
    pub receipts: Arc<dyn Receipts>,
    pub exchanges: Arc<dyn Exchanges>,
    pub connectors: Arc<dyn Connectors>,
    pub relay: Relay,
    pub clock: Clock,
    pub stamps: Stamps,
    pub errand: Errand,
    pub public_url: String,
    pub timepiece: Timepiece,
    pub metrics: Arc<Metrics>,
    pub known: Known,
    /// What outlasts the connectors that are made anew with every change.
    pub memory: Memory,
    pub waiting: Waiting,
    /// Who makes attempts at what is still to be sent; so many side by side.
    pub hands: Arc<Semaphore>,
    pub busy: Busy,
    /// Something is to be sent again, sooner than was thought.
    pub nudge: Notify,
    /// A question was put, whose time may be up before that of others.
    pub asked: Notify,
    /// The clock could not be told of a scheduled wake.
    pub alarms: Notify,
    /// A question was put whose answer may have to be looked for.
    pub collecting: Notify,
    pub tasks: TaskTracker,
    pub closing: CancellationToken,
}

impl Post {
    /// Hangs its own bell in the clock.
    pub fn new(parts: Parts) -> Self {
        let post = Self(Arc::new(Inner {
            config: parts.config,
            receipts: parts.receipts,
            exchanges: parts.exchanges,
            connectors: parts.connectors,
            relay: parts.relay,
            clock: parts.clock,
            stamps: parts.stamps,
            errand: parts.errand,
            public_url: parts.public_url,
            timepiece: parts.timepiece,
            metrics: Arc::default(),
            known: Known::default(),
            memory: Memory::default(),
            waiting: Waiting::default(),
            hands: Arc::new(Semaphore::new(HANDS)),
            busy: Busy::default(),
            nudge: Notify::new(),
            asked: Notify::new(),
            alarms: Notify::new(),
            collecting: Notify::new(),
            tasks: TaskTracker::new(),
            closing: CancellationToken::new(),
        }));
        post.0.clock.hang(BELL, Arc::new(Ringer(Arc::downgrade(&post.0))));
        post
    }

    /// Begins nothing more and lets attempts under way end.
    pub async fn close(&self) {
        self.0.closing.cancel();
        self.0.tasks.close();
        if self.0.timepiece.within(CLOSED_WITHIN, self.0.tasks.wait()).await.is_err() {
            tracing::warn!("closed with deliveries under way");
        }
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// The records: connectors, other names, who may write to whom. Changes are followed by
    /// [`Post::changed`].
    pub fn connectors(&self) -> &Arc<dyn Connectors> {
        &self.0.connectors
    }

    /// Says that connectors, other names or rights were changed.
    pub fn changed(&self) {
        self.0.relay.roster_changed();
    }
}
