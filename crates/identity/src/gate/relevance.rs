//! Relevance: which messages of groups an agent wants, as its gateway declared it (relay contract section 18).

use std::sync::Arc;
use std::time::Duration;

use ledger::{BotRef, RelevancePolicies, RelevancePolicy, SharedBots};
use posthouse_wire::{InstanceId, Platform, Source};

use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;
use crate::{Fault, RosterView};

/// Lifetime of cached policies. They are read for every message of a group.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Policies by agent and platform, also those that are known to be absent.
type RelevanceCache = RecordCache<(InstanceId, Platform), Option<Arc<RelevancePolicy>>>;

/// The declared policies. Clones share their cache.
#[derive(Clone)]
pub struct Relevance {
    records: Arc<dyn RelevancePolicies>,
    roster: RosterView,
    policies: Arc<RelevanceCache>,
    bots: Arc<dyn SharedBots>,
    /// Whether a bot's messages must be addressed, for agents without a policy.
    defaults: Arc<RecordCache<BotRef, bool>>,
}

/// What matters of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MessageTraits {
    /// Addressed to the bot, or in a chat in which everything is.
    pub is_addressed: bool,
    /// Written by another bot.
    pub from_bot: bool,
}

impl Relevance {
    pub(crate) fn new(
        records: Arc<dyn RelevancePolicies>,
        bots: Arc<dyn SharedBots>,
        roster: RosterView,
    ) -> Self {
        Self {
            records,
            roster,
            policies: Arc::new(RecordCache::new(100_000, REMEMBERED)),
            bots,
            defaults: Arc::new(RecordCache::new(10_000, REMEMBERED)),
        }
    }

    /// Replaces the policy of an agent for a platform. False when there is no such agent, or when it has policies for
    /// too many platforms.
    pub async fn declare(
        &self,
        of: &InstanceId,
        on: &Platform,
        policy: RelevancePolicy,
    ) -> Result<bool, Fault> {
        let declared = self.records.declare_relevance(of, on, policy).await?;
        self.roster.agent_changed(of);
        Ok(declared)
    }

    /// All declared policies of an agent, by platform.
    pub async fn of(&self, agent: &InstanceId) -> Result<Vec<(Platform, RelevancePolicy)>, Fault> {
        Ok(self.records.relevance_policies(agent).await?)
    }

    /// Deletes the policies of an agent, so that it gets only addressed messages again.
    pub async fn clear(&self, of: &InstanceId) -> Result<(), Fault> {
        self.records.clear_relevance(of).await?;
        self.roster.agent_changed(of);
        Ok(())
    }

    /// Whether the agent wants a message. In a chat of several people it wants those that are addressed to its bot, and
    /// others as its policy says. It wants those of other bots only if its policy says so.
    pub(super) async fn wants(
        &self,
        agent: &InstanceId,
        on: &BotRef,
        source: &Source,
        message: MessageTraits,
    ) -> Result<bool, Fault> {
        if message.is_addressed && !message.from_bot {
            return Ok(true);
        }
        let policy = self.policy(agent, &source.platform).await?;
        if message.from_bot && !policy.as_ref().is_some_and(|policy| policy.allow_other_bots) {
            return Ok(false);
        }
        Ok(message.is_addressed
            || match policy {
                Some(policy) => !policy.require_address || is_free(&policy, source),
                None => !self.requires_address(on).await?,
            })
    }

    /// Whether agents without a policy get only addressed messages from this bot.
    async fn requires_address(&self, on: &BotRef) -> Result<bool, Fault> {
        if let Some(known) = self.roster.cached(&self.defaults, on) {
            return Ok(known);
        }
        let read = self.roster.read_mark();
        let required = self.bots.require_address(on).await?;
        self.defaults.insert(on.clone(), required, vec![RosterChange::Bot(on.clone())], read);
        Ok(required)
    }

    async fn policy(&self, of: &InstanceId, on: &Platform) -> Result<Option<Arc<RelevancePolicy>>, Fault> {
        let key = (of.clone(), on.clone());
        if let Some(known) = self.roster.cached(&self.policies, &key) {
            return Ok(known);
        }
        let read = self.roster.read_mark();
        let policy = self.records.relevance(of, on).await?.map(Arc::new);
        self.policies.insert(key, policy.clone(), vec![RosterChange::Agent(of.clone())], read);
        Ok(policy)
    }
}

/// Whether the chat, the chat above it, or the scope around it is free.
fn is_free(policy: &RelevancePolicy, source: &Source) -> bool {
    let chats = [source.chat_id.as_ref(), source.parent_chat_id.as_ref()];
    let mut places =
        chats.into_iter().flatten().map(AsRef::as_ref).chain(source.scope_id.as_ref().map(AsRef::as_ref));
    places.any(|place: &str| policy.free_scopes.iter().any(|free| free == place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_scope_is_a_chat_the_chat_above_it_or_the_scope_around_it() {
        let policy = RelevancePolicy {
            require_address: true,
            free_scopes: vec!["c1".to_owned(), "g1".to_owned()],
            allow_other_bots: false,
        };
        let source = |chat: &str, parent: Option<&str>, scope: Option<&str>| Source {
            chat_id: Some(chat.into()),
            parent_chat_id: parent.map(Into::into),
            scope_id: scope.map(Into::into),
            ..Source::default()
        };
        assert!(is_free(&policy, &source("c1", None, None)));
        assert!(is_free(&policy, &source("t7", Some("c1"), None)));
        assert!(is_free(&policy, &source("c2", None, Some("g1"))));
        assert!(!is_free(&policy, &source("c2", Some("c3"), Some("g2"))));
        assert!(!is_free(&policy, &source("c", None, None)), "a part of an id is another id");
    }
}
