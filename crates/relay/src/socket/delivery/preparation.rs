//! Entries that wait for their attachments, and albums that wait for their parts.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ledger::Entry;
use posthouse_time::Instant;
use posthouse_wire::TenantId;
use tokio::sync::Notify;

use crate::Egress;
use crate::media::{AttachmentFetcher, FETCHED_WITHIN, PreparedEvent};
use crate::socket::SocketComponents;

/// Time after the newest part of an album in which further parts may come.
pub(super) const ALBUM_QUIET: Duration = Duration::from_secs(1);

/// Starts the preparation of entries for one socket.
pub(super) struct Preparer<'a> {
    pub components: &'a SocketComponents,
    pub egress: &'a Arc<dyn Egress>,
    pub tenant: &'a TenantId,
    /// Notified when an entry is prepared.
    pub ready: &'a Arc<Notify>,
}

/// The attachments of one entry, being fetched or here.
pub(super) struct Preparation {
    event: Arc<OnceLock<Option<PreparedEvent>>>,
    deadline: Instant,
}

impl Preparer<'_> {
    /// Starts to fetch the attachments of an entry. It ends by itself, even if the socket closes.
    pub fn start(&self, entry: &Entry, now: Instant) -> Preparation {
        let event = Arc::<OnceLock<Option<PreparedEvent>>>::default();
        let (result, entry, ready) = (Arc::clone(&event), entry.clone(), Arc::clone(self.ready));
        let components = self.components;
        let fetcher = AttachmentFetcher {
            store: components.media.clone(),
            egress: Arc::clone(self.egress),
            tenant: self.tenant.clone(),
            metrics: Arc::clone(&components.metrics),
        };
        let (timepiece, closing) = (components.timepiece.clone(), components.background.closing.clone());
        components.background.tasks.spawn(async move {
            let preparing = timepiece.within(FETCHED_WITHIN, fetcher.prepare(&entry));
            let prepared = match closing.run_until_cancelled(preparing).await {
                Some(Ok(prepared)) => prepared,
                Some(Err(_)) => fetcher.give_up(&entry),
                // The entry stays stored and is prepared again after the restart.
                None => return,
            };
            let _ = result.set(prepared);
            ready.notify_one();
        });
        // The task itself ends in time. This is only for a task that was lost.
        Preparation { event, deadline: now + FETCHED_WITHIN + ALBUM_QUIET }
    }
}

impl Preparation {
    /// Time until which the entry waits. `None` when it is ready.
    pub fn waits_until(&self) -> Option<Instant> {
        self.event.get().is_none().then_some(self.deadline)
    }

    /// The event for the wire. `None` if the stored one is to be sent.
    pub fn event(&self) -> Option<PreparedEvent> {
        self.event.get().cloned().flatten()
    }
}
