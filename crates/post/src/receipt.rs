//! Receipts: reading them, and converting stored results to the contract's receipts.

use ledger::{Digest, DispatchVerb, Receipt, ReceiptFilter, ReceiptKey, ReceiptState};
use posthouse_time::Moment;
use posthouse_wire::delivery::{Cause, DeliveryFailed, DeliveryReceipt, WakeReceipt};
use posthouse_wire::{DispatchId, TenantId};

use crate::requests::{Handed, Listing, ReceiptWithReplies};
use crate::{Caller, Fault, Post, Refused};

/// Receipts on one page.
const PAGE: u32 = 50;
const LONGEST_PAGE: u32 = 200;

/// The contract's receipt for a delivery that was made before.
pub(crate) fn handed(first: &Receipt) -> Result<Handed, Refused> {
    // A wake that had nothing to send got a receipt the first time, and gets it again.
    let answered = first.verb == DispatchVerb::Wake && first.answer.is_some();
    if first.state == ReceiptState::Failed && first.entry.is_none() && !answered {
        return Err(Refused::Failed(failure(first)));
    }
    Ok(match first.verb {
        DispatchVerb::Wake => Handed::Woken(woken(first)),
        DispatchVerb::Deliver | DispatchVerb::Exchange => Handed::Delivered(delivered(first)),
    })
}

/// The receipt that the sender got. For an inbox entry it is derived from the record.
pub(crate) fn delivered(of: &Receipt) -> DeliveryReceipt {
    if let Some(known) = of.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()) {
        return known;
    }
    DeliveryReceipt {
        delivered_at: of.accepted_at.millis(),
        delivery_id: of.entry.as_ref().map(ToString::to_string),
        session_id: of.session.clone(),
        delivery_skipped: of.skipped || of.entry.is_none(),
        warnings: Vec::new(),
    }
}

/// The receipt that the sender of a wake got, or would get now.
pub(crate) fn woken(of: &Receipt) -> WakeReceipt {
    if let Some(known) = of.answer.as_deref().and_then(|answer| serde_json::from_str(answer).ok()) {
        return known;
    }
    if let (ReceiptState::Scheduled, Some(at)) = (of.state, of.due) {
        return scheduled(of.accepted_at, at);
    }
    // The server crashed while the wake waited, so the answer is derived from the record.
    let woken = of.acknowledged_at.is_some();
    let unknown = "the server stopped before the result of the wake was known".to_owned();
    WakeReceipt {
        woken_at: of.acknowledged_at.unwrap_or(of.accepted_at).millis(),
        woken,
        session_id: of.session.clone(),
        warnings: if woken { Vec::new() } else { vec![unknown] },
        ..WakeReceipt::default()
    }
}

/// The receipt of a scheduled wake.
pub(crate) fn scheduled(now: Moment, at: Moment) -> WakeReceipt {
    WakeReceipt {
        woken_at: now.millis(),
        woken: false,
        session_id: None,
        warnings: vec![format!("scheduled for {at}")],
        ..WakeReceipt::default()
    }
}

/// The receipt of a delivery that waits for its next attempt.
pub(crate) fn queued(accepted: Moment) -> Handed {
    Handed::Delivered(DeliveryReceipt {
        delivered_at: accepted.millis(),
        delivery_skipped: true,
        warnings: vec!["queued for retry".to_owned()],
        ..DeliveryReceipt::default()
    })
}

pub(crate) fn answer(handed: &Handed) -> String {
    let written = match handed {
        Handed::Delivered(receipt) => serde_json::to_string(receipt),
        Handed::Woken(receipt) => serde_json::to_string(receipt),
    };
    written.expect("a receipt contains only strings, booleans and numbers")
}

/// A failure in its stored form.
pub(crate) fn error(failed: &DeliveryFailed) -> String {
    serde_json::to_string(failed).expect("a failure contains only strings and numbers")
}

/// The stored failure of a receipt.
pub fn failure(of: &Receipt) -> DeliveryFailed {
    let kept = of.error.as_deref().unwrap_or_default();
    serde_json::from_str(kept).unwrap_or_else(|_| DeliveryFailed::new(&of.agent, Cause::Network, kept))
}

impl Post {
    /// The receipts that this caller may see, newest first.
    pub async fn receipts(&self, by: &Caller, listing: Listing) -> Result<Vec<ReceiptWithReplies>, Refused> {
        let filter = ReceiptFilter {
            tenant: Some(by.tenant.clone()),
            sent_by: by.instance().cloned(),
            ..ReceiptFilter::default()
        };
        self.told(filter, listing).await
    }

    /// The list position of a receipt of this caller.
    pub(crate) async fn place_of(
        &self,
        by: &Caller,
        dispatch: &DispatchId,
        digest: Digest,
    ) -> Result<Option<ReceiptKey>, Refused> {
        Ok(self.0.receipts.receipt(&by.tenant, dispatch, digest).await?.map(|receipt| receipt.key))
    }

    /// All receipts of one dispatch of this caller.
    pub async fn receipt(
        &self,
        by: &Caller,
        dispatch: &DispatchId,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        // Other agents of the tenant do not see them.
        let receipts = self.0.receipts.receipts_of(Some(&by.tenant), by.instance(), dispatch).await?;
        self.with_replies(receipts).await
    }

    /// Receipts of all tenants or of one, for the operator.
    pub async fn all_receipts(
        &self,
        tenant: Option<&TenantId>,
        listing: Listing,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        self.told(ReceiptFilter { tenant: tenant.cloned(), ..ReceiptFilter::default() }, listing).await
    }

    /// All receipts of a dispatch id in any tenant, for the operator.
    pub async fn any_receipt(&self, dispatch: &DispatchId) -> Result<Vec<ReceiptWithReplies>, Refused> {
        let receipts = self.0.receipts.receipts_of(None, None, dispatch).await?;
        self.with_replies(receipts).await
    }

    async fn told(
        &self,
        filter: ReceiptFilter,
        listing: Listing,
    ) -> Result<Vec<ReceiptWithReplies>, Refused> {
        let Listing { agent, state, before, limit } = listing;
        let filter = ReceiptFilter { agent, state, ..filter };
        let limit = limit.unwrap_or(PAGE).clamp(1, LONGEST_PAGE);
        let receipts = self.0.receipts.receipts(filter, before, limit).await?;
        Ok(self.tell(receipts).await?)
    }

    async fn with_replies(&self, receipts: Vec<Receipt>) -> Result<Vec<ReceiptWithReplies>, Refused> {
        if receipts.is_empty() {
            return Err(Refused::Absent);
        }
        Ok(self.tell(receipts).await?)
    }

    async fn tell(&self, receipts: Vec<Receipt>) -> Result<Vec<ReceiptWithReplies>, Fault> {
        let mut told = Vec::with_capacity(receipts.len());
        for receipt in receipts {
            let replies = self.0.receipts.replies(receipt.key).await?;
            told.push(ReceiptWithReplies { receipt, replies });
        }
        Ok(told)
    }
}
