//! Uses of capabilities and of bots' credentials, one record each.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId, InstanceId};

use crate::Fault;

/// One use of a credential that an agent caused. It never contains the credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialUse {
    pub at: Moment,
    /// The kind of the capability, or `PLATFORM.bot` for the bot's own credentials.
    pub kind: String,
    /// The message that led to it, if that is known.
    pub entry: Option<EntryId>,
    pub action: Option<ActionId>,
    /// The calls that were made. `None` if it is not known whether there was one.
    pub called: Option<String>,
    /// `ok`, or the error. `None` while it runs, and if its end is unknown.
    pub outcome: Option<String>,
}

#[async_trait]
pub trait CapabilityUses: Send + Sync {
    /// Records the end of a use.
    async fn end_use(&self, number: i64, called: &str, outcome: &str) -> Result<(), Fault>;
    /// The uses of an agent, the latest first, after this position in the list: the time and the action of a use.
    async fn credential_uses(
        &self,
        of: &InstanceId,
        after: Option<(Moment, ActionId)>,
        at_most: u32,
    ) -> Result<Vec<CredentialUse>, Fault>;
}
