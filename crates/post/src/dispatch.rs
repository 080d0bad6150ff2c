//! Dispatch of one item by one connector: receipt, attempts, retries and their limits.

use std::time::Duration;

use ledger::{
    Attempted, DispatchVerb, NewReceipt, Opened, Opening, Outgoing, Receipt, ReceiptKey, ReceiptState,
};
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use posthouse_wire::delivery::{Cause, DeliveryFailed, DeliveryReceipt};

use crate::connector::{AgentConnector, Undone};
use crate::directory::{DeliveryPath, PathKind};
use crate::exchange::Asking;
use crate::fault::STORAGE_FULL;
use crate::item::{Item, Sending};
use crate::requests::Handed;
use crate::{Fault, Post, Refused, receipt};

/// Time after which an attempt without a reported result is made again. A running attempt extends it.
pub(crate) const LEASE: Duration = Duration::from_secs(90);
/// The largest number of pending deliveries of one tenant.
const WAITING: u32 = 10_000;
/// The largest number of attempts at one delivery.
const ATTEMPTS: u32 = 3;
/// The longest pause before the second attempt. It doubles with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whether an earlier attempt at a stored delivery may have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Never,
    /// An attempt began, and its result was not reported.
    Perhaps,
}

/// The result of an attempt at a stored delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The result, success or failure, is recorded.
    Recorded,
    /// The agent's inbox is full. Nothing is recorded.
    InboxFull,
}

/// Pause before the next attempt after a full inbox.
pub(crate) const FULL_PAUSE: Duration = Duration::from_secs(30);

/// A stored receipt and the number of its attempts so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub key: ReceiptKey,
    pub accepted: Moment,
    pub attempts: u32,
}

impl Promise {
    pub fn fresh(key: ReceiptKey, accepted: Moment) -> Self {
        Self { key, accepted, attempts: 0 }
    }
}

impl Post {
    /// Sends one item by one path and returns the result. A repeated item is answered from its receipt.
    pub(crate) async fn send(
        &self,
        path: &DeliveryPath,
        sending: &Sending,
        item: &Item,
        wait: Option<Duration>,
    ) -> Result<Handed, Refused> {
        let item = &*item.in_session(path);
        let handed = match &path.by {
            PathKind::Relay(relay_path, instance) => {
                self.send_down(path, relay_path, instance, sending, item, wait).await
            }
            PathKind::Connector { .. } => {
                let new = self.promised(path, sending, item);
                let accepted = new.accepted;
                match self.open(new).await? {
                    Opened::Known(first) => receipt::handed(&first),
                    Opened::Fresh(key) => {
                        return self.send_opened(Promise::fresh(key, accepted), path, sending, item).await;
                    }
                }
            }
        };
        self.0.metrics.dispatched(path, item.verb(), &handed);
        handed
    }

    /// Stores a receipt, or finds the one stored earlier for the same delivery. Refused if the tenant has too many.
    async fn open(&self, new: NewReceipt) -> Result<Opened, Refused> {
        let _turn = self.0.turns.turn(&new.tenant).await;
        let refused = if !self.has_room(&new.tenant) {
            STORAGE_FULL
        } else if self.0.receipts.waiting(&new.tenant, WAITING).await? >= WAITING {
            "the tenant has too many pending deliveries: send it again later"
        } else {
            return Ok(self.0.receipts.open(new).await?);
        };
        match self.0.receipts.receipt(&new.tenant, &new.dispatch, new.digest).await? {
            Some(first) => Ok(Opened::Known(Box::new(first))),
            None => Err(Refused::OverQuota(refused)),
        }
    }

    /// Whether the tenant is below its storage limit.
    pub(crate) fn has_room(&self, tenant: &TenantId) -> bool {
        self.0.usage.of_tenant(tenant).has_room()
    }

    /// The receipt of a delivery that is attempted right after its commit, and again if no result is reported.
    pub(crate) fn promised(&self, path: &DeliveryPath, sending: &Sending, item: &Item) -> NewReceipt {
        let now = self.0.timepiece.now();
        let open = Opening::Attempt { body: item.json(), due: now + LEASE };
        let mut new = sending.receipt(path, item, open, now);
        if let PathKind::Relay(_, instance) = &path.by {
            new.instance = Some(instance.id.clone());
        }
        new
    }

    /// The first attempt at a delivery whose receipt is stored.
    pub(crate) async fn send_opened(
        &self,
        promise: Promise,
        path: &DeliveryPath,
        sending: &Sending,
        item: &Item,
    ) -> Result<Handed, Refused> {
        let handed = match &path.by {
            PathKind::Relay(relay_path, instance) => {
                self.send_down(path, relay_path, instance, sending, item, None).await
            }
            PathKind::Connector { connector, .. } => {
                self.attempt(promise, &**connector, sending, &path.agent, item).await
            }
        };
        self.0.metrics.dispatched(path, item.verb(), &handed);
        handed
    }

    /// Stores an item to be sent at `at`.
    pub(crate) async fn hold_back(
        &self,
        path: &DeliveryPath,
        sending: &Sending,
        item: &Item,
        at: Moment,
    ) -> Result<Handed, Refused> {
        let item = &*item.in_session(path);
        let open = Opening::Scheduled { body: item.json(), at };
        let new = NewReceipt { open, ..self.promised(path, sending, item) };
        let (key, at) = match self.open(new).await? {
            Opened::Fresh(key) => (key, at),
            // The server may have crashed before the alarm was set, so it is set again for the time of the first
            // request.
            Opened::Known(first) if first.state == ReceiptState::Scheduled => {
                (first.key, first.due.unwrap_or(at))
            }
            Opened::Known(first) => return receipt::handed(&first),
        };
        // The wake is accepted: if the alarm cannot be set now, the alarm loop tries again.
        let set = self.set_alarm(&sending.tenant, key, at).await;
        if !set.inspect_err(|_| self.0.alarms.notify_one())? {
            const WHY: &str = "the tenant has too many scheduled wakes";
            let error = receipt::error(&DeliveryFailed::client_validation(&path.agent, WHY));
            // Withdrawn, so that a later request with the same id can succeed.
            self.0.receipts.withdraw(key, error).await?;
            return Err(Refused::OverQuota(WHY));
        }
        Ok(Handed::Woken(receipt::scheduled(self.0.timepiece.now(), at)))
    }

    /// Makes an attempt at a delivery that was accepted earlier. After `InboxFull` the delivery stays pending.
    pub(crate) async fn attempt_promised(&self, outgoing: Outgoing, begun: Begun) -> Result<Attempt, Fault> {
        let Outgoing { receipt, body } = outgoing;
        let sent = match (serde_json::from_slice::<Item>(&body), self.way_of(&receipt).await?) {
            (Ok(item), Some(path)) => self.send_promised(&receipt, &path, &item, begun).await,
            (Ok(_), None) => {
                let gone = format!("connector `{}` or its agent was removed", receipt.connector);
                Err(DeliveryFailed::client_validation(&receipt.agent, gone).into())
            }
            // We wrote this body ourselves. If it cannot be parsed, no retry helps.
            (Err(_), _) => {
                Err(DeliveryFailed::client_validation(&receipt.agent, "the stored item cannot be read")
                    .into())
            }
        };
        match sent {
            Err(Refused::Fault(fault)) => Err(fault),
            Err(Refused::InboxFull(_)) => Ok(Attempt::InboxFull),
            // `attempt` records its own results. A failure before it is recorded here.
            Err(Refused::Failed(failed)) => {
                let error = receipt::error(&failed);
                self.0.receipts.attempted(receipt.key, Attempted::Failed { error, answer: None }).await?;
                Ok(Attempt::Recorded)
            }
            Ok(_) | Err(_) => Ok(Attempt::Recorded),
        }
    }

    async fn send_promised(
        &self,
        receipt: &Receipt,
        path: &DeliveryPath,
        item: &Item,
        begun: Begun,
    ) -> Result<Handed, Refused> {
        let sending = Sending::of(receipt, item);
        match self.asking(&sending, item).await? {
            Asking::Still => {}
            Asking::Answered(at) => return self.arrived(receipt.key, at).await,
            Asking::Over => {
                let why = "the question has ended: nobody waits for its answer";
                return Err(DeliveryFailed::new(&path.agent, Cause::Timeout, why).into());
            }
        }
        match &path.by {
            PathKind::Relay(relay_path, instance) => {
                self.send_down(path, relay_path, instance, &sending, item, None).await
            }
            // For example a text typed into a pane would be read twice.
            PathKind::Connector { connector, .. }
                if begun == Begun::Perhaps && !connector.repeats_harmlessly() =>
            {
                let unknown = "the server stopped while it sent this: it is not known whether it arrived";
                Err(DeliveryFailed::new(&path.agent, Cause::Timeout, unknown).into())
            }
            PathKind::Connector { connector, .. } => {
                let promise =
                    Promise { key: receipt.key, accepted: receipt.accepted_at, attempts: receipt.attempts };
                self.attempt(promise, &**connector, &sending, &path.agent, item).await
            }
        }
    }

    /// Makes one attempt and records its result. After a temporary failure the delivery stays queued, which the result
    /// states.
    async fn attempt(
        &self,
        promise: Promise,
        connector: &dyn AgentConnector,
        sending: &Sending,
        agent: &str,
        item: &Item,
    ) -> Result<Handed, Refused> {
        let attempt = async {
            match item {
                Item::Deliver { payload } => connector.deliver(agent, payload).await.map(Handed::Delivered),
                Item::Wake { opts, .. } => {
                    connector.wake(agent, opts, &sending.emission()).await.map(Handed::Woken)
                }
                Item::Ask { payload } => {
                    self.put(connector, sending, agent, payload).await.map(Handed::Delivered)
                }
            }
        };
        let Promise { key, accepted, attempts } = promise;
        let attempted = self.holding(key, attempt).await.map_err(Undone::discreet);
        // A question that was answered has arrived, even if the delivery reported a failure.
        if attempted.is_err()
            && let Asking::Answered(at) = self.asking(sending, item).await?
        {
            return self.arrived(key, at).await;
        }
        let now = self.0.timepiece.now();
        match attempted {
            // The caller gets the receipt, but the delivery counts as failed because nothing was sent.
            Ok(Handed::Woken(mut woken)) if woken.nothing_sent => {
                if woken.warnings.is_empty() {
                    woken
                        .warnings
                        .push("the connector cannot interrupt, and there is no text to deliver".to_owned());
                }
                let why = format!("nothing was sent: {}", woken.warnings.join("; "));
                let error = receipt::error(&DeliveryFailed::client_validation(agent, why));
                let handed = Handed::Woken(woken);
                let answer = Some(receipt::answer(&handed));
                self.0.receipts.attempted(key, Attempted::Failed { error, answer }).await?;
                Ok(handed)
            }
            Ok(handed) => {
                let answer = receipt::answer(&handed);
                self.0.receipts.attempted(key, Attempted::Delivered { at: now, answer }).await?;
                Ok(handed)
            }
            Err(Undone::Failed(failed))
                if failed.may_pass()
                    && item.verb() != DispatchVerb::Wake
                    && connector.repeats_harmlessly()
                    && attempts + 1 < ATTEMPTS =>
            {
                let queued = receipt::queued(accepted);
                let postponed = Attempted::Postponed {
                    due: now + pause(attempts, failed.retry_after),
                    error: receipt::error(&failed),
                    answer: receipt::answer(&queued),
                };
                self.0.receipts.attempted(key, postponed).await?;
                self.0.nudge.notify_one();
                Ok(queued)
            }
            Err(undone) => {
                let (failed, refused) = match undone {
                    Undone::Failed(failed) => (failed.clone(), failed.into()),
                    lacking @ Undone::NotImplemented { .. } => {
                        let why = lacking.to_string();
                        (DeliveryFailed::client_validation(agent, &why), Refused::NotImplemented(why))
                    }
                };
                let error = receipt::error(&failed);
                // The question first: after a crash in between, the receipt is corrected from it.
                self.question_failed(sending, item, &failed).await?;
                self.0.receipts.attempted(key, Attempted::Failed { error, answer: None }).await?;
                Err(refused)
            }
        }
    }

    /// Records the delivery of a question whose answer proves that it arrived.
    async fn arrived(&self, key: ReceiptKey, at: Moment) -> Result<Handed, Refused> {
        let receipt = DeliveryReceipt { delivered_at: at.millis(), ..DeliveryReceipt::default() };
        let handed = Handed::Delivered(receipt);
        let answer = receipt::answer(&handed);
        self.0.receipts.attempted(key, Attempted::Delivered { at, answer }).await?;
        Ok(handed)
    }

    /// Runs an attempt, and extends its lease so that nobody else makes the same attempt meanwhile.
    async fn holding<T>(&self, key: ReceiptKey, attempt: impl Future<Output = T>) -> T {
        tokio::pin!(attempt);
        loop {
            tokio::select! {
                attempted = &mut attempt => return attempted,
                () = self.0.timepiece.after(LEASE / 3) => {}
            }
            let until = self.0.timepiece.now() + LEASE;
            if let Err(fault) = self.0.receipts.hold(key, until).await {
                tracing::error!(%fault, "could not extend the lease of a delivery: it may be made twice");
            }
        }
    }
}

/// A random part of the full pause, so that deliveries that failed together do not retry together. The receiver's
/// own `Retry-After` counts up to the cap.
fn pause(made: u32, asked: Option<Duration>) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(made)).min(LONGEST_PAUSE);
    let mut random = [0; 4];
    // Without randomness, the full pause.
    let share = match aws_lc_rs::rand::fill(&mut random) {
        Ok(()) => f64::from(u32::from_be_bytes(random)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    };
    whole.mul_f64(share).max(asked.unwrap_or_default().min(LONGEST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_doubles_up_to_its_cap_and_is_drawn_from_all_of_it() {
        for (made, whole) in [(0, 250), (1, 500), (2, 1000), (4, 4000), (5, 5000), (40, 5000)] {
            let whole = Duration::from_millis(whole);
            let drawn: Vec<Duration> = (0..200).map(|_| pause(made, None)).collect();
            assert!(drawn.iter().all(|pause| *pause <= whole), "{drawn:?}");
            let (low, high) = (drawn.iter().min().unwrap(), drawn.iter().max().unwrap());
            assert!(*low < whole / 2 && *high > whole / 2, "from {low:?} to {high:?} of {whole:?}");
        }
    }

    #[test]
    fn what_the_receiver_asks_for_counts_up_to_the_cap() {
        let asked = |seconds| pause(0, Some(Duration::from_secs(seconds)));
        assert_eq!(asked(2), Duration::from_secs(2));
        assert_eq!(asked(3600), LONGEST_PAUSE);
        assert!(asked(0) <= FIRST_PAUSE);
    }
}
