//! One emission on its way: by every connector that knows the agent, each with a receipt of its own.

use std::time::Duration;

use ledger::{Attempted, NewReceipt, Opened, Opening, Outgoing, Receipt, ReceiptKey, ReceiptState, Verb};
use posthouse_time::Moment;
use posthouse_wire::delivery::{Cause, DeliveryFailed, DeliveryReceipt};

use crate::connector::{AgentConnector, Undone};
use crate::directory::{By, Way};
use crate::exchange::Asking;
use crate::item::{Item, Sending};
use crate::wish::Handed;
use crate::{Fault, Post, Refused, receipt};

/// How long an attempt that nobody reports is left alone before it is made again. Whoever is still at it
/// says so in time.
pub(crate) const LEASE: Duration = Duration::from_secs(90);
/// Deliveries of one tenant that may wait to be made.
const WAITING: u32 = 10_000;
/// Attempts at one delivery in all.
const ATTEMPTS: u32 = 3;
/// The pause before the second attempt, at most; it doubles from then on.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Whether an attempt at something promised may have been made before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    Never,
    /// It was begun, and nobody reported how it ended.
    Perhaps,
}

/// A receipt that is on record, and what was done for it so far.
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
    /// Sends one item one way and says what came of it. The same item again is answered from its receipt.
    pub(crate) async fn send(
        &self,
        way: &Way,
        sending: &Sending,
        item: &Item,
        wait: Option<Duration>,
    ) -> Result<Handed, Refused> {
        let item = &*item.in_session(way);
        let handed = match &way.by {
            By::Line(line, instance) => self.send_down(way, line, instance, sending, item, wait).await,
            By::Made { .. } => {
                let new = self.promised(way, sending, item);
                let accepted = new.accepted;
                match self.open(new).await? {
                    Opened::Known(first) => receipt::handed(&first),
                    Opened::Fresh(key) => {
                        return self.send_opened(Promise::fresh(key, accepted), way, sending, item).await;
                    }
                }
            }
        };
        self.0.metrics.dispatched(way, item.verb(), &handed);
        handed
    }

    /// Notes a delivery once, if the tenant has not too many already; one that was noted before is found.
    async fn open(&self, new: NewReceipt) -> Result<Opened, Refused> {
        if self.0.receipts.waiting(&new.tenant, WAITING).await? < WAITING {
            return Ok(self.0.receipts.open(new).await?);
        }
        match self.0.receipts.receipt(&new.tenant, &new.dispatch, new.digest).await? {
            Some(first) => Ok(Opened::Known(Box::new(first))),
            None => Err(Refused::OverQuota("too many deliveries wait to be made")),
        }
    }

    /// The receipt of a delivery that is attempted as soon as it is on record, and again if nobody reports
    /// what came of that.
    pub(crate) fn promised(&self, way: &Way, sending: &Sending, item: &Item) -> NewReceipt {
        let now = self.0.timepiece.now();
        let open = Opening::Attempt { body: item.json(), due: now + LEASE };
        let mut new = sending.receipt(way, item, open, now);
        if let By::Line(_, instance) = &way.by {
            new.instance = Some(instance.id.clone());
        }
        new
    }

    /// The first attempt at what is on record already.
    pub(crate) async fn send_opened(
        &self,
        promise: Promise,
        way: &Way,
        sending: &Sending,
        item: &Item,
    ) -> Result<Handed, Refused> {
        let handed = match &way.by {
            By::Line(line, instance) => self.send_down(way, line, instance, sending, item, None).await,
            By::Made { connector, .. } => {
                self.attempt(promise, &**connector, sending, &way.agent, item).await
            }
        };
        self.0.metrics.dispatched(way, item.verb(), &handed);
        handed
    }

    /// Keeps an item until its time.
    pub(crate) async fn hold_back(
        &self,
        way: &Way,
        sending: &Sending,
        item: &Item,
        at: Moment,
    ) -> Result<Handed, Refused> {
        let item = &*item.in_session(way);
        let open = Opening::Scheduled { body: item.json(), at };
        let new = NewReceipt { open, ..self.promised(way, sending, item) };
        let (key, at) = match self.0.receipts.open(new).await? {
            Opened::Fresh(key) => (key, at),
            // The clock may not have heard of it: the house may have fallen in between. Its time stays what it
            // was the first time.
            Opened::Known(first) if first.state == ReceiptState::Scheduled => {
                (first.key, first.due.unwrap_or(at))
            }
            Opened::Known(first) => return receipt::handed(&first),
        };
        // Promised is promised: if the clock cannot take it now it is told again.
        let set = self.set_alarm(&sending.tenant, key, at).await;
        if !set.inspect_err(|_| self.0.alarms.notify_one())? {
            const WHY: &str = "too many wakes are scheduled";
            let error = receipt::error(&DeliveryFailed::client_validation(&way.agent, WHY));
            // Asked for again later, it may find a place.
            self.0.receipts.withdraw(key, error).await?;
            return Err(Refused::OverQuota(WHY));
        }
        Ok(Handed::Woken(receipt::scheduled(self.0.timepiece.now(), at)))
    }

    /// Makes an attempt at something that was promised earlier.
    pub(crate) async fn attempt_promised(&self, outgoing: Outgoing, begun: Begun) -> Result<(), Fault> {
        let Outgoing { receipt, body } = outgoing;
        let sent = match (serde_json::from_slice::<Item>(&body), self.way_of(&receipt).await?) {
            (Ok(item), Some(way)) => self.send_promised(&receipt, &way, &item, begun).await,
            (Ok(_), None) => {
                let gone = format!("connector `{}` or its agent is gone", receipt.connector);
                Err(DeliveryFailed::client_validation(&receipt.agent, gone).into())
            }
            // We wrote it ourselves; whatever it is now, it cannot be sent.
            (Err(_), _) => {
                Err(DeliveryFailed::client_validation(&receipt.agent, "what was kept cannot be read").into())
            }
        };
        match sent {
            Err(Refused::Fault(fault)) => Err(fault),
            // Whatever else came of an attempt is on record already; what never came to one is not.
            Err(Refused::Failed(failed)) => {
                let error = receipt::error(&failed);
                Ok(self.0.receipts.attempted(receipt.key, Attempted::Failed { error, answer: None }).await?)
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn send_promised(
        &self,
        receipt: &Receipt,
        way: &Way,
        item: &Item,
        begun: Begun,
    ) -> Result<Handed, Refused> {
        let sending = Sending::of(receipt, item);
        match self.asking(&sending, item).await? {
            Asking::Still => {}
            Asking::Answered(at) => return self.arrived(receipt.key, at).await,
            Asking::Over => {
                let why = "nobody waits for an answer any more";
                return Err(DeliveryFailed::new(&way.agent, Cause::Timeout, why).into());
            }
        }
        match &way.by {
            By::Line(line, instance) => self.send_down(way, line, instance, &sending, item, None).await,
            // Typed twice, a text would be read twice.
            By::Made { connector, .. } if begun == Begun::Perhaps && !connector.repeats_harmlessly() => {
                let unknown = "the house stopped while this was sent: whether it arrived is not known";
                Err(DeliveryFailed::new(&way.agent, Cause::Timeout, unknown).into())
            }
            By::Made { connector, .. } => {
                let promise =
                    Promise { key: receipt.key, accepted: receipt.accepted_at, attempts: receipt.attempts };
                self.attempt(promise, &**connector, &sending, &way.agent, item).await
            }
        }
    }

    /// One attempt, recorded. A failure that may pass leaves the delivery queued, and says so.
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
        // Whatever was heard of the delivery: a question that is answered has arrived.
        if attempted.is_err()
            && let Asking::Answered(at) = self.asking(sending, item).await?
        {
            return self.arrived(key, at).await;
        }
        let now = self.0.timepiece.now();
        match attempted {
            // An honest answer to whoever asked, and no delivery.
            Ok(Handed::Woken(mut woken)) if woken.nothing_sent => {
                if woken.warnings.is_empty() {
                    woken.warnings.push("there is no way to interrupt it, and no text to deliver".to_owned());
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
                    && item.verb() != Verb::Wake
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
                // The question first: a house that falls in between puts the receipt right from it.
                self.question_failed(sending, item, &failed).await?;
                self.0.receipts.attempted(key, Attempted::Failed { error, answer: None }).await?;
                Err(refused)
            }
        }
    }

    /// A question whose delivery is known by its answer.
    async fn arrived(&self, key: ReceiptKey, at: Moment) -> Result<Handed, Refused> {
        let receipt = DeliveryReceipt { delivered_at: at.millis(), ..DeliveryReceipt::default() };
        let handed = Handed::Delivered(receipt);
        let answer = receipt::answer(&handed);
        self.0.receipts.attempted(key, Attempted::Delivered { at, answer }).await?;
        Ok(handed)
    }

    /// Sees an attempt through, and keeps others from making it meanwhile.
    async fn holding<T>(&self, key: ReceiptKey, attempt: impl Future<Output = T>) -> T {
        tokio::pin!(attempt);
        loop {
            tokio::select! {
                attempted = &mut attempt => return attempted,
                () = self.0.timepiece.after(LEASE / 3) => {}
            }
            let until = self.0.timepiece.now() + LEASE;
            if let Err(fault) = self.0.receipts.hold(key, until).await {
                tracing::error!(%fault, "could not keep hold of a delivery: it may be made twice");
            }
        }
    }
}

/// Somewhere up to the whole pause, so that what failed together does not come back together; what the
/// receiver itself asks for counts up to the cap.
fn pause(made: u32, asked: Option<Duration>) -> Duration {
    let whole = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(made)).min(LONGEST_PAUSE);
    let mut random = [0; 4];
    // Without randomness the whole pause is as good.
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
