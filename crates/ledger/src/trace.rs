//! Traces: the timeline of an entry, an action or a delivery, without message text.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, ChatId, DispatchId, EntryId, InstanceId, MessageId, Platform, TenantId};

use crate::Fault;

/// One step and the time at which it was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    pub what: &'static str,
    pub at: Moment,
    /// The reason, if there is one.
    pub note: Option<String>,
}

/// The timeline of one entry, action or delivery. For a delivery without an entry (any more), `platform` is
/// the connector, `bot` is the agent's name there, and `instance` is empty if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageTimeline {
    pub id: String,
    pub instance: InstanceId,
    pub platform: Platform,
    pub bot: String,
    pub chat: Option<ChatId>,
    pub message: Option<MessageId>,
    /// `inbound`, the operation of an action, or the verb of a delivery.
    pub what: String,
    /// The entry that an action answers, or the actions that answered an entry.
    pub linked: Vec<String>,
    /// The dispatch of a program that led to it. It is not in `linked`, because programs choose these ids
    /// themselves, and one can look like an id of another kind.
    pub dispatch: Option<TenantDispatch>,
    pub steps: Vec<TraceStep>,
}

/// A dispatch of a program of this tenant. Programs choose the ids, so two tenants can have the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TenantDispatch {
    pub tenant: TenantId,
    pub id: DispatchId,
}

#[async_trait]
pub trait Traces: Send + Sync {
    async fn entry(&self, id: &EntryId) -> Result<Option<MessageTimeline>, Fault>;
    async fn action(&self, id: &ActionId) -> Result<Option<MessageTimeline>, Fault>;
    /// Everything that a program's dispatch led to, of any tenant: the entries, and the deliveries without an
    /// entry.
    async fn dispatch(&self, id: &DispatchId) -> Result<Vec<MessageTimeline>, Fault>;
    /// Everything known about one message of a platform, incoming or sent by the server.
    async fn message(
        &self,
        platform: &Platform,
        chat: &ChatId,
        message: &MessageId,
    ) -> Result<Vec<MessageTimeline>, Fault>;
}
