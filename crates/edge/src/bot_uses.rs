//! Uses of bots' credentials outside of actions: fetching an attachment, asking who sees a chat, sending a notice.

use ledger::RouteTo;
use posthouse_wire::{EntryId, Platform};
use vault::Vault;

/// Records these uses. `posthouse capability list` shows them.
#[derive(Clone)]
pub(crate) struct BotUses(Vault);

/// The agent and the message that a bot's credentials are used for.
#[derive(Clone, Debug)]
pub(crate) struct UsePurpose {
    pub agent: RouteTo,
    /// `None` if the message has no entry, or none yet.
    pub entry: Option<EntryId>,
}

impl BotUses {
    pub fn new(vault: Vault) -> Self {
        Self(vault)
    }

    /// Makes a call with the credentials of a bot, and records its beginning and its end. `called` names the call. If
    /// the beginning cannot be recorded, the call is not made and the result is `None`.
    pub async fn record<T>(
        &self,
        purpose: &UsePurpose,
        platform: &Platform,
        called: &str,
        call: impl Future<Output = T>,
        outcome: impl FnOnce(&T) -> String,
    ) -> Option<T> {
        let UsePurpose { agent: RouteTo { tenant, instance }, entry } = purpose;
        let begun = match self.0.begin_bot_use(tenant, instance, entry.as_ref(), platform).await {
            Ok(begun) => begun,
            Err(fault) => {
                tracing::error!(%fault, called, "could not record the use of a bot, so the call was not made");
                return None;
            }
        };
        let result = call.await;
        if let Err(fault) = self.0.end_bot_use(begun, called, &outcome(&result)).await {
            tracing::error!(%fault, called, "could not record the end of the use of a bot");
        }
        Some(result)
    }
}
