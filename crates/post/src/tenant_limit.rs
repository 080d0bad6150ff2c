//! Per-tenant limit on delivery attempts that run at the same time.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Delivery attempts of one tenant that may run at the same time.
const PER_TENANT: usize = 8;

/// The number of running attempts, by tenant.
#[derive(Clone, Default)]
pub(crate) struct TenantLimit(Arc<Mutex<HashMap<TenantId, usize>>>);

/// A running attempt, counted until it is dropped.
pub(crate) struct RunningAttempt {
    limit: TenantLimit,
    tenant: TenantId,
}

impl TenantLimit {
    /// Tenants at their limit: one of their attempts must end before the next begins.
    pub fn full(&self) -> Vec<TenantId> {
        self.with(PER_TENANT)
    }

    /// Tenants with at least one running attempt.
    pub fn any(&self) -> Vec<TenantId> {
        self.with(1)
    }

    /// Whether this tenant has a running attempt.
    pub fn has_any(&self, tenant: &TenantId) -> bool {
        self.0.lock().contains_key(tenant)
    }

    /// Sets of tenants to exclude when the next delivery is claimed, to be tried in order until one is found. The first
    /// set excludes every tenant with a running attempt, the last only tenants at their limit.
    pub fn in_turn(&self) -> Vec<Vec<TenantId>> {
        let mut turns: Vec<Vec<TenantId>> = Vec::new();
        for many in [1, 2, 4, PER_TENANT] {
            let excluded = self.with(many);
            // An empty set excludes nobody, so no later set can find more.
            let done = excluded.is_empty();
            if turns.last() != Some(&excluded) {
                turns.push(excluded);
            }
            if done {
                break;
            }
        }
        turns
    }

    /// Tenants with at least this many running attempts.
    fn with(&self, many: usize) -> Vec<TenantId> {
        let running = self.0.lock();
        let mut tenants: Vec<TenantId> =
            running.iter().filter(|(_, count)| **count >= many).map(|(tenant, _)| tenant.clone()).collect();
        tenants.sort();
        tenants
    }

    pub fn enter(&self, tenant: &TenantId) -> RunningAttempt {
        *self.0.lock().entry(tenant.clone()).or_default() += 1;
        RunningAttempt { limit: self.clone(), tenant: tenant.clone() }
    }
}

impl Drop for RunningAttempt {
    fn drop(&mut self) {
        let mut running = self.limit.0.lock();
        if let Some(count) = running.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tenant_with_the_fewest_running_attempts_is_served_first() {
        let limit = TenantLimit::default();
        assert_eq!(limit.in_turn(), [Vec::<TenantId>::new()], "nobody is excluded while nothing runs");
        let of = |tenant: &str, many: usize| -> Vec<RunningAttempt> {
            (0..many).map(|_| limit.enter(&tenant.into())).collect()
        };
        let _acme = of("acme", PER_TENANT);
        let zeta = of("zeta", 3);
        let names = |turn: &[&str]| turn.iter().map(|name| TenantId::from(*name)).collect::<Vec<_>>();
        assert_eq!(limit.in_turn(), [names(&["acme", "zeta"]), names(&["acme"])]);
        drop(zeta);
        assert_eq!(limit.in_turn(), [names(&["acme"])], "a tenant at its limit has to wait");
        assert_eq!(limit.full(), names(&["acme"]));
    }
}
