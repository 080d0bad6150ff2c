//! Dispatches: what a program sends (a delivery, a wake or a question), with its sender, id and time.

use std::borrow::Cow;

use aws_lc_rs::digest::{Context, SHA256};
use bytes::Bytes;
use ledger::{Digest, DispatchVerb, NewReceipt, Opening, Receipt};
use posthouse_time::Moment;
use posthouse_wire::delivery::{
    Meta, Payload, PayloadKind, PayloadOrigin, TriggerKind, WakeOpts, is_dispatch_id,
};
use posthouse_wire::{ClientId, CorrelationId, DispatchId, InstanceId, TenantId};
use serde::{Deserialize, Serialize};

use crate::connector::Emission;
use crate::conversations::LONGEST_TEXT;
use crate::requests::AskCommand;
use crate::{Caller, Refused};

/// The sender, id and time of a message, wake or question. It may go to several connectors.
#[derive(Clone, Debug)]
pub struct Dispatch {
    pub tenant: TenantId,
    pub sender: ClientId,
    pub sent_by: Option<InstanceId>,
    /// The sender's name in the conversation.
    pub from: String,
    pub id: DispatchId,
    pub sent_at: Moment,
}

/// What a dispatch brings to the agent. It is stored as JSON until it has arrived, and every attempt sends the same
/// bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum DispatchItem {
    Deliver { payload: Payload },
    Wake { opts: WakeOpts, from: String },
    Ask { payload: Payload },
}

impl DispatchItem {
    pub fn verb(&self) -> DispatchVerb {
        match self {
            DispatchItem::Deliver { .. } => DispatchVerb::Deliver,
            DispatchItem::Wake { .. } => DispatchVerb::Wake,
            DispatchItem::Ask { .. } => DispatchVerb::Exchange,
        }
    }

    /// A wake uses the session in its address, unless the request named one.
    pub fn in_session(&self, session: Option<&str>) -> Cow<'_, DispatchItem> {
        match (self, session) {
            (DispatchItem::Wake { opts, from }, Some(session))
                if opts.session_id.is_none() && !session.is_empty() =>
            {
                let opts = WakeOpts { session_id: Some(session.to_owned()), ..opts.clone() };
                Cow::Owned(DispatchItem::Wake { opts, from: from.clone() })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The id of the question, if this is one.
    pub fn correlation(&self) -> Option<&CorrelationId> {
        match self {
            DispatchItem::Ask { payload } => payload.meta.correlation_id.as_ref(),
            DispatchItem::Deliver { .. } | DispatchItem::Wake { .. } => None,
        }
    }

    /// The session that a wake is for.
    fn session(&self) -> Option<&str> {
        match self {
            DispatchItem::Wake { opts, .. } => opts.session_id.as_deref(),
            DispatchItem::Deliver { .. } | DispatchItem::Ask { .. } => None,
        }
    }

    pub fn json(&self) -> Bytes {
        Bytes::from(serde_json::to_vec(self).expect("an item contains only strings, numbers and parsed JSON"))
    }

    /// Identifies one delivery among those of the same dispatch id.
    fn digest(&self, connector: &str, agent: &str, sent_by: Option<&InstanceId>) -> Digest {
        let (kind, text, session) = match self {
            DispatchItem::Deliver { payload } => (payload.kind.word(), payload.text.as_str(), ""),
            DispatchItem::Ask { payload } => ("ask", payload.text.as_str(), ""),
            DispatchItem::Wake { opts, .. } => {
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

impl Dispatch {
    /// An agent always has its own name as `from`, because a conversation is named after its sender.
    pub fn by(caller: &Caller, from: Option<String>, id: DispatchId, sent_at: Moment) -> Self {
        let from = from.filter(|_| caller.agent.is_none());
        Self {
            tenant: caller.tenant.clone(),
            sender: caller.client.clone(),
            sent_by: caller.instance().cloned(),
            from: from.unwrap_or_else(|| caller.name().to_owned()),
            id,
            sent_at,
        }
    }

    /// A question, with a new id unless the request has one. `correlation` is its stored id.
    pub fn question(
        by: &Caller,
        request: &AskCommand,
        correlation: &CorrelationId,
        now: Moment,
    ) -> (Self, DispatchItem) {
        let id = request.dispatch_id.clone().unwrap_or_else(|| fresh_id(now).into());
        let dispatch = Self::by(by, request.from.clone(), id, now);
        let (trigger, event_type) = (request.trigger_kind, request.event_type.clone());
        let mut meta = dispatch.meta(by, trigger, event_type, Some(correlation.clone()));
        if let Some(origin) = &request.origin {
            meta.origin = origin.clone();
        }
        let payload = Payload { kind: PayloadKind::Augment, text: request.message.clone(), meta };
        (dispatch, DispatchItem::Ask { payload })
    }

    /// Restored from a receipt, for a later attempt.
    pub fn of(receipt: &Receipt, item: &DispatchItem) -> Self {
        let from = match item {
            DispatchItem::Deliver { payload } | DispatchItem::Ask { payload } => {
                &payload.meta.origin.skill_name
            }
            DispatchItem::Wake { from, .. } => from,
        };
        Self {
            tenant: receipt.tenant.clone(),
            sender: receipt.sender.clone(),
            sent_by: receipt.sent_by.clone(),
            from: from.clone(),
            id: receipt.dispatch.clone(),
            sent_at: receipt.sent_at,
        }
    }

    /// The receipt to store for this item at one connector.
    pub fn receipt(
        &self,
        (connector, agent): (&str, &str),
        item: &DispatchItem,
        open: Opening,
        now: Moment,
    ) -> NewReceipt {
        NewReceipt {
            tenant: self.tenant.clone(),
            dispatch: self.id.clone(),
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
            dispatch_id: self.id.clone(),
            sent_at: self.sent_at.millis(),
            origin: PayloadOrigin {
                skill_name: self.from.clone(),
                entry_skill_name: None,
                trigger_kind: by.trigger(trigger_kind),
                caller_agent_id: by.caller_agent_id(trigger_kind),
                rest: serde_json::Map::default(),
            },
            event_type,
            correlation_id,
            rest: serde_json::Map::default(),
        }
    }

    pub fn emission(&self) -> Emission {
        Emission { dispatch_id: self.id.clone(), sent_at: self.sent_at, from: self.from.clone() }
    }
}

/// A new id for a dispatch or a question: a UUIDv7, so that ids of the same time are neighbours in the database.
pub(crate) fn fresh_id(now: Moment) -> String {
    let mut random = [0; 10];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    let millis = u64::try_from(now.millis()).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
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

pub(crate) fn check_text(field: &'static str, text: &str) -> Result<(), Refused> {
    match text.len() > LONGEST_TEXT {
        true => Err(Refused::TooLong { field, most: LONGEST_TEXT }),
        false => Ok(()),
    }
}
