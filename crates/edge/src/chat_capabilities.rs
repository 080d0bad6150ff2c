//! Chat capabilities: credentials that actions in a chat need, such as a connection to somebody's business account.
//!
//! Answers use the capability only if the last message of the chat brought one.

use std::sync::Arc;
use std::time::Duration;

use moka::sync::Cache;
use parking_lot::RwLock;
use posthouse_wire::session_key::{self, Options};
use posthouse_wire::{CapabilityKind, ChatId, InstanceId, SessionKey, Source};
use relay::PermittedAction;
use vault::{CapturedCapability, Granted, Redemption, Vault};

use crate::Fault;
use crate::platform::Platform;

/// Number of agents in the cache that tells whether an agent has such capabilities. Hardly any agent has one.
const AGENTS: u64 = 100_000;
const REMEMBERED: Duration = Duration::from_secs(600);

/// Clones share one state.
#[derive(Clone)]
pub(crate) struct ChatCapabilities {
    vault: Vault,
    /// The kinds that were looked up, and whether anybody has one.
    kinds: Arc<RwLock<Vec<(&'static str, bool)>>>,
    holders: Cache<(InstanceId, &'static str), bool>,
}

impl ChatCapabilities {
    pub fn new(vault: Vault) -> Self {
        let holders = Cache::builder().max_capacity(AGENTS).time_to_live(REMEMBERED).build();
        Self { vault, kinds: Arc::default(), holders }
    }

    /// Takes one use of the capability that this action needs. `None` if it needs none, or if the capability is no
    /// longer valid.
    pub async fn take(
        &self,
        platform: &dyn Platform,
        permitted: &PermittedAction,
    ) -> Result<Option<Granted>, Fault> {
        let Some(chat) = permitted.action.chat_id() else { return Ok(None) };
        let Some(kind) = platform.sending_capability(chat) else { return Ok(None) };
        if !self.holds(&permitted.instance, kind).await? {
            return Ok(None);
        }
        let kind = CapabilityKind::from(kind);
        let Some(key) = direct_key(platform, chat) else { return Ok(None) };
        let redemption = self
            .vault
            .redeem(&permitted.tenant, &permitted.instance, &key, &kind, Some(&permitted.id))
            .await?;
        Ok(match redemption {
            Redemption::Granted(granted) => Some(granted),
            Redemption::Nothing => None,
        })
    }

    /// Records whether a message of a chat brought a capability, before the message is stored. If it did not, the
    /// earlier one is removed.
    pub async fn note(
        &self,
        platform: &dyn Platform,
        instance: &InstanceId,
        source: &Source,
        brought: &[CapturedCapability],
    ) -> Result<(), Fault> {
        let chat = source.chat_id.as_ref().filter(|_| source.chat_type == "dm");
        let Some(kind) = chat.and_then(|chat| platform.sending_capability(chat)) else { return Ok(()) };
        if brought.iter().any(|capability| capability.kind.as_str() == kind) {
            self.remember_kind(kind, true);
            self.holders.insert((instance.clone(), kind), true);
        } else if self.holds(instance, kind).await? {
            let keys = session_key::plausible_of_interaction(source);
            self.vault.unbind(instance, &keys, &kind.into()).await?;
        }
        Ok(())
    }

    /// Whether the agent has capabilities of this kind. If no agent has one, this needs no query.
    async fn holds(&self, instance: &InstanceId, kind: &'static str) -> Result<bool, Fault> {
        let known = self.kinds.read().iter().find(|(known, _)| *known == kind).map(|(_, exists)| *exists);
        let exists = match known {
            Some(exists) => exists,
            None => {
                let exists = self.vault.holds_kind(None, &kind.into()).await?;
                self.remember_kind(kind, exists);
                exists
            }
        };
        if !exists {
            return Ok(false);
        }
        let key = (instance.clone(), kind);
        if let Some(known) = self.holders.get(&key) {
            return Ok(known);
        }
        let holds = self.vault.holds_kind(Some(instance), &kind.into()).await?;
        self.holders.insert(key, holds);
        Ok(holds)
    }

    /// A kind that was seen once counts as existing until a restart.
    fn remember_kind(&self, kind: &'static str, exists: bool) {
        let mut kinds = self.kinds.write();
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, known)) => *known |= exists,
            None => kinds.push((kind, exists)),
        }
    }
}

/// The session key of a direct conversation.
fn direct_key(platform: &dyn Platform, chat: &ChatId) -> Option<SessionKey> {
    let source = Source {
        platform: platform.name().into(),
        chat_id: Some(chat.clone()),
        chat_type: "dm".to_owned(),
        ..Source::default()
    };
    session_key::stock(&source, &Options::default()).ok()
}
