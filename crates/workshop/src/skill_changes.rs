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
    /// The last change of each tenant whose skills nobody has read since, with a number of its own.
    unread: HashMap<TenantId, u64>,
    last: u64,
}

impl SkillChanges {
    /// Notes that this server changed skills of a tenant, or may have. The next event waits until they are read.
    pub fn note_unread(&self, tenant: &TenantId, now: Moment) {
        let mut waiting = self.waiting.lock();
        waiting.last += 1;
        let number = waiting.last;
        waiting.unread.insert(tenant.clone(), number);
        drop(waiting);
        self.note(tenant, now);
    }

    /// The last change of a tenant that nobody has read.
    pub fn unread(&self, tenant: &TenantId) -> Option<u64> {
        self.waiting.lock().unread.get(tenant).copied()
    }

    /// Notes that the skills of a tenant were read. `change` was the last one when the reading began.
    pub fn note_read(&self, tenant: &TenantId, change: Option<u64>) {
        let mut waiting = self.waiting.lock();
        if change.is_some() && waiting.unread.get(tenant).copied() == change {
            waiting.unread.remove(tenant);
        }
    }

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

    #[test]
    fn a_change_during_a_reading_is_still_unread() {
        let (changes, acme) = (SkillChanges::default(), TenantId::from("acme"));
        assert_eq!(changes.unread(&acme), None);
        changes.note_unread(&acme, Moment::from_seconds(1));
        let first = changes.unread(&acme);
        changes.note_unread(&acme, Moment::from_seconds(2));
        changes.note_read(&acme, first);
        let second = changes.unread(&acme);
        assert!(second.is_some() && second != first);
        changes.note_read(&acme, second);
        assert_eq!(changes.unread(&acme), None);
    }
}
