//! `notify` and `deliver`: messages to an agent by every connector that knows it.

use ledger::DispatchVerb;
use posthouse_time::Moment;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{Payload, PayloadOrigin, TriggerKind, WakeOpts, When, is_dispatch_id};

use crate::address::Address;
use crate::directory::DeliveryPath;
use crate::exchange::{check_text, fresh_id, unknown};
use crate::item::{Item, Sending};
use crate::requests::{Deliver, Delivered, Dispatched, Handed, Notified, Notify};
use crate::{Caller, Post, Refused};

/// The contract's warning for a delivery to an address with a session.
const STRIPPED: &str = "stripped @session suffix \u{2014} deliver is mailbox-class";

impl Post {
    /// A bare address delivers, an address with a session wakes. An unknown agent is not an error: the list of results
    /// is empty.
    pub async fn notify(&self, by: &Caller, request: Notify) -> Result<Notified, Refused> {
        check_text("message", &request.message)?;
        let now = self.0.timepiece.now();
        let dispatch = checked_id(request.dispatch_id, now)?;
        let sending = Sending::by(by, request.from, dispatch.clone(), now);
        let wakes = Address::read(&request.agent).wakes();
        let paths = self.find(by, &request.agent, wakes, request.connectors.as_deref()).await?;
        let item = if wakes {
            let context = Some(request.message).filter(|message| !message.is_empty());
            let opts = WakeOpts { context, when: When::Immediate, session_id: None };
            Item::Wake { opts, from: sending.from.clone() }
        } else {
            let meta = sending.meta(by, request.trigger_kind, request.event_type, request.correlation_id);
            let payload = Payload { kind: request.kind, text: request.message, meta };
            Item::Deliver { payload }
        };
        let dispatched = self.dispatch(&paths, &sending, &item, request.wait).await?;
        // Nothing was stored by any connector and the program must retry, so the whole call fails.
        if let Some(refused) = nothing_but_full(&dispatched) {
            return Err(refused);
        }
        Ok(Notified { agent: request.agent, dispatch_id: dispatch, dispatched })
    }

    /// The contract's `deliver`: passes a complete envelope on unchanged. If the caller is an agent, our record of it
    /// replaces the origin. A session in the address is dropped with a warning.
    pub async fn deliver(&self, by: &Caller, request: Deliver) -> Result<Delivered, Refused> {
        let Deliver { agent, mut payload, connectors } = request;
        check_text("content", &payload.text)?;
        let now = self.0.timepiece.now();
        let dispatch = checked_id(Some(payload.meta.dispatch_id.clone()), now)?;
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
        let sending = Sending::by(by, Some(from), dispatch.clone(), sent_at);
        let mut paths = self.find(by, &agent, false, connectors.as_deref()).await?;
        let mut stripped = false;
        let address = Address::read(&agent);
        // No agent has the whole address as its name, so the part after `@` is a session. Deliveries have none.
        if paths.is_empty() && address.wakes() {
            paths = self.find(by, address.agent, false, connectors.as_deref()).await?;
            stripped = true;
        }
        if paths.is_empty() {
            return Err(Refused::Failed(unknown(&agent)));
        }
        let item = Item::Deliver { payload };
        let dispatched = self.dispatch(&paths, &sending, &item, None).await?;
        let first = dispatched.iter().find_map(|one| match &one.outcome {
            Ok(Handed::Delivered(receipt)) => Some(receipt.clone()),
            _ => None,
        });
        let mut receipt = with_failures(&dispatched, first, |receipt| &mut receipt.warnings)?;
        if stripped {
            receipt.warnings.insert(0, STRIPPED.to_owned());
        }
        Ok(Delivered { dispatch_id: dispatch, receipt, dispatched })
    }

    /// Sends by every connector in order. A failure is recorded and does not stop the others. A fault of ours fails the
    /// call only while nothing has been accepted, because the caller may then retry safely.
    pub(crate) async fn dispatch(
        &self,
        paths: &[DeliveryPath],
        sending: &Sending,
        item: &Item,
        wait: Option<std::time::Duration>,
    ) -> Result<Vec<Dispatched>, Refused> {
        let mut dispatched = Vec::with_capacity(paths.len());
        for path in paths {
            let outcome = match self.send(path, sending, item, wait).await {
                Err(Refused::Fault(fault)) if dispatched.is_empty() => return Err(Refused::Fault(fault)),
                Err(Refused::Fault(fault)) => {
                    tracing::error!(%fault, connector = path.name(), "could not send by one of several connectors");
                    Err(Refused::Fault(fault))
                }
                outcome => outcome,
            };
            let connector = path.name().to_owned();
            dispatched.push(Dispatched { connector, outcome, wakes: item.verb() == DispatchVerb::Wake });
        }
        Ok(dispatched)
    }
}

/// The first refusal, if every connector refused because of a full inbox or a quota.
fn nothing_but_full(dispatched: &[Dispatched]) -> Option<Refused> {
    let full = |one: &Dispatched| matches!(one.outcome, Err(Refused::InboxFull(_) | Refused::OverQuota(_)));
    match dispatched.first()?.outcome.as_ref() {
        Err(refused) if dispatched.iter().all(full) => Some(refused.clone()),
        _ => None,
    }
}

/// The given receipt with a warning for every failed connector. Without a receipt, the first failure.
pub(crate) fn with_failures<R>(
    dispatched: &[Dispatched],
    receipt: Option<R>,
    warnings: impl FnOnce(&mut R) -> &mut Vec<String>,
) -> Result<R, Refused> {
    let failures = || {
        let outcomes = dispatched.iter().map(|one| (&one.connector, one.outcome.as_ref().err()));
        outcomes.filter_map(|(connector, failed)| Some((connector, failed?)))
    };
    match receipt {
        Some(mut receipt) => {
            let told = failures().map(|(connector, refused)| format!("{connector}: {refused}"));
            warnings(&mut receipt).extend(told);
            Ok(receipt)
        }
        None => Err(failures().next().map_or(Refused::Absent, |(_, refused)| refused.clone())),
    }
}

/// The caller's dispatch id if it is valid, or a new one if it gave none.
pub(crate) fn checked_id(named: Option<DispatchId>, now: Moment) -> Result<DispatchId, Refused> {
    match named {
        Some(named) if is_dispatch_id(named.as_str()) => Ok(named),
        Some(_) => {
            Err(Refused::malformed("dispatch_id", "must be 1 to 128 letters, digits, `.`, `_`, `:` or `-`"))
        }
        None => Ok(fresh_id(now).into()),
    }
}
