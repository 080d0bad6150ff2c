//! Wakes that were asked for a later time: the clock rings, and the post makes them.

use std::sync::Weak;

use async_trait::async_trait;
use clock::{Alarm, Bell, Rung};
use ledger::{Arm, Attempted, Receipt, ReceiptFilter, ReceiptKey, ReceiptState};
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use posthouse_wire::cron::Fired;
use posthouse_wire::delivery::DeliveryFailed;

use crate::dispatch::{Begun, LEASE};
use crate::post::Inner;
use crate::{Fault, Post, receipt};

/// Scheduled wakes read at once.
const PAGE: u32 = 1000;

/// The name of our bell.
pub(crate) const BELL: &str = "post";

impl Post {
    /// False when the tenant has too many.
    pub(crate) async fn set_alarm(
        &self,
        tenant: &TenantId,
        key: ReceiptKey,
        at: Moment,
    ) -> Result<bool, Fault> {
        let alarm = Alarm { bell: BELL, tenant: tenant.clone(), job: key.0.to_string().into(), at };
        Ok(self.0.clock.set_alarm(alarm).await?)
    }
}

impl Post {
    /// After a start: whoever was promised a wake may have been promised it before the clock heard of it.
    pub(crate) async fn set_alarms_again(&self) -> Result<(), Fault> {
        let filter = ReceiptFilter { state: Some(ReceiptState::Scheduled), ..ReceiptFilter::default() };
        let mut before = None;
        loop {
            let page = self.0.receipts.receipts(filter.clone(), before, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            before = Some(last.key);
            for Receipt { tenant, key, due, agent, .. } in &page {
                // The same alarm again changes nothing. One that does not fit any more is not kept waiting for
                // ever.
                let due = due.unwrap_or(self.0.timepiece.now());
                if !self.set_alarm(tenant, *key, due).await? {
                    let failed = DeliveryFailed::client_validation(agent, "too many wakes are scheduled");
                    let error = receipt::error(&failed);
                    self.0.receipts.attempted(*key, Attempted::Failed { error, answer: None }).await?;
                }
            }
        }
    }
}

/// The post as the clock knows it: not a handle, or neither would ever go.
pub(crate) struct Ringer(pub Weak<Inner>);

#[async_trait]
impl Bell for Ringer {
    async fn ring(&self, arm: &Arm) -> Rung {
        match self.0.upgrade() {
            Some(inner) => Post(inner).rung(arm).await,
            None => Rung::Unheard { why: "the post is closed".to_owned(), nothing_was_sent: true },
        }
    }

    fn host(&self, arm: &Arm) -> String {
        format!("{BELL}/{}", arm.tenant)
    }
}

impl Post {
    /// Taken as soon as what came of it is on record, whatever that is: a wake that failed is not made again.
    async fn rung(&self, arm: &Arm) -> Rung {
        let Ok(key) = arm.job.as_str().parse() else {
            return Rung::Taken { status: 404, fired: Fired::Accepted };
        };
        let now = self.0.timepiece.now();
        let rung = match self.0.receipts.bring_up(ReceiptKey(key), now, now + LEASE).await {
            Ok(Some(outgoing)) => self.attempt_promised(outgoing, Begun::Never).await,
            // Made before, by a ring whose end the clock did not hear of.
            Ok(None) => Ok(()),
            Err(fault) => Err(fault.into()),
        };
        match rung {
            Ok(()) => Rung::Taken { status: 200, fired: Fired::Accepted },
            Err(fault) => {
                tracing::error!(%fault, "could not make a scheduled wake");
                Rung::Unheard { why: "the house could not make it".to_owned(), nothing_was_sent: true }
            }
        }
    }
}
