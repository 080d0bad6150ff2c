//! Staleness policies: what happens to a message that waited too long for its agent.

use std::sync::Arc;
use std::time::Duration;

use ledger::{BotRef, Discriminator, StalePolicy, Staleness};
use posthouse_wire::InstanceId;

use crate::record_cache::RecordCache;
use crate::roster_versions::RosterChange;
use crate::route::EventPlace;
use crate::{EventOrigin, Fault, RosterView};

/// Lifetime of cached policies. They are read for every message of a platform.
const REMEMBERED: Duration = Duration::from_secs(600);

/// Policies by bot, place of the event and agent, also those that are known to be absent.
type StalenessCache = RecordCache<(BotRef, EventPlace, InstanceId), Option<StalePolicy>>;

/// The policies of routes and agents. Clones share their cache.
#[derive(Clone)]
pub struct StalePolicies {
    records: Arc<dyn Staleness>,
    roster: RosterView,
    policies: Arc<StalenessCache>,
}

impl StalePolicies {
    pub(crate) fn new(records: Arc<dyn Staleness>, roster: RosterView) -> Self {
        Self { records, roster, policies: Arc::new(RecordCache::new(100_000, REMEMBERED)) }
    }

    /// The verbs of the ledger.
    pub fn records(&self) -> &Arc<dyn Staleness> {
        &self.records
    }

    /// The policy for an event of this bot to this agent.
    pub async fn policy(
        &self,
        on: &BotRef,
        origin: EventOrigin<'_>,
        to: &InstanceId,
    ) -> Result<Option<StalePolicy>, Fault> {
        let key = (on.clone(), origin.place(), to.clone());
        if let Some(known) = self.roster.cached(&self.policies, &key) {
            return Ok(known);
        }
        let read = self.roster.read_mark();
        let policy = self.records.staleness(on, &origin.discriminators(), to).await?;
        let depends_on = vec![RosterChange::Bot(on.clone()), RosterChange::Agent(to.clone())];
        self.policies.insert(key, policy, depends_on, read);
        Ok(policy)
    }

    /// Sets or removes the policy of a route. False when there is no such route.
    pub async fn set_for_route(
        &self,
        on: &BotRef,
        which: &Discriminator,
        policy: Option<StalePolicy>,
    ) -> Result<bool, Fault> {
        let changed = self.records.set_route_staleness(on, which, policy).await?;
        self.roster.bot_changed(on);
        Ok(changed)
    }

    /// Sets or removes the policy of an agent, for routes without one of their own.
    pub async fn set_for_agent(&self, of: &InstanceId, policy: Option<StalePolicy>) -> Result<(), Fault> {
        self.records.set_agent_staleness(of, policy).await?;
        self.roster.agent_changed(of);
        Ok(())
    }
}
