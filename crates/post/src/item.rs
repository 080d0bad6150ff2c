//! Items on their way to agents (deliveries, wakes, questions) and their senders.

use std::borrow::Cow;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use ledger::{Digest, DispatchVerb, NewReceipt, Opening, Receipt};
use posthouse_time::Moment;
use posthouse_wire::delivery::{Meta, Payload, PayloadOrigin, TriggerKind, WakeOpts};
use posthouse_wire::{ClientId, CorrelationId, DispatchId, InstanceId, TenantId};
use serde::{Deserialize, Serialize};

use crate::Caller;
use crate::connector::Emission;
use crate::directory::DeliveryPath;

/// The sender, id and time of an item.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub tenant: TenantId,
    pub sender: ClientId,
    pub sent_by: Option<InstanceId>,
    /// The sender's name in the conversation.
    pub from: String,
    pub dispatch: DispatchId,
    pub sent_at: Moment,
}

/// An item to send. It is stored as JSON until it has arrived, and every attempt sends the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub(crate) enum Item {
    Deliver { payload: Payload },
    Wake { opts: WakeOpts, from: String },
    Ask { payload: Payload },
}

impl Item {
    pub fn verb(&self) -> DispatchVerb {
        match self {
            Item::Deliver { .. } => DispatchVerb::Deliver,
            Item::Wake { .. } => DispatchVerb::Wake,
            Item::Ask { .. } => DispatchVerb::Exchange,
        }
    }

    /// A wake uses the session in its address, unless the request named one.
    pub fn in_session(&self, path: &DeliveryPath) -> Cow<'_, Item> {
        match (self, &path.session) {
            (Item::Wake { opts, from }, Some(session))
                if opts.session_id.is_none() && !session.is_empty() =>
            {
                let opts = WakeOpts { session_id: Some(session.clone()), ..opts.clone() };
                Cow::Owned(Item::Wake { opts, from: from.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The session that a wake is for.
    fn session(&self) -> Option<&str> {
        match self {
            Item::Wake { opts, .. } => opts.session_id.as_deref(),
            Item::Deliver { .. } | Item::Ask { .. } => None,
        }
    }

    pub fn json(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("an item contains only strings, numbers and parsed JSON"))
    }

    /// Identifies one delivery among those of the same dispatch id.
    fn digest(&self, connector: &str, agent: &str, sent_by: Option<&InstanceId>) -> Digest {
        let (kind, text, session) = match self {
            Item::Deliver { payload } => (payload.kind.word(), payload.text.as_str(), ""),
            Item::Ask { payload } => ("ask", payload.text.as_str(), ""),
            Item::Wake { opts, .. } => {
                ("wake", opts.context.as_deref().unwrap_or_default(), self.session().unwrap_or_default())
            }
        };
        // Equal ids of two agents of a tenant are independent. All programs of a tenant share one id space.
        let sender = sent_by.map_or("", InstanceId::as_str);
        digest(&[connector, agent, kind, text, session, sender])
    }
}

/// A hash of a list of texts. Each length is hashed too, so `["ab"]` and `["a", "b"]` differ.
pub(crate) fn digest(texts: &[&str]) -> Digest {
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text.as_bytes());
    }
    let mut digest = Digest::default();
    digest.copy_from_slice(&context.finish().as_ref()[..16]);
    digest
}

impl Sending {
    /// An agent always has its own name as `from`, because a conversation is named after its sender.
    pub fn by(caller: &Caller, from: Option<String>, dispatch: DispatchId, sent_at: Moment) -> Self {
        let from = from.filter(|_| caller.agent.is_none());
        Self {
            tenant: caller.tenant.clone(),
            sender: caller.client.clone(),
            sent_by: caller.instance().cloned(),
            from: from.unwrap_or_else(|| caller.name().to_owned()),
            dispatch,
            sent_at,
        }
    }

    /// Restored from a receipt, for a later attempt.
    pub fn of(receipt: &Receipt, item: &Item) -> Self {
        let from = match item {
            Item::Deliver { payload } | Item::Ask { payload } => &payload.meta.origin.skill_name,
            Item::Wake { from, .. } => from,
        };
        Self {
            tenant: receipt.tenant.clone(),
            sender: receipt.sender.clone(),
            sent_by: receipt.sent_by.clone(),
            from: from.clone(),
            dispatch: receipt.dispatch.clone(),
            sent_at: receipt.sent_at,
        }
    }

    pub fn receipt(&self, path: &DeliveryPath, item: &Item, open: Opening, now: Moment) -> NewReceipt {
        let (connector, agent) = (path.name(), &path.agent);
        NewReceipt {
            tenant: self.tenant.clone(),
            dispatch: self.dispatch.clone(),
            digest: item.digest(connector, agent, self.sent_by.as_ref()),
            connector: connector.to_owned(),
            agent: agent.to_owned(),
            instance: None,
            chat: None,
            session: item.session().map(str::to_owned),
            verb: item.verb(),
            sender: self.sender.clone(),
            sent_by: self.sent_by.clone(),
            sent_at: self.sent_at,
            accepted: now,
            skipped: false,
            open,
        }
    }

    /// The envelope metadata for an item of this sender.
    pub fn meta(
        &self,
        by: &Caller,
        trigger_kind: Option<TriggerKind>,
        event_type: Option<String>,
        correlation_id: Option<CorrelationId>,
    ) -> Meta {
        Meta {
            dispatch_id: self.dispatch.clone(),
            sent_at: self.sent_at.millis(),
            origin: PayloadOrigin {
                skill_name: self.from.clone(),
                entry_skill_name: None,
                trigger_kind: by.trigger(trigger_kind),
                caller_agent_id: by.called_by(trigger_kind),
                rest: serde_json::Map::default(),
            },
            event_type,
            correlation_id,
            rest: serde_json::Map::default(),
        }
    }

    pub fn emission(&self) -> Emission {
        Emission { dispatch_id: self.dispatch.clone(), sent_at: self.sent_at, from: self.from.clone() }
    }
}
