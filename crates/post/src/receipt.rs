//! Conversion of stored receipts to the contract's receipts, and of results to their stored form.

use ledger::{DispatchVerb, Receipt, ReceiptState};
use posthouse_time::Moment;
use posthouse_wire::delivery::{Cause, DeliveryFailed, DeliveryReceipt, WakeReceipt};

use crate::Refused;
use crate::requests::SentReceipt;

/// The contract's receipt for a delivery that was made before.
pub(crate) fn sent(first: &Receipt) -> Result<SentReceipt, Refused> {
    // A wake that had nothing to send got a receipt the first time, and gets it again.
    let answered = first.verb == DispatchVerb::Wake && first.answer.is_some();
    if first.state == ReceiptState::Failed && first.entry.is_none() && !answered {
        return Err(Refused::Failed(failure(first)));
    }
    Ok(match first.verb {
        DispatchVerb::Wake => SentReceipt::Woken(woken(first)),
        DispatchVerb::Deliver | DispatchVerb::Exchange => SentReceipt::Delivered(delivered(first)),
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
pub(crate) fn queued(accepted: Moment) -> SentReceipt {
    SentReceipt::Delivered(DeliveryReceipt {
        delivered_at: accepted.millis(),
        delivery_skipped: true,
        warnings: vec!["queued for retry".to_owned()],
        ..DeliveryReceipt::default()
    })
}

pub(crate) fn answer(sent: &SentReceipt) -> String {
    let written = match sent {
        SentReceipt::Delivered(receipt) => serde_json::to_string(receipt),
        SentReceipt::Woken(receipt) => serde_json::to_string(receipt),
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
