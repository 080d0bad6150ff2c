//! The buckets and sockets of one tenant and its agents.

use std::collections::hash_map::Entry;

use foldhash::HashMap;
use ledger::LimitName;
use posthouse_time::Instant;
use posthouse_wire::InstanceId;

use super::bucket::{Bucket, MINUTE, cost};
use super::{LOG_EVERY, LimitValues, OverQuota, QuotaKind, QuotaUse};
use crate::record_cache::ReadMark;

/// Number of remembered agents above which those that use nothing are forgotten.
const AGENTS: usize = 64;

/// The quotas of one tenant.
pub(super) struct TenantBuckets {
    pub limits: LimitValues,
    /// When the limits were read. `None` while they are the defaults because nobody has read them.
    pub limits_read: Option<ReadMark>,
    tenant: QuotaState,
    /// Boxed, because most tenants have one agent, and a map has room for several.
    agents: HashMap<InstanceId, Box<QuotaState>>,
    /// Number of agents that remained after the last cleanup.
    left: usize,
    /// Refusals since the last log line, and the time of the next.
    refused: u64,
    next_line: Option<Instant>,
}

/// What a tenant or one agent has taken.
#[derive(Default)]
struct QuotaState {
    buckets: [Bucket; QuotaKind::BUCKETS],
    sockets: u32,
}

impl QuotaState {
    fn is_idle(&self, now: Instant) -> bool {
        self.sockets == 0 && self.buckets.iter().all(|bucket| bucket.is_full(now))
    }
}

impl TenantBuckets {
    pub fn new(limits: LimitValues) -> Self {
        Self {
            limits,
            limits_read: None,
            tenant: QuotaState::default(),
            agents: HashMap::default(),
            left: 0,
            refused: 0,
            next_line: None,
        }
    }

    /// Takes one from the tenant's bucket and from the agent's, or from neither.
    pub fn take(
        &mut self,
        what: QuotaKind,
        agent: Option<&InstanceId>,
        now: Instant,
    ) -> Result<(), OverQuota> {
        let (of_tenant, of_agent) = what.limits();
        let [tenant_value, agent_value] = [of_tenant, of_agent].map(|limit| self.limits.get(limit));
        let over = |limit, value, retry_after| OverQuota { limit, value, retry_after };
        let at = what.bucket();
        let tenant_cost = cost(tenant_value, what.tenths());
        // The tenant's bucket first: an agent is remembered only if its tenant has room.
        if let Some(wait) = self.tenant.buckets[at].wait(tenant_cost, now) {
            return Err(over(of_tenant, tenant_value, wait));
        }
        if let Some(agent) = agent {
            let agent_cost = cost(agent_value, what.tenths());
            let bucket = &mut self.agent(agent, now).buckets[at];
            if let Some(wait) = bucket.wait(agent_cost, now) {
                return Err(over(of_agent, agent_value, wait));
            }
            bucket.charge(agent_cost.unwrap_or(MINUTE), now);
        }
        self.tenant.buckets[at].charge(tenant_cost.unwrap_or(MINUTE), now);
        Ok(())
    }

    /// Counts one more socket, if there is room for it.
    pub fn open_socket(&mut self, agent: &InstanceId) -> Result<(), OverQuota> {
        let limits = self.limits;
        let held = self.agents.get(agent).map_or(0, |agent| agent.sockets);
        for (limit, open) in [(LimitName::Sockets, self.tenant.sockets), (LimitName::AgentSockets, held)] {
            if open >= limits.get(limit) {
                return Err(OverQuota { limit, value: limits.get(limit), retry_after: MINUTE });
            }
        }
        self.tenant.sockets += 1;
        self.agents.entry(agent.clone()).or_default().sockets += 1;
        Ok(())
    }

    /// Gives the place of a closed socket back.
    pub fn close_socket(&mut self, agent: &InstanceId) {
        self.tenant.sockets = self.tenant.sockets.saturating_sub(1);
        if let Entry::Occupied(mut agent) = self.agents.entry(agent.clone()) {
            agent.get_mut().sockets = agent.get().sockets.saturating_sub(1);
        }
    }

    /// Counts one refusal. Returns the number to report, if a log line is due.
    pub fn count_refusal(&mut self, now: Instant) -> Option<u64> {
        self.refused += 1;
        if self.next_line.is_some_and(|next| now < next) {
            return None;
        }
        self.next_line = Some(now + LOG_EVERY);
        Some(std::mem::take(&mut self.refused))
    }

    pub fn used(&self, now: Instant) -> QuotaUse {
        let used =
            |what: QuotaKind| self.tenant.buckets[what.bucket()].used(self.limits.get(what.limits().0), now);
        QuotaUse {
            messages: used(QuotaKind::Message),
            actions: used(QuotaKind::Action),
            requests: used(QuotaKind::Request),
            program_requests: used(QuotaKind::ProgramRequest),
            sockets: self.tenant.sockets,
        }
    }

    /// Whether nothing is taken, so that a new state would behave the same.
    pub fn is_idle(&self, now: Instant) -> bool {
        self.tenant.is_idle(now) && self.agents.values().all(|agent| agent.is_idle(now))
    }

    fn agent(&mut self, agent: &InstanceId, now: Instant) -> &mut QuotaState {
        // Only after the number has doubled since the last cleanup, so that the amortized cost per agent is constant.
        if self.agents.len() >= AGENTS.max(2 * self.left) && !self.agents.contains_key(agent) {
            self.agents.retain(|_, agent| !agent.is_idle(now));
            self.left = self.agents.len();
        }
        self.agents.entry(agent.clone()).or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn buckets() -> TenantBuckets {
        TenantBuckets::new(LimitValues {
            messages_per_minute: 100,
            agent_messages_per_minute: 10,
            sockets: 3,
            agent_sockets: 2,
            ..LimitValues::default()
        })
    }

    fn agent(number: u32) -> InstanceId {
        format!("inst_{number}").into()
    }

    /// How many messages to this agent are taken at once.
    fn taken(buckets: &mut TenantBuckets, to: u32, now: Instant) -> u32 {
        (0..1000).filter(|_| buckets.take(QuotaKind::Message, Some(&agent(to)), now).is_ok()).count() as u32
    }

    #[test]
    fn an_agent_that_is_flooded_leaves_the_others_of_its_tenant_their_share() {
        let (mut buckets, now) = (buckets(), Instant::default());
        assert_eq!(taken(&mut buckets, 0, now), 10);
        let over = buckets.take(QuotaKind::Message, Some(&agent(0)), now).unwrap_err();
        assert_eq!((over.limit, over.value, over.retry_seconds()), (LimitName::AgentMessages, 10, 6));
        assert_eq!(buckets.used(now).messages, 10, "what is refused is not charged to the tenant");
        assert_eq!(taken(&mut buckets, 1, now), 10);
        let all: u32 = (2..20).map(|other| taken(&mut buckets, other, now)).sum();
        assert_eq!(all, 80, "the tenant's own limit holds for all of them together");
        let over = buckets.take(QuotaKind::Message, Some(&agent(20)), now).unwrap_err();
        assert_eq!((over.limit, over.value), (LimitName::Messages, 100));
        assert!(buckets.take(QuotaKind::Action, Some(&agent(0)), now).is_ok(), "actions have their own");
    }

    #[test]
    fn agents_are_remembered_no_longer_than_their_buckets_refill_and_no_flooder_is_forgotten() {
        let mut buckets = buckets();
        buckets.limits.messages_per_minute = u32::MAX;
        let mut now = Instant::default();
        for number in 1..10_000 {
            // Agent 0 is kept at its limit, while many others get one message each.
            while buckets.take(QuotaKind::Message, Some(&agent(0)), now).is_ok() {}
            buckets.take(QuotaKind::Message, Some(&agent(number)), now).unwrap();
            assert!(buckets.take(QuotaKind::Message, Some(&agent(0)), now).is_err());
            now = now + Duration::from_millis(100);
        }
        // One message is refilled after six seconds: some sixty agents at a time.
        assert!(buckets.agents.len() <= 2 * AGENTS + 2, "{}", buckets.agents.len());
        assert!(!buckets.is_idle(now));
        assert!(buckets.is_idle(now + MINUTE));
    }

    #[test]
    fn sockets_are_counted_per_agent_and_tenant_until_they_close() {
        let mut buckets = buckets();
        assert!(buckets.open_socket(&agent(0)).is_ok() && buckets.open_socket(&agent(0)).is_ok());
        assert_eq!(buckets.open_socket(&agent(0)).unwrap_err().limit, LimitName::AgentSockets);
        assert!(buckets.open_socket(&agent(1)).is_ok());
        assert_eq!(buckets.open_socket(&agent(2)).unwrap_err().limit, LimitName::Sockets);
        assert!(!buckets.is_idle(Instant::default() + 10 * MINUTE), "open sockets are not forgotten");
        buckets.close_socket(&agent(0));
        assert!(buckets.open_socket(&agent(2)).is_ok());
        assert_eq!(buckets.used(Instant::default()).sockets, 3);
    }

    #[test]
    fn one_log_line_per_minute_says_how_many_were_refused() {
        let (mut buckets, now) = (buckets(), Instant::default());
        assert_eq!(buckets.count_refusal(now), Some(1));
        assert_eq!((buckets.count_refusal(now), buckets.count_refusal(now)), (None, None));
        assert_eq!(buckets.count_refusal(now + MINUTE), Some(3));
    }
}
