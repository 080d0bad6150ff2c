//! Dispatcher: sends one item by one connector, with its receipt.
//!
//! A connector with a storage of its own stores the item and the receipt in one commit. For any other connector the
//! receipt and the bytes are stored first, then attempts are made and recorded.

mod attempt;
mod retry_pause;

use std::sync::Arc;
use std::time::Duration;

use ledger::{
    AttemptOutcome, DispatchVerb, NewReceipt, Opened, Opening, Outgoing, Receipt, ReceiptKey, Receipts,
    TokenHash,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::InstanceId;
use posthouse_wire::delivery::{Cause, DeliveryFailed, DeliveryReceipt, WakeReceipt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::answers::{Answers, QuestionStatus};
use crate::background::Background;
use crate::connector::{MessageStorage, NewMessage, StoredDispatch};
use crate::directory::{DeliveryPath, Directory};
use crate::dispatch::{Dispatch, DispatchItem};
use crate::fault::STORAGE_FULL;
use crate::reply_url::ReplyUrls;
use crate::requests::SentReceipt;
use crate::tenant_quotas::TenantQuotas;
use crate::{Fault, Metrics, Refused, receipt};

/// Time after which an attempt without a reported result is made again. A running attempt extends it.
pub(crate) const LEASE: Duration = Duration::from_secs(90);
/// The largest number of pending deliveries of one tenant.
const WAITING: u32 = 10_000;

/// Sends items and records what became of them.
pub struct Dispatcher {
    receipts: Arc<dyn Receipts>,
    directory: Arc<Directory>,
    answers: Arc<Answers>,
    reply_urls: ReplyUrls,
    quotas: Arc<TenantQuotas>,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
    closing: CancellationToken,
    /// Notified when a delivery was postponed: it may be the next that is due.
    postponed: Arc<Notify>,
}

/// Whether an earlier attempt at a stored delivery may have been made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EarlierAttempt {
    None,
    /// An attempt began, and its result was not reported.
    Perhaps,
}

/// The result of an attempt at a stored delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptResult {
    /// The result, success or failure, is recorded.
    Recorded,
    /// The agent's inbox is full. Nothing is recorded.
    InboxFull,
}

/// A stored receipt and the number of its attempts so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenReceipt {
    pub key: ReceiptKey,
    pub accepted: Moment,
    pub attempts: u32,
}

impl OpenReceipt {
    pub fn new(key: ReceiptKey, accepted: Moment) -> Self {
        Self { key, accepted, attempts: 0 }
    }
}

impl Dispatcher {
    pub(crate) fn new(
        receipts: Arc<dyn Receipts>,
        directory: Arc<Directory>,
        answers: Arc<Answers>,
        reply_urls: ReplyUrls,
        quotas: Arc<TenantQuotas>,
        metrics: Arc<Metrics>,
        background: &Background,
    ) -> Self {
        let (timepiece, closing) = (background.timepiece.clone(), background.closing.clone());
        let postponed = Arc::default();
        Self { receipts, directory, answers, reply_urls, quotas, metrics, timepiece, closing, postponed }
    }

    /// Notified when a delivery was postponed: it may be the next that is due.
    pub(crate) fn postponed(&self) -> &Arc<Notify> {
        &self.postponed
    }

    /// Sends one item by one path and returns the result. A repeated item is answered from its receipt.
    pub(crate) async fn send(
        &self,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        item: &DispatchItem,
        wait: Option<Duration>,
    ) -> Result<SentReceipt, Refused> {
        let item = &*item.in_session(path.session.as_deref());
        let sent = match path.storage() {
            Some((storage, to)) => {
                let receipt = self.receipt_of_entry(path, dispatch, item);
                let to_agent = path.instance.as_ref().map(|instance| &instance.id);
                match self.charge(&receipt, to_agent).await? {
                    Some(first) => receipt::sent(&first),
                    None => self.store(storage, NewMessage { to, dispatch, item, receipt }, wait).await,
                }
            }
            None => {
                let new = self.new_receipt(path, dispatch, item);
                let accepted = new.accepted;
                match self.open(new).await? {
                    Opened::Known(first) => receipt::sent(&first),
                    Opened::Fresh(key) => {
                        self.attempt(OpenReceipt::new(key, accepted), path, dispatch, item).await
                    }
                }
            }
        };
        self.metrics.dispatched(path, item.verb(), &sent);
        sent
    }

    /// The first attempt at an item whose receipt is stored.
    pub(crate) async fn send_opened(
        &self,
        (key, receipt): (ReceiptKey, NewReceipt),
        path: &DeliveryPath,
        dispatch: &Dispatch,
        item: &DispatchItem,
    ) -> Result<SentReceipt, Refused> {
        let sent = match path.storage() {
            Some((storage, to)) => {
                let receipt = NewReceipt { open: Opening::Entry, ..receipt };
                self.store(storage, NewMessage { to, dispatch, item, receipt }, None).await
            }
            None => self.attempt(OpenReceipt::new(key, receipt.accepted), path, dispatch, item).await,
        };
        self.metrics.dispatched(path, item.verb(), &sent);
        sent
    }

    /// The receipt of a delivery that is attempted right after its commit, and again if no result is reported.
    pub(crate) fn new_receipt(
        &self,
        path: &DeliveryPath,
        dispatch: &Dispatch,
        item: &DispatchItem,
    ) -> NewReceipt {
        let now = self.timepiece.now();
        let open = Opening::Attempt { body: item.json(), due: now + LEASE };
        let instance = path.instance.as_ref().map(|instance| instance.id.clone());
        NewReceipt { instance, ..dispatch.receipt((&path.name, &path.agent), item, open, now) }
    }

    /// The receipt of an item that is stored by the connector itself.
    fn receipt_of_entry(&self, path: &DeliveryPath, dispatch: &Dispatch, item: &DispatchItem) -> NewReceipt {
        dispatch.receipt((&path.name, &path.agent), item, Opening::Entry, self.timepiece.now())
    }

    /// The hash of the token in the reply URL of a question.
    pub(crate) fn reply_token(&self, dispatch: &Dispatch) -> TokenHash {
        self.reply_urls.token_hash(&dispatch.tenant, &dispatch.id)
    }

    /// Counts a message to an agent against the quotas. Without room for it, returns the receipt of the same delivery, if
    /// it was accepted earlier.
    async fn charge(&self, new: &NewReceipt, to: Option<&InstanceId>) -> Result<Option<Receipt>, Refused> {
        let Err(over) = self.quotas.message(&new.tenant, to).await else { return Ok(None) };
        let first = self.receipts.receipt(&new.tenant, &new.dispatch, new.digest).await?;
        first.map(Some).ok_or(Refused::TooManyMessages(over))
    }

    /// Stores a receipt, or finds the one stored earlier for the same delivery. Refused if the tenant has too many.
    pub(crate) async fn open(&self, new: NewReceipt) -> Result<Opened, Refused> {
        if let Some(first) = self.charge(&new, new.instance.as_ref()).await? {
            return Ok(Opened::Known(Box::new(first)));
        }
        let _turn = self.quotas.turn(&new.tenant).await;
        let refused = if !self.quotas.has_room(&new.tenant) {
            STORAGE_FULL
        } else if self.receipts.waiting(&new.tenant, WAITING).await? >= WAITING {
            "the tenant has too many pending deliveries: send it again later"
        } else {
            return Ok(self.receipts.open(new).await?);
        };
        match self.receipts.receipt(&new.tenant, &new.dispatch, new.digest).await? {
            Some(first) => Ok(Opened::Known(Box::new(first))),
            None => Err(Refused::OverQuota(refused)),
        }
    }

    /// Makes an attempt at a delivery that was accepted earlier. After `InboxFull` the delivery stays pending.
    pub(crate) async fn attempt_again(
        &self,
        outgoing: Outgoing,
        earlier: EarlierAttempt,
    ) -> Result<AttemptResult, Fault> {
        let Outgoing { receipt, body } = outgoing;
        let failed = |why: String| Err(DeliveryFailed::client_validation(&receipt.agent, why).into());
        let sent = match (serde_json::from_slice(&body), self.directory.path_of(&receipt).await?) {
            (Ok(item), Some(path)) => self.send_again(&receipt, &path, &item, earlier).await,
            (Ok(_), None) => failed(format!("connector `{}` or its agent was removed", receipt.connector)),
            // We wrote this body ourselves. If it cannot be parsed, no retry helps.
            (Err(_), _) => failed("the stored item cannot be read".to_owned()),
        };
        match sent {
            Err(Refused::Fault(fault)) => Err(fault),
            Err(Refused::InboxFull(_)) => Ok(AttemptResult::InboxFull),
            // `attempt` records its own results. A failure before it is recorded here.
            Err(Refused::Failed(failed)) => {
                let error = receipt::error(&failed);
                self.receipts.attempted(receipt.key, AttemptOutcome::Failed { error, answer: None }).await?;
                Ok(AttemptResult::Recorded)
            }
            Ok(_) | Err(_) => Ok(AttemptResult::Recorded),
        }
    }

    async fn send_again(
        &self,
        receipt: &Receipt,
        path: &DeliveryPath,
        item: &DispatchItem,
        earlier: EarlierAttempt,
    ) -> Result<SentReceipt, Refused> {
        let dispatch = Dispatch::of(receipt, item);
        let failed = |why| Err(DeliveryFailed::new(&path.agent, Cause::Timeout, why).into());
        match self.question_status(&dispatch, item).await? {
            None | Some(QuestionStatus::Open(_)) => {}
            Some(QuestionStatus::Answered(at)) => return self.arrived(receipt.key, at).await,
            Some(QuestionStatus::Over) => {
                return failed("the question has ended: nobody waits for its answer");
            }
        }
        if let Some((storage, to)) = path.storage() {
            let receipt = self.receipt_of_entry(path, &dispatch, item);
            let message = NewMessage { to, dispatch: &dispatch, item, receipt };
            return self.store(storage, message, None).await;
        }
        // For example a text typed into a pane would be read twice.
        if earlier == EarlierAttempt::Perhaps && !path.connector.repeats_harmlessly() {
            return failed("the server stopped while it sent this: it is not known whether it arrived");
        }
        let open =
            OpenReceipt { key: receipt.key, accepted: receipt.accepted_at, attempts: receipt.attempts };
        self.attempt(open, path, &dispatch, item).await
    }

    /// Stores an item for an agent, with its receipt, in one commit. A wake also waits for the agent.
    async fn store(
        &self,
        storage: &dyn MessageStorage,
        message: NewMessage<'_>,
        wait: Option<Duration>,
    ) -> Result<SentReceipt, Refused> {
        let NewMessage { to, dispatch, item, .. } = message;
        let digest = message.receipt.digest;
        let turn = self.quotas.turn(&dispatch.tenant).await;
        let stored = storage.store(message).await?;
        if stored.known {
            let first = self.receipts.receipt(&dispatch.tenant, &dispatch.id, digest).await?;
            // The receipt identified the repeat, but it may have been pruned since.
            return first.map_or_else(|| Ok(repeated(stored, item)), |first| receipt::sent(&first));
        }
        if item.verb() != DispatchVerb::Wake {
            return Ok(SentReceipt::Delivered(stored.receipt));
        }
        let wait = wait.unwrap_or(stored.wake_wait);
        // A request that waits for the agent gives its turn back, so that it does not block its tenant.
        let turn = Some(turn).filter(|_| wait.is_zero());
        let woken = tokio::select! {
            woken = storage.woken(to, &stored, wait) => woken?,
            // Shutdown does not wait for agents.
            () = self.closing.cancelled() => storage.woken(to, &stored, Duration::ZERO).await?,
        };
        let _turn = match turn {
            Some(turn) => turn,
            None => self.quotas.turn(&dispatch.tenant).await,
        };
        let sent = SentReceipt::Woken(woken);
        self.receipts.note_answer(&dispatch.tenant, &dispatch.id, digest, receipt::answer(&sent)).await?;
        Ok(sent)
    }

    /// The status of the question that an item puts. `None` if the item is not a question.
    async fn question_status(
        &self,
        dispatch: &Dispatch,
        item: &DispatchItem,
    ) -> Result<Option<QuestionStatus>, Fault> {
        match (item.verb(), item.correlation()) {
            (DispatchVerb::Exchange, Some(correlation)) => {
                Ok(Some(self.answers.status(&dispatch.tenant, correlation).await?))
            }
            (DispatchVerb::Exchange, None) => Ok(Some(QuestionStatus::Over)),
            (DispatchVerb::Deliver | DispatchVerb::Wake, _) => Ok(None),
        }
    }
}

/// The receipt for an item that was stored before, if its first receipt is gone.
fn repeated(stored: StoredDispatch, item: &DispatchItem) -> SentReceipt {
    let receipt = DeliveryReceipt { delivery_skipped: false, ..stored.receipt };
    match item.verb() {
        DispatchVerb::Wake => SentReceipt::Woken(WakeReceipt {
            woken_at: receipt.delivered_at,
            woken: false,
            session_id: receipt.session_id,
            warnings: vec!["it was sent before, and its receipt was removed since".to_owned()],
            ..WakeReceipt::default()
        }),
        DispatchVerb::Deliver | DispatchVerb::Exchange => SentReceipt::Delivered(receipt),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ledger::ReceiptState;
    use posthouse_wire::delivery::WakeOpts;
    use serde_json::json;

    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn an_item_is_stored_with_its_receipt_on_the_relay_and_attempted_at_any_other_connector() {
        let fixture = Fixture::open().await;
        let (dispatcher, by) = (fixture.dispatcher(), fixture.operator());
        fixture.enrol("heron").await;
        let closed = json!({ "agents": { "heron": { "url": "http://127.0.0.1:9/in" } } });
        fixture.create_connector("hook", "webhook", &closed).await;
        let dispatch = Dispatch::by(&by, Some("desk".to_owned()), "d-1".into(), fixture.time.now());
        let opts = WakeOpts { context: Some("come".to_owned()), ..WakeOpts::default() };
        let item = DispatchItem::Wake { opts, from: "desk".to_owned() };
        let paths = fixture.directory().find(&by, "heron", true, None).await.unwrap();
        let [relay, hook] = &paths[..] else { panic!("two connectors know it") };
        let sent = dispatcher.send(relay, &dispatch, &item, Some(Duration::ZERO)).await.unwrap();
        let SentReceipt::Woken(woken) = &sent else { panic!("{sent:?}") };
        assert!(!woken.woken, "the agent is not connected");
        assert_eq!(dispatcher.send(relay, &dispatch, &item, None).await.unwrap(), sent);
        assert!(matches!(dispatcher.send(hook, &dispatch, &item, None).await, Err(Refused::Failed(_))));
        let receipts = fixture.ledger.receipts().receipts_of(Some(&by.tenant), None, &dispatch.id).await;
        let states: Vec<_> = receipts.unwrap().into_iter().map(|kept| (kept.state, kept.attempts)).collect();
        assert_eq!(states, [(ReceiptState::Queued, 0), (ReceiptState::Failed, 1)]);
    }
}
