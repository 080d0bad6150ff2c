//! Scheduled wakes: alarms in the clock, and sending the wake when the alarm fires.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use clock::{Alarm, Alarms, FireOutcome, FireTarget};
use ledger::{
    Arm, AttemptOutcome, NewReceipt, Opened, Opening, Receipt, ReceiptFilter, ReceiptKey, ReceiptState,
    Receipts,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::TenantId;
use posthouse_wire::cron::Fired;
use posthouse_wire::delivery::DeliveryFailed;
use tokio::sync::Notify;

use crate::background::Background;
use crate::directory::DeliveryPath;
use crate::dispatch::{Dispatch, DispatchItem};
use crate::dispatcher::{AttemptResult, Dispatcher, EarlierAttempt, LEASE};
use crate::requests::SentReceipt;
use crate::{Fault, Refused, receipt};

/// Page size when scheduled wakes are read.
const PAGE: u32 = 1000;
/// The name under which scheduled wakes are registered in the clock.
const TARGET: &str = "post";
const TOO_MANY: &str = "the tenant has too many scheduled wakes";

/// Wakes at a later time. Each is a receipt and an alarm.
pub struct ScheduledWakes {
    receipts: Arc<dyn Receipts>,
    alarms: Alarms,
    dispatcher: Arc<Dispatcher>,
    timepiece: Timepiece,
    /// Wakes the loop: an alarm could not be set.
    unset: Notify,
}

impl ScheduledWakes {
    /// Creates the component and registers it with the clock.
    pub(crate) fn new(
        receipts: Arc<dyn Receipts>,
        alarms: Alarms,
        dispatcher: Arc<Dispatcher>,
        timepiece: Timepiece,
    ) -> Arc<Self> {
        let wakes = Arc::new(Self { receipts, alarms, dispatcher, timepiece, unset: Notify::new() });
        wakes.alarms.register(TARGET, Arc::new(WakeTarget(Arc::downgrade(&wakes))));
        wakes
    }

    /// Stores a wake to be sent at `at`.
    pub(crate) async fn schedule(
        &self,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        item: &DispatchItem,
        at: Moment,
    ) -> Result<SentReceipt, Refused> {
        let item = &*item.in_session(path.session.as_deref());
        let open = Opening::Scheduled { body: item.json(), at };
        let new = NewReceipt { open, ..self.dispatcher.new_receipt(path, dispatch, item) };
        let (key, at) = match self.dispatcher.open(new).await? {
            Opened::Fresh(key) => (key, at),
            // The server may have crashed before the alarm was set, so it is set again for the time of the first
            // request.
            Opened::Known(first) if first.state == ReceiptState::Scheduled => {
                (first.key, first.due.unwrap_or(at))
            }
            Opened::Known(first) => return receipt::sent(&first),
        };
        // The wake is accepted: if the alarm cannot be set now, the alarm loop tries again.
        let set = self.set_alarm(&dispatch.tenant, key, at).await;
        if !set.inspect_err(|_| self.unset.notify_one())? {
            let error = receipt::error(&DeliveryFailed::client_validation(&path.agent, TOO_MANY));
            // Withdrawn, so that a later request with the same id can succeed.
            self.receipts.withdraw(key, error).await?;
            return Err(Refused::OverQuota(TOO_MANY));
        }
        Ok(SentReceipt::Woken(receipt::scheduled(self.timepiece.now(), at)))
    }

    /// Sets the alarm of a scheduled wake. False if the tenant has too many.
    async fn set_alarm(&self, tenant: &TenantId, key: ReceiptKey, at: Moment) -> Result<bool, Fault> {
        let alarm = Alarm { target: TARGET, tenant: tenant.clone(), job: key.0.to_string().into(), at };
        Ok(self.alarms.set(alarm).await?)
    }

    /// Sets alarms again at the start and whenever one could not be set, until shutdown.
    pub(crate) async fn run(&self, background: &Background) {
        let failure = "could not restore the alarms of scheduled wakes";
        background.when_changed(failure, &self.unset, || self.set_alarms_again()).await;
    }

    /// Sets all alarms again. The server may have crashed after a wake was accepted and before its alarm was set.
    async fn set_alarms_again(&self) -> Result<(), Fault> {
        let filter = ReceiptFilter { state: Some(ReceiptState::Scheduled), ..ReceiptFilter::default() };
        let mut before = None;
        loop {
            let page = self.receipts.receipts(filter.clone(), before, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.key);
            for Receipt { tenant, key, due, agent, .. } in &page {
                // Setting the same alarm again changes nothing. A wake over the limit fails instead of waiting
                // forever.
                let due = due.unwrap_or(self.timepiece.now());
                if !self.set_alarm(tenant, *key, due).await? {
                    let error = receipt::error(&DeliveryFailed::client_validation(agent, TOO_MANY));
                    self.receipts.attempted(*key, AttemptOutcome::Failed { error, answer: None }).await?;
                }
            }
        }
    }

    /// Makes a due wake. The alarm is done once the result is recorded, also for a failed wake, which is not repeated.
    /// With a full inbox the wake stays scheduled, and the clock fires again.
    async fn make(&self, arm: &Arm) -> FireOutcome {
        let Ok(key) = arm.job.as_str().parse().map(ReceiptKey) else {
            return FireOutcome::Accepted { status: 404, fired: Fired::Accepted };
        };
        match self.attempt(key, Moment::from_millis(arm.fire_at.due_ms())).await {
            Ok(AttemptResult::Recorded) => FireOutcome::Accepted { status: 200, fired: Fired::Accepted },
            // The clock retries with growing pauses, because the agent may never come back.
            Ok(AttemptResult::InboxFull) => FireOutcome::Refused { status: 429, retry_after: None },
            Err(fault) => {
                tracing::error!(%fault, "could not send a scheduled wake");
                let why = "the server could not send the wake".to_owned();
                FireOutcome::NoAnswer { why, nothing_was_sent: true }
            }
        }
    }

    async fn attempt(&self, key: ReceiptKey, due: Moment) -> Result<AttemptResult, Fault> {
        let lease_until = self.timepiece.now() + LEASE;
        let Some(outgoing) = self.receipts.start_scheduled(key, lease_until).await? else {
            // Made before, by an alarm whose result did not reach the clock.
            return Ok(AttemptResult::Recorded);
        };
        let result = self.dispatcher.attempt_again(outgoing, EarlierAttempt::None).await?;
        if result == AttemptResult::InboxFull {
            // The same due time, so that the clock keeps and retries the same alarm.
            self.receipts.attempted(key, AttemptOutcome::PutOff { due }).await?;
        }
        Ok(result)
    }
}

/// Scheduled wakes as the clock's target. A weak reference, because they hold the clock's alarms.
struct WakeTarget(Weak<ScheduledWakes>);

#[async_trait]
impl FireTarget for WakeTarget {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        match self.0.upgrade() {
            Some(wakes) => wakes.make(arm).await,
            None => FireOutcome::NoAnswer { why: "the post is closed".to_owned(), nothing_was_sent: true },
        }
    }

    fn host(&self, arm: &Arm) -> String {
        format!("{TARGET}/{}", arm.tenant)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthouse_wire::delivery::WakeOpts;

    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_scheduled_wake_is_sent_once_when_its_time_has_come() {
        let fixture = Fixture::open().await;
        let (wakes, by) = (fixture.scheduled_wakes(), fixture.operator());
        let heron = fixture.enrol("heron").await;
        let at = fixture.time.now() + Duration::from_secs(60);
        let dispatch = Dispatch::by(&by, None, "w-1".into(), fixture.time.now());
        let item = DispatchItem::Wake { opts: WakeOpts::default(), from: dispatch.from.clone() };
        let paths = fixture.directory().find(&by, "heron", true, None).await.unwrap();
        wakes.schedule(&paths[0], &dispatch, &item, at).await.unwrap();
        let receipts = fixture.ledger.receipts();
        let stored = async || receipts.receipts_of(None, None, &dispatch.id).await.unwrap().remove(0);
        let scheduled = stored().await;
        assert_eq!((scheduled.state, scheduled.due), (ReceiptState::Scheduled, Some(at)));
        fixture.time.wind(Duration::from_secs(60));
        for _ in 0..2 {
            assert_eq!(wakes.attempt(scheduled.key, at).await.unwrap(), AttemptResult::Recorded);
        }
        assert_eq!(stored().await.state, ReceiptState::Queued);
        assert_eq!(fixture.ledger.inbox().size(&heron).await.unwrap().entries, 1);
    }
}
