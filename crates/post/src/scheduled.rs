//! Scheduled wakes: alarms in the clock, and sending the wake when the alarm fires.

use std::sync::Weak;

use async_trait::async_trait;
use clock::{Alarm, FireOutcome, FireTarget};
use ledger::{Arm, Attempted, Receipt, ReceiptFilter, ReceiptKey, ReceiptState};
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use posthouse_wire::cron::Fired;
use posthouse_wire::delivery::DeliveryFailed;

use crate::dispatch::{Attempt, Begun, LEASE};
use crate::post::Inner;
use crate::{Fault, Post, receipt};

/// Page size when scheduled wakes are read.
const PAGE: u32 = 1000;

/// The name under which the post is registered in the clock.
pub(crate) const TARGET: &str = "post";

impl Post {
    /// Sets the alarm of a scheduled wake. False if the tenant has too many.
    pub(crate) async fn set_alarm(
        &self,
        tenant: &TenantId,
        key: ReceiptKey,
        at: Moment,
    ) -> Result<bool, Fault> {
        let alarm = Alarm { target: TARGET, tenant: tenant.clone(), job: key.0.to_string().into(), at };
        Ok(self.0.clock.set_alarm(alarm).await?)
    }
}

impl Post {
    /// Sets all alarms again. The server may have crashed after a wake was accepted and before its alarm was set.
    pub(crate) async fn set_alarms_again(&self) -> Result<(), Fault> {
        let filter = ReceiptFilter { state: Some(ReceiptState::Scheduled), ..ReceiptFilter::default() };
        let mut before = None;
        loop {
            let page = self.0.receipts.receipts(filter.clone(), before, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.key);
            for Receipt { tenant, key, due, agent, .. } in &page {
                // Setting the same alarm again changes nothing. A wake over the limit fails instead of waiting
                // forever.
                let due = due.unwrap_or(self.0.timepiece.now());
                if !self.set_alarm(tenant, *key, due).await? {
                    let failed =
                        DeliveryFailed::client_validation(agent, "the tenant has too many scheduled wakes");
                    let error = receipt::error(&failed);
                    self.0.receipts.attempted(*key, Attempted::Failed { error, answer: None }).await?;
                }
            }
        }
    }
}

/// The post as the clock's target. A weak reference, because the post holds the clock.
pub(crate) struct WakeTarget(pub Weak<Inner>);

#[async_trait]
impl FireTarget for WakeTarget {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        match self.0.upgrade() {
            Some(inner) => Post(inner).outcome(arm).await,
            None => FireOutcome::Unheard { why: "the post is closed".to_owned(), nothing_was_sent: true },
        }
    }

    fn host(&self, arm: &Arm) -> String {
        format!("{TARGET}/{}", arm.tenant)
    }
}

impl Post {
    /// Makes a due wake. The alarm is done once the result is recorded, also for a failed wake, which is not repeated.
    /// With a full inbox the wake stays scheduled, and the clock fires again.
    async fn outcome(&self, arm: &Arm) -> FireOutcome {
        let Ok(key) = arm.job.as_str().parse() else {
            return FireOutcome::Taken { status: 404, fired: Fired::Accepted };
        };
        let now = self.0.timepiece.now();
        let outcome = match self.0.receipts.bring_up(ReceiptKey(key), now + LEASE).await {
            Ok(Some(outgoing)) => self.attempt_promised(outgoing, Begun::Never).await,
            // Made before, by an alarm whose result did not reach the clock.
            Ok(None) => Ok(Attempt::Recorded),
            Err(fault) => Err(fault.into()),
        };
        let outcome = match outcome {
            Ok(Attempt::InboxFull) => {
                // The same due time, so that the clock keeps and retries the same alarm.
                let put_off = Attempted::PutOff { due: Moment::from_millis(arm.fire_at.due_ms()) };
                let put_off = self.0.receipts.attempted(ReceiptKey(key), put_off).await;
                put_off.map(|()| Attempt::InboxFull).map_err(Fault::from)
            }
            outcome => outcome,
        };
        match outcome {
            Ok(Attempt::Recorded) => FireOutcome::Taken { status: 200, fired: Fired::Accepted },
            // The clock retries with growing pauses, because the agent may never come back.
            Ok(Attempt::InboxFull) => FireOutcome::Refused { status: 429, retry_after: None },
            Err(fault) => {
                tracing::error!(%fault, "could not send a scheduled wake");
                FireOutcome::Unheard {
                    why: "the server could not send the wake".to_owned(),
                    nothing_was_sent: true,
                }
            }
        }
    }
}
