//! One id, whole story: the steps of an entry or an action, without anybody's words.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, ChatId, DispatchId, EntryId, InstanceId, MessageId, Platform};

use crate::Fault;

/// One step and when it was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub what: &'static str,
    pub at: Moment,
    /// Why, where there is a why.
    pub note: Option<String>,
}

/// The timeline of one thing. Of a delivery that no entry tells of (any more) the connector stands in the
/// platform's place and the agent, by its name there, in the bot's; the instance is empty if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Story {
    pub id: String,
    pub instance: InstanceId,
    pub platform: Platform,
    pub bot: String,
    pub chat: Option<ChatId>,
    pub message: Option<MessageId>,
    /// `inbound`, the op of an action, or the verb of a delivery.
    pub what: String,
    /// The entry an action answers, or the actions that answered an entry.
    pub linked: Vec<String>,
    /// What brought it, where a program sent it. Not among `linked`: programs choose these ids themselves,
    /// and one may read like another kind's.
    pub dispatch: Option<DispatchId>,
    pub steps: Vec<Step>,
}

#[async_trait]
pub trait Traces: Send + Sync {
    async fn entry(&self, id: &EntryId) -> Result<Option<Story>, Fault>;
    async fn action(&self, id: &ActionId) -> Result<Option<Story>, Fault>;
    /// What a program's message reached, whosever it was: the entries, and deliveries that none carries.
    async fn dispatch(&self, id: &DispatchId) -> Result<Vec<Story>, Fault>;
    /// Everything known of one message of a platform, inbound or ours.
    async fn message(
        &self,
        platform: &Platform,
        chat: &ChatId,
        message: &MessageId,
    ) -> Result<Vec<Story>, Fault>;
}
