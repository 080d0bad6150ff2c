//! What agents asked to be done: each request once, its answer remembered.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{
    ActionId, BotId, ChatId, EntryId, GatewayId, InstanceId, MessageId, Outcome, Platform, RequestId,
};

use crate::Fault;

/// A request about to be acted on.
#[derive(Clone, Debug)]
pub struct Request {
    pub gateway: GatewayId,
    pub request: RequestId,
    pub instance: InstanceId,
    pub op: String,
    pub platform: Platform,
    pub bot: BotId,
    pub chat: Option<ChatId>,
    /// The message it says it replies to, from which the answered entry is found.
    pub reply_to: Option<MessageId>,
    pub received: Moment,
}

/// Whether a request may be acted on.
#[derive(Clone, Debug, PartialEq)]
pub enum Begun {
    Fresh {
        action: ActionId,
        answers: Option<EntryId>,
    },
    /// It was answered before; answer the same again.
    Finished {
        action: ActionId,
        outcome: Outcome,
    },
    /// It was begun before and nobody knows how it ended. It must not be begun again.
    Unfinished {
        action: ActionId,
    },
}

/// Requests by (gateway, request id).
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Notes that a request is about to be acted on. The same request again tells how the first went.
    async fn begin(&self, request: Request) -> Result<Begun, Fault>;
    /// Notes how it ended. `posted` is when the platform was called, if it was.
    async fn finish(&self, action: &ActionId, outcome: &Outcome, posted: Option<Moment>)
    -> Result<(), Fault>;
}
