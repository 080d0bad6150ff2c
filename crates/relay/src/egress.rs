//! Egress: the trait that carries out agents' actions on a platform.

use async_trait::async_trait;
use ledger::BotRef;
use posthouse_time::{Instant, Moment};
use posthouse_wire::{Action, ActionId, Descriptor, InstanceId, Outcome, TenantId};

use crate::media::{MediaNotKept, MediaWriter};
use crate::stream_cursor::without_cursor;

/// An action that has passed the relay's permission checks and may be carried out.
#[derive(Clone, Debug)]
pub struct PermittedAction {
    pub id: ActionId,
    pub tenant: TenantId,
    pub instance: InstanceId,
    /// The only bot whose credentials may be used for it.
    pub on: BotRef,
    pub action: Action,
    /// False for a follow-up to a session that the agent may not reach now. Its capability is looked for all the same
    /// and never found, so that every refused follow-up costs the same and says the same.
    pub may_redeem: bool,
    /// True for the answer that ends the agent's turn in this chat.
    pub ends_turn: bool,
    /// The cursor at the end of this agent's unfinished texts. Empty if it has none.
    pub stream_cursor: String,
    /// The agent gets a result at this time at the latest, whatever happened.
    pub deadline: Instant,
}

impl PermittedAction {
    /// The text without its cursor, if the agent is still writing it. Otherwise `None`.
    pub fn unfinished(&self) -> Option<&str> {
        match &self.action {
            Action::Send { content, .. } | Action::Edit { content, .. } | Action::Draft { content, .. } => {
                without_cursor(content, &self.stream_cursor)
            }
            _ => None,
        }
    }

    /// The same action without a cursor at the end of its text.
    pub fn without_cursor(mut self) -> Self {
        if let Some(length) = self.unfinished().map(str::len)
            && let Action::Send { content, .. } | Action::Edit { content, .. } | Action::Draft { content, .. } =
                &mut self.action
        {
            content.truncate(length);
        }
        self
    }
}

/// Result of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct EgressResult {
    pub outcome: Outcome,
    /// Time of the first call to the platform, if there was one.
    pub posted: Option<Moment>,
    /// The calls that were made with the credentials of the bot, such as `sendMessage x2`. `None` if there were none.
    pub called: Option<String>,
}

impl From<Outcome> for EgressResult {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, posted: None, called: None }
    }
}

/// What a platform says about a fetched attachment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchedMedia {
    pub mime: Option<String>,
    pub filename: Option<String>,
}

/// Reason why an attachment was not fetched.
#[derive(Debug)]
pub enum NotFetched {
    /// The platform does not have it, or does not give it to bots.
    Gone,
    /// The platform did not answer in time.
    NoAnswer,
    NotKept(MediaNotKept),
}

impl From<MediaNotKept> for NotFetched {
    fn from(reason: MediaNotKept) -> Self {
        NotFetched::NotKept(reason)
    }
}

/// Carries out actions. Implemented by the edge for platforms, by the post for its own conversations, and by a
/// recorder in the relay's tests.
#[async_trait]
pub trait Egress: Send + Sync {
    /// The features of the bot's platform. `None` for a platform that this server does not support.
    async fn descriptor(&self, of: &BotRef) -> Option<Descriptor>;
    /// Whether the bot is a built-in conversation. Every agent has them, so they do not count when an agent
    /// sends a hello for "its only bot".
    fn is_built_in(&self, bot: &BotRef) -> bool;
    /// The built-in conversation that every agent has without a route. It counts last for "its only bot".
    fn everyones(&self) -> Option<BotRef> {
        None
    }
    /// Whether an action with unknown outcome may be carried out again. True where a repetition is harmless and a
    /// loss is not.
    fn may_repeat(&self, bot: &BotRef) -> bool {
        let _ = bot;
        false
    }
    /// Writes the bytes of an attachment to `into`. The reference is the one that came with the event of this bot. The
    /// future is dropped after the time for which a message waits for its attachments.
    async fn fetch_media(
        &self,
        of: &BotRef,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        let _ = (of, reference, into);
        Err(NotFetched::Gone)
    }
    /// Carries out the action once and returns its true outcome. The future is dropped at the deadline.
    async fn perform(&self, permitted: PermittedAction) -> EgressResult;
}
