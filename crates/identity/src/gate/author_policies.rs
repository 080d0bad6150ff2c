//! Principal policies: which unlinked authors an agent listens to in the places that it claimed.

use std::sync::Arc;
use std::time::Duration;

use ledger::{AgentPrincipals, Principals};
use posthouse_wire::{InstanceId, Platform, UserId};

use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;
use crate::{Fault, RosterView};

/// Lifetime of cached decisions. They are read for every message of an unlinked author in a claimed place.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The declared policies. Clones share their cache.
#[derive(Clone)]
pub struct AuthorPolicies {
    records: Arc<dyn Principals>,
    roster: RosterView,
    decided: Arc<RecordCache<(InstanceId, Platform, UserId), bool>>,
}

impl AuthorPolicies {
    pub(super) fn new(records: Arc<dyn Principals>, roster: RosterView) -> Self {
        Self { records, roster, decided: Arc::new(RecordCache::new(100_000, REMEMBERED)) }
    }

    /// Whether the policy of an agent admits this author.
    pub(super) async fn admits(
        &self,
        of: &InstanceId,
        platform: &Platform,
        author: Option<&UserId>,
    ) -> Result<bool, Fault> {
        let Some(author) = author else { return Ok(false) };
        let key = (of.clone(), platform.clone(), author.clone());
        if let Some(known) = self.roster.cached(&self.decided, &key) {
            return Ok(known);
        }
        let read = self.roster.read_mark();
        let admits = self.records.admits_author(of, platform, author).await?;
        self.decided.insert(key, admits, vec![RosterChange::Agent(of.clone())], read);
        Ok(admits)
    }

    /// Replaces the policy of an agent. False when there is no such agent, or when it has too many.
    pub async fn declare(&self, of: &InstanceId, principals: AgentPrincipals) -> Result<bool, Fault> {
        let declared = self.records.set_principals(of, principals).await?;
        self.roster.agent_changed(of);
        Ok(declared)
    }

    /// The policies of an agent, the general one first.
    pub async fn of(&self, agent: &InstanceId) -> Result<Vec<AgentPrincipals>, Fault> {
        Ok(self.records.principals(agent).await?)
    }

    /// Deletes the policies of an agent, so that only linked authors reach it in the places that it claimed.
    pub async fn clear(&self, of: &InstanceId) -> Result<(), Fault> {
        self.records.clear_principals(of).await?;
        self.roster.agent_changed(of);
        Ok(())
    }
}
