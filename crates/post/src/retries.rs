//! Retries: starts deliveries that are due again, fair between tenants.

use std::sync::Arc;
use std::time::Duration;

use ledger::{DispatchVerb, Outgoing, Receipts};
use posthouse_wire::TenantId;
use tokio::sync::{Notify, Semaphore};

use crate::Fault;
use crate::background::Background;
use crate::dispatcher::{AttemptResult, Dispatcher, EarlierAttempt, LEASE};
use crate::tenant_limit::TenantLimit;

/// The largest number of concurrent retries on this server. One running attempt per tenant does not count, so that
/// other tenants cannot block a tenant completely.
const CONCURRENT: usize = 128;
/// Pause before the next attempt after a full inbox.
const FULL_PAUSE: Duration = Duration::from_secs(30);

/// Makes attempts at stored deliveries: retries after a failure, and attempts whose result was never reported.
pub struct Retries {
    receipts: Arc<dyn Receipts>,
    dispatcher: Arc<Dispatcher>,
    background: Background,
    permits: Arc<Semaphore>,
    running: TenantLimit,
    /// Wakes the loop: a delivery was postponed, or an attempt has ended.
    changed: Arc<Notify>,
}

impl Retries {
    pub(crate) fn new(
        receipts: Arc<dyn Receipts>,
        dispatcher: Arc<Dispatcher>,
        background: Background,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(CONCURRENT));
        let changed = Arc::clone(dispatcher.postponed());
        Self { receipts, dispatcher, background, permits, running: TenantLimit::default(), changed }
    }

    /// Releases the leases of attempts that a crashed server left. Called before the server accepts requests.
    pub async fn take_over(&self) -> Result<(), Fault> {
        Ok(self.receipts.free_outgoing().await?)
    }

    /// Starts due deliveries until shutdown.
    pub(crate) async fn run(&self) {
        let failure = "could not send due deliveries";
        self.background.repeat(failure, &self.changed, || self.send_due()).await;
    }

    /// Starts all due deliveries, up to the limits, and returns the time until the next one. A tenant without a running
    /// attempt may always start one. An attempt that ends wakes this loop.
    async fn send_due(&self) -> Result<Option<Duration>, Fault> {
        // What is not started stays due for the next start of the server.
        while !self.background.is_closing() {
            let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
            let (turns, waiting) = match permit {
                Some(_) => (self.running.in_turn(), self.running.full()),
                None => (vec![self.running.any()], self.running.any()),
            };
            let Some(outgoing) = self.claim(turns).await? else {
                let timepiece = &self.background.timepiece;
                let asked = timepiece.instant();
                let next = self.receipts.next_outgoing(&waiting).await?;
                return Ok(next.map(|left| (asked + left).since(timepiece.instant())));
            };
            let tenant = &outgoing.receipt.tenant;
            let permit = permit.filter(|_| self.running.has_any(tenant));
            // Questions do not count: a receiver may hold its response until the deadline, and open questions have a
            // limit of their own.
            let counted = (outgoing.receipt.verb != DispatchVerb::Exchange)
                .then(|| (permit, self.running.enter(tenant)));
            let attempt = self.attempt(outgoing);
            let changed = Arc::clone(&self.changed);
            // Tracked, so that shutdown waits for the attempt. Its result would be unknown otherwise.
            self.background.tasks.spawn(async move {
                if let Err(fault) = attempt.await {
                    tracing::error!(%fault, "could not record an attempt: it will be made again");
                }
                drop(counted);
                changed.notify_one();
            });
        }
        Ok(None)
    }

    /// One more attempt at a due delivery. A full inbox only postpones it, because it was accepted.
    fn attempt(&self, outgoing: Outgoing) -> impl Future<Output = Result<(), Fault>> + use<> {
        let (dispatcher, receipts) = (Arc::clone(&self.dispatcher), Arc::clone(&self.receipts));
        let timepiece = self.background.timepiece.clone();
        async move {
            let key = outgoing.receipt.key;
            let result = dispatcher.attempt_again(outgoing, EarlierAttempt::Perhaps).await?;
            if result == AttemptResult::InboxFull {
                receipts.hold(key, timepiece.now() + FULL_PAUSE).await?;
            }
            Ok(())
        }
    }

    /// Claims the next delivery, preferring the tenants with the fewest running attempts. Slow receivers of one tenant
    /// delay only its own deliveries.
    async fn claim(&self, turns: Vec<Vec<TenantId>>) -> Result<Option<Outgoing>, Fault> {
        let lease_until = self.background.timepiece.now() + LEASE;
        for busier in turns {
            let due = self.receipts.claim_outgoing(lease_until, &busier, 1).await?;
            if let Some(outgoing) = due.into_iter().next() {
                return Ok(Some(outgoing));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use ledger::{Opened, ReceiptState};
    use posthouse_wire::delivery::WakeOpts;

    use super::*;
    use crate::dispatch::{Dispatch, DispatchItem};
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_delivery_whose_first_attempt_was_never_reported_is_made_when_its_lease_ends() {
        let fixture = Fixture::open().await;
        let (retries, by) = (fixture.retries(), fixture.operator());
        fixture.enrol("heron").await;
        let dispatch = Dispatch::by(&by, None, "d-1".into(), fixture.time.now());
        let item = DispatchItem::Wake { opts: WakeOpts::default(), from: "desk".to_owned() };
        let paths = fixture.directory().find(&by, "heron", true, None).await.unwrap();
        let new = fixture.dispatcher().new_receipt(&paths[0], &dispatch, &item);
        assert!(matches!(fixture.ledger.receipts().open(new).await.unwrap(), Opened::Fresh(_)));
        assert_eq!(retries.send_due().await.unwrap(), Some(LEASE));
        fixture.time.wind(LEASE);
        retries.send_due().await.unwrap();
        fixture.background.tasks.close();
        fixture.background.tasks.wait().await;
        let receipts = fixture.ledger.receipts().receipts_of(None, None, &dispatch.id).await.unwrap();
        assert!(receipts[0].entry.is_some(), "{:?}", receipts[0]);
        assert_eq!(receipts[0].state, ReceiptState::Queued);
        assert_eq!(retries.send_due().await.unwrap(), None);
    }
}
