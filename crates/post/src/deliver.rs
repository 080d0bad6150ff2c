//! Telling an agent something, by every connector that knows it.

use ledger::Verb;
use posthouse_time::Moment;
use posthouse_wire::DispatchId;
use posthouse_wire::delivery::{Origin, Payload, TriggerKind, WakeOpts, When, is_dispatch_id};

use crate::address::Address;
use crate::directory::Way;
use crate::exchange::{check_text, fresh_id, unknown};
use crate::item::{Item, Sending};
use crate::wish::{Deliver, Delivered, Dispatched, Handed, Notified, Notify};
use crate::{Caller, Post, Refused};

impl Post {
    /// A bare address delivers, one with a session wakes. Nobody knowing the agent is no error.
    pub async fn notify(&self, by: &Caller, wish: Notify) -> Result<Notified, Refused> {
        check_text("message", &wish.message)?;
        let now = self.0.timepiece.now();
        let dispatch = checked_id(wish.dispatch_id, now)?;
        let sending = Sending::by(by, wish.from, dispatch.clone(), now);
        let wakes = Address::read(&wish.agent).wakes();
        let ways = self.find(by, &wish.agent, wakes, wish.connectors.as_deref()).await?;
        let item = if wakes {
            let context = Some(wish.message).filter(|message| !message.is_empty());
            let opts = WakeOpts { context, when: When::Immediate, session_id: None };
            Item::Wake { opts, from: sending.from.clone() }
        } else {
            let meta = sending.meta(by, wish.trigger_kind, wish.event_type, wish.correlation_id);
            let payload = Payload { kind: wish.kind, text: wish.message, meta };
            Item::Deliver { payload }
        };
        let dispatched = self.dispatch(&ways, &sending, &item, wish.wait).await?;
        Ok(Notified { agent: wish.agent, dispatch_id: dispatch, dispatched })
    }

    /// The contract's own verb: a complete envelope, passed on as it came. What an agent says of its origin
    /// is replaced by what we know of it.
    pub async fn deliver(&self, by: &Caller, wish: Deliver) -> Result<Delivered, Refused> {
        let Deliver { agent, mut payload, connectors } = wish;
        check_text("content", &payload.text)?;
        let now = self.0.timepiece.now();
        let dispatch = checked_id(Some(payload.meta.dispatch_id.clone()), now)?;
        if by.agent.is_some() {
            payload.meta.origin = Origin {
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
        let ways = self.find(by, &agent, false, connectors.as_deref()).await?;
        if ways.is_empty() {
            return Err(Refused::Failed(unknown(&agent)));
        }
        let item = Item::Deliver { payload };
        let dispatched = self.dispatch(&ways, &sending, &item, None).await?;
        let first = dispatched.iter().find_map(|one| match &one.outcome {
            Ok(Handed::Delivered(receipt)) => Some(receipt.clone()),
            _ => None,
        });
        let receipt = with_failures(&dispatched, first, |receipt| &mut receipt.warnings)?;
        Ok(Delivered { dispatch_id: dispatch, receipt, dispatched })
    }

    /// Every way in order. What fails is recorded, and the rest are tried all the same. A fault of our own ends
    /// it only while nothing is promised yet: whoever was told nothing may ask again.
    pub(crate) async fn dispatch(
        &self,
        ways: &[Way],
        sending: &Sending,
        item: &Item,
        wait: Option<std::time::Duration>,
    ) -> Result<Vec<Dispatched>, Refused> {
        let mut dispatched = Vec::with_capacity(ways.len());
        for way in ways {
            let outcome = match self.send(way, sending, item, wait).await {
                Err(Refused::Fault(fault)) if dispatched.is_empty() => return Err(Refused::Fault(fault)),
                Err(Refused::Fault(fault)) => {
                    tracing::error!(%fault, connector = way.name(), "could not send by one way of several");
                    Err(Refused::Fault(fault))
                }
                outcome => outcome,
            };
            let connector = way.name().to_owned();
            dispatched.push(Dispatched { connector, outcome, wakes: item.verb() == Verb::Wake });
        }
        Ok(dispatched)
    }
}

/// One receipt for all ways, with a word about those that failed. Where none speaks for all the first
/// failure does.
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

/// The caller's id, if it is one, or a fresh one.
pub(crate) fn checked_id(named: Option<DispatchId>, now: Moment) -> Result<DispatchId, Refused> {
    match named {
        Some(named) if is_dispatch_id(named.as_str()) => Ok(named),
        Some(_) => {
            Err(Refused::malformed("dispatch_id", "is 1 to 128 letters, digits and `.`, `_`, `:`, `-`"))
        }
        None => Ok(fresh_id(now).into()),
    }
}
