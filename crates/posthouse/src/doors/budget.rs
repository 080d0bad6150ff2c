//! Byte budget for bodies, in total and per sender: unfinished bodies of requests, unsent bodies of responses.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Who pays for the bytes of a request and of its response: the network of the address until the request has
/// authenticated, then the principal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BodySender {
    Address(IpAddr),
    Principal(Arc<str>, Option<TenantId>),
}

impl BodySender {
    pub fn address(address: IpAddr) -> Self {
        BodySender::Address(http_kit::network(address))
    }

    /// The part of the whole budget that one sender may use. An unauthenticated sender gets less.
    fn share(&self, whole: usize) -> usize {
        match self {
            BodySender::Address(_) => whole / 8,
            BodySender::Principal(..) => whole / 4,
        }
    }

    fn tenant(&self) -> Option<&TenantId> {
        match self {
            BodySender::Address(_) => None,
            BodySender::Principal(_, tenant) => tenant.as_ref(),
        }
    }
}

/// Why bytes are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetRefusal {
    /// This sender has used its share.
    OfSender,
    /// The whole budget is used.
    OfServer,
}

/// The budget. Bytes are reserved while a body is in memory, and returned when it ends or is dropped.
///
/// All unauthenticated senders together get at most half. A tenant gets at most as much as is free, over
/// all its principals. Tenants that hold next to nothing may go a little beyond the budget, so that the
/// others cannot shut them out.
#[derive(Clone)]
pub struct ByteBudget {
    whole: usize,
    used: Arc<Mutex<BytesInUse>>,
}

#[derive(Default)]
struct BytesInUse {
    in_all: usize,
    of_strangers: usize,
    /// These contain only senders that hold something.
    by_sender: HashMap<BodySender, usize>,
    by_tenant: HashMap<TenantId, usize>,
}

impl BytesInUse {
    fn has_room(&self, sender: &BodySender, bytes: usize, whole: usize) -> Result<(), BudgetRefusal> {
        let of_sender = self.by_sender.get(sender).copied().unwrap_or_default();
        if of_sender + bytes > sender.share(whole) {
            return Err(BudgetRefusal::OfSender);
        }
        let free = whole.saturating_sub(self.in_all);
        if let Some(tenant) = sender.tenant() {
            let of_tenant = self.by_tenant.get(tenant).copied().unwrap_or_default() + bytes;
            if of_tenant <= whole / 16 && self.in_all + bytes <= whole + whole / 2 {
                return Ok(());
            }
            if of_tenant > free && bytes <= free {
                return Err(BudgetRefusal::OfSender);
            }
        }
        let is_stranger = matches!(sender, BodySender::Address(_));
        if bytes > free || (is_stranger && self.of_strangers + bytes > whole / 2) {
            return Err(BudgetRefusal::OfServer);
        }
        Ok(())
    }
}

impl ByteBudget {
    pub fn new(whole: usize) -> Self {
        Self { whole, used: Arc::default() }
    }

    /// The most that one sender may hold.
    pub fn share(&self, sender: &BodySender) -> usize {
        sender.share(self.whole)
    }

    /// The account of one body; it holds nothing yet.
    pub fn of(&self, sender: BodySender) -> ReservedBytes {
        ReservedBytes { budget: self.clone(), sender, bytes: 0 }
    }

    #[cfg(test)]
    fn used(&self) -> usize {
        self.used.lock().in_all
    }
}

/// The bytes that one body holds; returned on drop.
pub struct ReservedBytes {
    budget: ByteBudget,
    sender: BodySender,
    bytes: usize,
}

impl ReservedBytes {
    pub fn more(&mut self, bytes: usize) -> Result<(), BudgetRefusal> {
        let mut used = self.budget.used.lock();
        used.has_room(&self.sender, bytes, self.budget.whole)?;
        used.in_all += bytes;
        match &self.sender {
            BodySender::Address(_) => used.of_strangers += bytes,
            BodySender::Principal(_, Some(tenant)) => {
                *used.by_tenant.entry(tenant.clone()).or_default() += bytes
            }
            BodySender::Principal(_, None) => {}
        }
        *used.by_sender.entry(self.sender.clone()).or_default() += bytes;
        self.bytes += bytes;
        Ok(())
    }

    pub fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let mut used = self.budget.used.lock();
        used.in_all -= bytes;
        match &self.sender {
            BodySender::Address(_) => used.of_strangers -= bytes,
            BodySender::Principal(_, Some(tenant)) => less(&mut used.by_tenant, tenant, bytes),
            BodySender::Principal(_, None) => {}
        }
        less(&mut used.by_sender, &self.sender, bytes);
    }
}

fn less<K: Hash + Eq>(of: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    if let Some(held) = of.get_mut(key) {
        *held -= bytes;
        if *held == 0 {
            of.remove(key);
        }
    }
}

impl Drop for ReservedBytes {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(last: u8) -> BodySender {
        BodySender::address([192, 0, 2, last].into())
    }

    fn agent(number: usize, tenant: &str) -> BodySender {
        BodySender::Principal(format!("agent:inst_{tenant}_{number}").into(), Some(tenant.into()))
    }

    /// Takes pieces of a hundred bytes until there is no room for another.
    fn filled(budget: &ByteBudget, sender: BodySender) -> ReservedBytes {
        let mut reserved = budget.of(sender);
        while reserved.more(100).is_ok() {}
        reserved
    }

    #[test]
    fn one_sender_cannot_use_the_share_of_another_and_bytes_come_back() {
        let budget = ByteBudget::new(8_000);
        let mut first = budget.of(stranger(1));
        assert_eq!(first.more(1_000), Ok(()));
        assert_eq!(budget.of(stranger(1)).more(1), Err(BudgetRefusal::OfSender));
        let mut second = budget.of(stranger(2));
        assert_eq!(second.more(1_000), Ok(()), "another address has its own share");
        let mut known = budget.of(agent(1, "ten_acme"));
        assert_eq!(known.more(2_000), Ok(()));
        assert_eq!(known.more(1), Err(BudgetRefusal::OfSender));
        drop((first, second, known));
        assert_eq!(budget.used(), 0);
        let used = budget.used.lock();
        assert!(used.by_sender.is_empty() && used.by_tenant.is_empty(), "nobody is remembered for nothing");
        assert_eq!(used.of_strangers, 0);
    }

    #[test]
    fn all_senders_together_stay_within_the_whole_budget() {
        let budget = ByteBudget::new(8_000);
        let mut held: Vec<ReservedBytes> = (0..4).map(|last| filled(&budget, stranger(last))).collect();
        assert_eq!(budget.used(), 4_000, "strangers get half");
        assert_eq!(budget.of(stranger(9)).more(1), Err(BudgetRefusal::OfServer));
        held.pop();
        assert_eq!(budget.of(stranger(9)).more(1), Ok(()));
        held.extend((0..100).map(|tenant| filled(&budget, agent(0, &format!("ten_{tenant}")))));
        assert!(budget.used() <= 12_000, "{}", budget.used());
    }

    #[test]
    fn many_credentials_of_one_tenant_leave_room_for_another() {
        let budget = ByteBudget::new(8_000);
        let _strangers: Vec<ReservedBytes> = (0..20).map(|last| filled(&budget, stranger(last))).collect();
        let _acme: Vec<ReservedBytes> =
            (0..20).map(|number| filled(&budget, agent(number, "ten_acme"))).collect();
        assert_eq!(budget.of(agent(20, "ten_acme")).more(100), Err(BudgetRefusal::OfSender));
        assert_eq!(budget.of(agent(0, "ten_zen")).more(1_000), Ok(()));
    }

    #[test]
    fn tenants_that_come_one_after_the_other_leave_room_for_the_next() {
        let budget = ByteBudget::new(8_000);
        let mut held: Vec<ReservedBytes> = (0..20).map(|last| filled(&budget, stranger(last))).collect();
        for tenant in 0..5 {
            let tenant = format!("ten_{tenant}");
            held.extend((0..4).map(|number| filled(&budget, agent(number, &tenant))));
        }
        assert_eq!(budget.of(agent(0, "ten_zen")).more(500), Ok(()));
    }
}
