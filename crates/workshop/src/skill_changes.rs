//! Changes of skills: the tenants whose skills may have changed. The trigger follower takes them from here.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use tokio::sync::Notify;

/// Tenants with changes that nobody has followed yet, in the order of their first change. A tenant waits once, however
/// often its skills change, so there are never more of them than tenants.
#[derive(Default)]
pub(crate) struct SkillChanges {
    waiting: Mutex<WaitingTenants>,
    noted: Notify,
}

#[derive(Default)]
struct WaitingTenants {
    order: VecDeque<TenantId>,
    since: HashMap<TenantId, Moment>,
}

impl SkillChanges {
    /// Notes that skills of a tenant, or the settings of its store, may have changed.
    pub fn note(&self, tenant: &TenantId, now: Moment) {
        let mut waiting = self.waiting.lock();
        if !waiting.since.contains_key(tenant) {
            waiting.since.insert(tenant.clone(), now);
            waiting.order.push_back(tenant.clone());
        }
        drop(waiting);
        self.noted.notify_one();
    }

    /// Takes the first tenant that passes, with the time of its first change.
    pub fn take(&self, mut passes: impl FnMut(&TenantId) -> bool) -> Option<(TenantId, Moment)> {
        let mut waiting = self.waiting.lock();
        let at = waiting.order.iter().position(&mut passes)?;
        let tenant = waiting.order.remove(at)?;
        let since = waiting.since.remove(&tenant)?;
        Some((tenant, since))
    }

    /// Waits for a note. One that came since the last call counts.
    pub async fn noted(&self) {
        self.noted.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_waits_once_behind_those_that_changed_before_it() {
        let changes = SkillChanges::default();
        for (number, tenant) in ["acme", "acme", "zen", "acme"].into_iter().enumerate() {
            changes.note(&tenant.into(), Moment::from_seconds(i64::try_from(number).unwrap()));
        }
        let (acme, zen) = (TenantId::from("acme"), TenantId::from("zen"));
        assert_eq!(changes.take(|_| true), Some((acme.clone(), Moment::from_seconds(0))));
        changes.note(&acme, Moment::from_seconds(9));
        assert_eq!(changes.take(|tenant| tenant.as_str() == "none"), None);
        assert_eq!(changes.take(|_| true).map(|(tenant, _)| tenant), Some(zen));
        assert_eq!(changes.take(|_| true), Some((acme, Moment::from_seconds(9))));
        assert_eq!(changes.take(|_| true), None);
    }
}
