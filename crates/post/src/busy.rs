//! Who has as many attempts under way as one may.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Attempts of one tenant made side by side at what is still to be sent.
const PER_TENANT: usize = 8;

/// Attempts under way, by tenant.
#[derive(Clone, Default)]
pub(crate) struct Busy(Arc<Mutex<HashMap<TenantId, usize>>>);

/// One attempt's place.
pub(crate) struct Place {
    busy: Busy,
    tenant: TenantId,
}

impl Busy {
    /// Those who have to wait for one of their own to end.
    pub fn full(&self) -> Vec<TenantId> {
        self.with(PER_TENANT)
    }

    /// Whom to pass over, again and again until somebody has something to do: first all who have anything under
    /// way, then those who have more, at last only those who have as much as they may.
    pub fn in_turn(&self) -> Vec<Vec<TenantId>> {
        let mut turns: Vec<Vec<TenantId>> = Vec::new();
        for many in [1, 2, 4, PER_TENANT] {
            let busier = self.with(many);
            // Nobody has so much: whoever was passed over before is passed over no more than now.
            let done = busier.is_empty();
            if turns.last() != Some(&busier) {
                turns.push(busier);
            }
            if done {
                break;
            }
        }
        turns
    }

    /// Those who have so many under way, or more.
    fn with(&self, many: usize) -> Vec<TenantId> {
        let under_way = self.0.lock();
        let mut busy: Vec<TenantId> =
            under_way.iter().filter(|(_, count)| **count >= many).map(|(tenant, _)| tenant.clone()).collect();
        busy.sort();
        busy
    }

    pub fn enter(&self, tenant: &TenantId) -> Place {
        *self.0.lock().entry(tenant.clone()).or_default() += 1;
        Place { busy: self.clone(), tenant: tenant.clone() }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut under_way = self.busy.0.lock();
        if let Some(count) = under_way.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                under_way.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_the_fewest_under_way_is_served_first() {
        let busy = Busy::default();
        assert_eq!(busy.in_turn(), [Vec::<TenantId>::new()], "nobody is passed over where nobody is busy");
        let of = |tenant: &str, many: usize| -> Vec<Place> {
            (0..many).map(|_| busy.enter(&tenant.into())).collect()
        };
        let _acme = of("acme", PER_TENANT);
        let zeta = of("zeta", 3);
        let names = |turn: &[&str]| turn.iter().map(|name| TenantId::from(*name)).collect::<Vec<_>>();
        assert_eq!(busy.in_turn(), [names(&["acme", "zeta"]), names(&["acme"])]);
        drop(zeta);
        assert_eq!(busy.in_turn(), [names(&["acme"])], "who has as many as it may has to wait");
        assert_eq!(busy.full(), names(&["acme"]));
    }
}
