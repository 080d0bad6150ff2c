//! Outbox: requests of agents to the server. Each is carried out once, and its result is stored.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{
    ActionId, BotId, ChatId, EntryId, GatewayId, InstanceId, MessageId, Outcome, Platform, RequestId,
};

use crate::Fault;

/// A request that is about to be carried out.
#[derive(Clone, Debug)]
pub struct Request {
    pub gateway: GatewayId,
    pub request: RequestId,
    pub instance: InstanceId,
    pub op: String,
    pub platform: Platform,
    pub bot: BotId,
    pub chat: Option<ChatId>,
    /// The message that it replies to, as the agent says. The answered entry is found by it.
    pub reply_to: Option<MessageId>,
    pub received: Moment,
}

/// Whether a request may be carried out.
#[derive(Clone, Debug, PartialEq)]
pub enum BeginOutcome {
    Fresh {
        action: ActionId,
        answers: Option<EntryId>,
    },
    /// It already has a result. The caller repeats that result.
    Finished {
        action: ActionId,
        outcome: Outcome,
    },
    /// It was begun before and its result is unknown. It must not be carried out again.
    Unfinished {
        action: ActionId,
    },
}

/// Requests, identified by (gateway, request id).
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Records that a request is about to be carried out. The same request again returns the state of the
    /// first.
    async fn begin(&self, request: Request) -> Result<BeginOutcome, Fault>;
    /// The state of a request that was begun before. It records nothing.
    async fn begun_before(
        &self,
        gateway: &GatewayId,
        request: &RequestId,
    ) -> Result<Option<BeginOutcome>, Fault>;
    /// Records the result of an action of this agent. `posted` is the time of the call to the platform, if there was
    /// one, and `called` names the calls that used the bot's credentials.
    async fn finish(
        &self,
        of: &InstanceId,
        action: &ActionId,
        outcome: &Outcome,
        posted: Option<Moment>,
        called: Option<&str>,
    ) -> Result<(), Fault>;
}
