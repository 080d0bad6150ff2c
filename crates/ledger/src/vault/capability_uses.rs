//! Uses of capabilities and of bots' credentials, one record each.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, EntryId, InstanceId, Platform, TenantId};

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
    /// Its place among the uses of the same time, for paging: the action, or an id of its own if there is none.
    pub position: ActionId,
}

#[async_trait]
pub trait CapabilityUses: Send + Sync {
    /// Records the begin of a use of a bot's own credentials that no action causes, such as fetching an attachment of
    /// this message. Returns its number.
    async fn begin_bot_use(
        &self,
        tenant: &TenantId,
        instance: &InstanceId,
        entry: Option<&EntryId>,
        platform: &Platform,
    ) -> Result<i64, Fault>;
    /// Records the end of a use of this tenant.
    async fn end_use(&self, tenant: &TenantId, number: i64, called: &str, outcome: &str)
    -> Result<(), Fault>;
    /// The uses of an agent, the latest first, after this position in the list: the time of a use and its
    /// `position`.
    async fn credential_uses(
        &self,
        of: &InstanceId,
        after: Option<(Moment, ActionId)>,
        at_most: u32,
    ) -> Result<Vec<CredentialUse>, Fault>;
}
