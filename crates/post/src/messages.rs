//! `notify`, `deliver` and `wake`: messages to an agent by every connector that knows it.

use std::sync::Arc;
use std::time::Duration;

use ledger::DispatchVerb;
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::delivery::{Payload, PayloadOrigin, TriggerKind, WakeOpts, WakeTime};

use crate::address::Address;
use crate::directory::{DeliveryPath, Directory, unknown_agent};
use crate::dispatch::{Dispatch, DispatchItem, check_text, checked_id};
use crate::dispatcher::Dispatcher;
use crate::requests::{
    ConnectorOutcome, DeliverCommand, DeliverOutcome, LONGEST_WAIT, NotifyCommand, NotifyOutcome,
    SentReceipt, WakeCommand, WakeOutcome,
};
use crate::scheduled_wakes::ScheduledWakes;
use crate::{Caller, Refused};

/// The contract's warning for a delivery to an address with a session.
const STRIPPED: &str = "stripped @session suffix \u{2014} deliver is mailbox-class";
/// The longest time ahead that a wake may be scheduled: a year.
const FURTHEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// Sends messages and wakes, each by every connector that knows the agent.
pub struct Messages {
    directory: Arc<Directory>,
    dispatcher: Arc<Dispatcher>,
    scheduled: Arc<ScheduledWakes>,
    timepiece: Timepiece,
}

impl Messages {
    pub(crate) fn new(
        directory: Arc<Directory>,
        dispatcher: Arc<Dispatcher>,
        scheduled: Arc<ScheduledWakes>,
        timepiece: Timepiece,
    ) -> Self {
        Self { directory, dispatcher, scheduled, timepiece }
    }

    /// A bare address delivers, an address with a session wakes. An unknown agent is not an error: the list of results
    /// is empty.
    pub async fn notify(&self, by: &Caller, request: NotifyCommand) -> Result<NotifyOutcome, Refused> {
        check_text("message", &request.message)?;
        let now = self.timepiece.now();
        let id = checked_id(request.dispatch_id, now)?;
        let dispatch = Dispatch::by(by, request.from, id.clone(), now);
        let wakes = Address::read(&request.agent).wakes();
        let paths = self.directory.find(by, &request.agent, wakes, request.connectors.as_deref()).await?;
        let item = if wakes {
            let context = Some(request.message).filter(|message| !message.is_empty());
            let opts = WakeOpts { context, when: WakeTime::Immediate, session_id: None };
            DispatchItem::Wake { opts, from: dispatch.from.clone() }
        } else {
            let meta = dispatch.meta(by, request.trigger_kind, request.event_type, request.correlation_id);
            let payload = Payload { kind: request.kind, text: request.message, meta };
            DispatchItem::Deliver { payload }
        };
        let results = self.send_by_all(&paths, &dispatch, &item, request.wait).await?;
        // Nothing was stored by any connector and the program must retry, so the whole call fails.
        if let Some(refused) = nothing_but_full(&results) {
            return Err(refused);
        }
        Ok(NotifyOutcome { agent: request.agent, dispatch_id: id, dispatched: results })
    }

    /// The contract's `deliver`: passes a complete envelope on unchanged. If the caller is an agent, our record of it
    /// replaces the origin. A session in the address is dropped with a warning.
    pub async fn deliver(&self, by: &Caller, request: DeliverCommand) -> Result<DeliverOutcome, Refused> {
        let DeliverCommand { agent, mut payload, connectors } = request;
        check_text("content", &payload.text)?;
        let id = checked_id(Some(payload.meta.dispatch_id.clone()), self.timepiece.now())?;
        if by.agent.is_some() {
            payload.meta.origin = PayloadOrigin {
                skill_name: by.name().to_owned(),
                entry_skill_name: None,
                trigger_kind: TriggerKind::Agent,
                caller_agent_id: by.agent_id(),
                rest: serde_json::Map::default(),
            };
        }
        let sent_at = Moment::from_millis(payload.meta.sent_at);
        let from = payload.meta.origin.skill_name.clone();
        let dispatch = Dispatch::by(by, Some(from), id.clone(), sent_at);
        let mut paths = self.directory.find(by, &agent, false, connectors.as_deref()).await?;
        let mut stripped = false;
        let address = Address::read(&agent);
        // No agent has the whole address as its name, so the part after `@` is a session. Deliveries have none.
        if paths.is_empty() && address.wakes() {
            paths = self.directory.find(by, address.agent, false, connectors.as_deref()).await?;
            stripped = true;
        }
        if paths.is_empty() {
            return Err(Refused::Failed(unknown_agent(&agent)));
        }
        let item = DispatchItem::Deliver { payload };
        let dispatched = self.send_by_all(&paths, &dispatch, &item, None).await?;
        let first = dispatched.iter().find_map(|one| match &one.outcome {
            Ok(SentReceipt::Delivered(receipt)) => Some(receipt.clone()),
            _ => None,
        });
        let mut receipt = with_failures(&dispatched, first, |receipt| &mut receipt.warnings)?;
        if stripped {
            receipt.warnings.insert(0, STRIPPED.to_owned());
        }
        Ok(DeliverOutcome { dispatch_id: id, receipt, dispatched })
    }

    /// Interrupts an agent now or at a given time, and reports whether it was woken.
    pub async fn wake(&self, by: &Caller, request: WakeCommand) -> Result<WakeOutcome, Refused> {
        let WakeCommand { agent, context, when, session_id, connectors, from, dispatch_id, wait } = request;
        check_text("context", context.as_deref().unwrap_or_default())?;
        let now = self.timepiece.now();
        let id = checked_id(dispatch_id, now)?;
        let paths = self.directory.find(by, &agent, true, connectors.as_deref()).await?;
        if paths.is_empty() {
            return Err(Refused::Failed(unknown_agent(&agent)));
        }
        let dispatch = Dispatch::by(by, from, id.clone(), now);
        let context = context.filter(|context| !context.is_empty());
        let session_id = session_id.filter(|session| !session.is_empty());
        let opts = WakeOpts { context, when, session_id };
        let item = DispatchItem::Wake { opts, from: dispatch.from.clone() };
        let dispatched = match due(when, now)? {
            Some(at) => self.schedule_by_all(&paths, &dispatch, &item, at).await,
            None => {
                let wait = wait.map(|wait| wait.min(LONGEST_WAIT));
                self.send_by_all(&paths, &dispatch, &item, wait).await?
            }
        };
        // The receipt of a connector that woke the agent, otherwise the first receipt.
        let receipts = || {
            dispatched.iter().filter_map(|one| match &one.outcome {
                Ok(SentReceipt::Woken(receipt)) => Some(receipt),
                _ => None,
            })
        };
        let best = receipts().find(|receipt| receipt.woken).or_else(|| receipts().next()).cloned();
        let receipt = with_failures(&dispatched, best, |receipt| &mut receipt.warnings)?;
        Ok(WakeOutcome { dispatch_id: id, receipt, dispatched })
    }

    /// Sends by every connector in order. A failure is recorded and does not stop the others. A fault of ours fails the
    /// call only while nothing has been accepted, because the caller may then retry safely.
    async fn send_by_all(
        &self,
        paths: &[DeliveryPath],
        dispatch: &Dispatch,
        item: &DispatchItem,
        wait: Option<Duration>,
    ) -> Result<Vec<ConnectorOutcome>, Refused> {
        let mut results = Vec::with_capacity(paths.len());
        for path in paths {
            let outcome = match self.dispatcher.send(path, dispatch, item, wait).await {
                Err(Refused::Fault(fault)) if results.is_empty() => return Err(Refused::Fault(fault)),
                Err(Refused::Fault(fault)) => {
                    tracing::error!(%fault, connector = path.name, "could not send by one of several connectors");
                    Err(Refused::Fault(fault))
                }
                outcome => outcome,
            };
            let connector = path.name.clone();
            results.push(ConnectorOutcome { connector, outcome, wakes: item.verb() == DispatchVerb::Wake });
        }
        Ok(results)
    }

    /// Stores a wake for later, for every connector.
    async fn schedule_by_all(
        &self,
        paths: &[DeliveryPath],
        dispatch: &Dispatch,
        item: &DispatchItem,
        at: Moment,
    ) -> Vec<ConnectorOutcome> {
        let mut results = Vec::with_capacity(paths.len());
        for path in paths {
            let outcome = self.scheduled.schedule(path, dispatch, item, at).await;
            if let Err(Refused::Fault(fault)) = &outcome {
                tracing::error!(%fault, connector = path.name, "could not schedule a wake by one of its connectors");
            }
            results.push(ConnectorOutcome { connector: path.name.clone(), outcome, wakes: true });
        }
        results
    }
}

/// The time of a scheduled wake. `None` if it is due now.
fn due(when: WakeTime, now: Moment) -> Result<Option<Moment>, Refused> {
    let WakeTime::At(ms) = when else { return Ok(None) };
    let at = Moment::from_millis(ms);
    if at > now + FURTHEST {
        return Err(Refused::malformed("when", "must be at most a year ahead"));
    }
    Ok(Some(at).filter(|at| *at > now))
}

/// The first refusal, if every connector refused because of a full inbox or a quota.
fn nothing_but_full(results: &[ConnectorOutcome]) -> Option<Refused> {
    let full = |one: &ConnectorOutcome| {
        matches!(
            one.outcome,
            Err(Refused::InboxFull(_) | Refused::OverQuota(_) | Refused::TooManyMessages(_))
        )
    };
    match results.first()?.outcome.as_ref() {
        Err(refused) if results.iter().all(full) => Some(refused.clone()),
        _ => None,
    }
}

/// The given receipt with a warning for every failed connector. Without a receipt, the first failure.
fn with_failures<R>(
    results: &[ConnectorOutcome],
    receipt: Option<R>,
    warnings: impl FnOnce(&mut R) -> &mut Vec<String>,
) -> Result<R, Refused> {
    let failures = || {
        let outcomes = results.iter().map(|one| (&one.connector, one.outcome.as_ref().err()));
        outcomes.filter_map(|(connector, failed)| Some((connector, failed?)))
    };
    match receipt {
        Some(mut receipt) => {
            let failed = failures().map(|(connector, refused)| format!("{connector}: {refused}"));
            warnings(&mut receipt).extend(failed);
            Ok(receipt)
        }
        None => Err(failures().next().map_or(Refused::Absent, |(_, refused)| refused.clone())),
    }
}

#[cfg(test)]
mod tests {
    use posthouse_wire::delivery::PayloadKind;

    use super::*;
    use crate::tests::fixtures::Fixture;

    #[tokio::test]
    async fn a_bare_address_delivers_one_with_a_session_wakes_and_an_unknown_agent_is_not_an_error() {
        let fixture = Fixture::open().await;
        let (messages, by) = (fixture.messages(), fixture.operator());
        let heron = fixture.enrol("heron").await;
        let notify = async |agent: &str| {
            let request = NotifyCommand {
                agent: agent.to_owned(),
                message: "hello".to_owned(),
                kind: PayloadKind::Augment,
                event_type: None,
                correlation_id: None,
                connectors: None,
                from: None,
                trigger_kind: None,
                dispatch_id: None,
                wait: Some(Duration::ZERO),
            };
            let sent = messages.notify(&by, request).await.unwrap().dispatched;
            sent.into_iter().map(|one| (one.connector, one.wakes)).collect::<Vec<_>>()
        };
        assert_eq!(notify("heron").await, [("relay".to_owned(), false)]);
        assert_eq!(notify("heron@attic").await, [("relay".to_owned(), true)]);
        assert_eq!(notify("nobody").await, []);
        assert_eq!(fixture.ledger.inbox().size(&heron).await.unwrap().entries, 2);
    }

    #[test]
    fn a_wake_may_be_at_most_a_year_ahead_and_one_in_the_past_is_due_now() {
        let now = Moment::from_seconds(1_000);
        let at = |at: Moment| due(WakeTime::At(at.millis()), now);
        assert_eq!(due(WakeTime::Immediate, now).unwrap(), None);
        assert_eq!(at(now).unwrap(), None);
        assert_eq!(at(now + FURTHEST).unwrap(), Some(now + FURTHEST));
        assert!(at(now + FURTHEST + Duration::from_secs(1)).is_err());
    }
}
