//! Connection limits per address, principal and tenant. A connection counts against its address until a
//! request on it has authenticated; from then on it counts against that principal and its tenant.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use posthouse_wire::TenantId;

/// Limits on the connections of one owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    pub per_address: usize,
    pub per_principal: usize,
    pub per_tenant: usize,
}

impl ConnectionLimits {
    /// Limits for a total of `in_all` connections. Nobody alone may hold nearly all of them, however few
    /// the machine allows.
    pub fn of(in_all: usize, per_address: usize, per_principal: usize) -> Self {
        Self {
            per_address: per_address.min(in_all / 4).max(1),
            per_principal: per_principal.min(in_all / 2).max(1),
            // A quarter is left for all others.
            per_tenant: in_all - in_all / 4,
        }
    }
}

/// The open connections of every address, principal and tenant. An entry with count zero is removed.
pub struct OpenConnections {
    limits: ConnectionLimits,
    counts: Mutex<ConnectionCounts>,
}

#[derive(Default)]
struct ConnectionCounts {
    addresses: HashMap<IpAddr, usize>,
    principals: HashMap<Arc<str>, usize>,
    tenants: HashMap<TenantId, usize>,
}

/// What one connection counts against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum ConnectionOwner {
    #[default]
    Nobody,
    Address(IpAddr),
    Principal(Arc<str>, Option<TenantId>),
}

impl OpenConnections {
    pub fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    fn has_room(&self, counts: &ConnectionCounts, owner: &ConnectionOwner) -> bool {
        let held = |count: Option<&usize>| count.copied().unwrap_or_default();
        match owner {
            ConnectionOwner::Nobody => true,
            ConnectionOwner::Address(address) => {
                held(counts.addresses.get(address)) < self.limits.per_address
            }
            ConnectionOwner::Principal(name, tenant) => {
                held(counts.principals.get(name)) < self.limits.per_principal
                    && tenant
                        .as_ref()
                        .is_none_or(|tenant| held(counts.tenants.get(tenant)) < self.limits.per_tenant)
            }
        }
    }
}

impl ConnectionCounts {
    fn add(&mut self, owner: &ConnectionOwner) {
        match owner {
            ConnectionOwner::Nobody => {}
            ConnectionOwner::Address(address) => *self.addresses.entry(*address).or_default() += 1,
            ConnectionOwner::Principal(name, tenant) => {
                *self.principals.entry(Arc::clone(name)).or_default() += 1;
                if let Some(tenant) = tenant {
                    *self.tenants.entry(tenant.clone()).or_default() += 1;
                }
            }
        }
    }

    fn remove(&mut self, owner: &ConnectionOwner) {
        match owner {
            ConnectionOwner::Nobody => {}
            ConnectionOwner::Address(address) => one_less(&mut self.addresses, address),
            ConnectionOwner::Principal(name, tenant) => {
                one_less(&mut self.principals, name);
                if let Some(tenant) = tenant {
                    one_less(&mut self.tenants, tenant);
                }
            }
        }
    }
}

fn one_less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// The entry of one connection in the counts, removed on drop.
pub struct PeerConnection {
    open: Arc<OpenConnections>,
    owner: Mutex<ConnectionOwner>,
    /// Taken from the reserve, because there was no other room.
    at_capacity: bool,
    /// The peer is a trusted proxy, so every request has its own address.
    by_request: bool,
}

impl PeerConnection {
    /// A connection that does not count against anyone yet.
    pub fn new(open: &Arc<OpenConnections>, at_capacity: bool, by_request: bool) -> Arc<Self> {
        let open = Arc::clone(open);
        Arc::new(Self { open, owner: Mutex::default(), at_capacity, by_request })
    }

    /// From now on, counts against the network of this address. False if it has no room left.
    pub fn counts_against(&self, address: IpAddr) -> bool {
        self.moves_to(ConnectionOwner::Address(http_kit::network(address)))
    }

    pub fn is_at_capacity(&self) -> bool {
        self.at_capacity
    }

    /// A request begins. False if its address has no room left.
    pub fn begins(&self, address: IpAddr) -> bool {
        !self.by_request || self.at_capacity || self.counts_against(address)
    }

    /// A request has been answered. A connection through a proxy then counts against nobody, unless its
    /// last request authenticated: that one may have become a WebSocket.
    pub fn ended(&self) {
        if self.by_request && matches!(*self.owner.lock(), ConnectionOwner::Address(_)) {
            self.moves_to(ConnectionOwner::Nobody);
        }
    }

    /// From now on, counts against this principal. Returns the stored copies of both names; none if it has no room
    /// left.
    pub fn proven(&self, principal: &str, tenant: Option<&str>) -> Option<(Arc<str>, Option<TenantId>)> {
        if let ConnectionOwner::Principal(name, of) = &*self.owner.lock()
            && **name == *principal
            && of.as_ref().map(TenantId::as_str) == tenant
        {
            return Some((Arc::clone(name), of.clone()));
        }
        let (name, tenant): (Arc<str>, _) = (principal.into(), tenant.map(TenantId::from));
        self.moves_to(ConnectionOwner::Principal(Arc::clone(&name), tenant.clone())).then_some((name, tenant))
    }

    fn moves_to(&self, next: ConnectionOwner) -> bool {
        let mut owner = self.owner.lock();
        let mut counts = self.open.counts.lock();
        if !self.open.has_room(&counts, &next) {
            return false;
        }
        counts.remove(&owner);
        counts.add(&next);
        *owner = next;
        true
    }
}

impl Drop for PeerConnection {
    fn drop(&mut self) {
        self.open.counts.lock().remove(&self.owner.lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_connections() -> Arc<OpenConnections> {
        OpenConnections::new(ConnectionLimits { per_address: 2, per_principal: 2, per_tenant: 3 })
    }

    fn address(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn connected(open: &Arc<OpenConnections>, last: u8) -> Option<Arc<PeerConnection>> {
        let connection = PeerConnection::new(open, false, false);
        connection.counts_against(address(last)).then_some(connection)
    }

    #[test]
    fn shares_shrink_with_the_number_of_connections() {
        let limits = |per_address, per_principal, per_tenant| ConnectionLimits {
            per_address,
            per_principal,
            per_tenant,
        };
        assert_eq!(ConnectionLimits::of(15_000, 512, 1_024), limits(512, 1_024, 11_250));
        assert_eq!(ConnectionLimits::of(512, 512, 1_024), limits(128, 256, 384));
        assert_eq!(ConnectionLimits::of(1, 512, 1_024), limits(1, 1, 1));
    }

    #[test]
    fn an_address_that_fills_its_share_leaves_that_of_another() {
        let open = open_connections();
        let held = [connected(&open, 1), connected(&open, 1)];
        assert!(held.iter().all(Option::is_some));
        assert!(connected(&open, 1).is_none());
        assert!(connected(&open, 2).is_some());
        drop(held);
        assert!(connected(&open, 1).is_some(), "a connection that ended does not count");
        assert!(open.counts.lock().addresses.is_empty(), "nobody is remembered for nothing");
    }

    #[test]
    fn two_addresses_of_one_ipv6_network_share_one_limit() {
        let open = open_connections();
        let connected = |address: &str| {
            let connection = PeerConnection::new(&open, false, false);
            connection.counts_against(address.parse().unwrap()).then_some(connection)
        };
        let _held = [connected("2001:db8::1").unwrap(), connected("2001:db8::2").unwrap()];
        assert!(connected("2001:db8::3").is_none());
        assert!(connected("2001:db8:0:1::1").is_some());
    }

    #[test]
    fn a_connection_that_proved_itself_no_longer_counts_against_its_address() {
        let open = open_connections();
        let first = connected(&open, 1).unwrap();
        let second = connected(&open, 1).unwrap();
        assert!(first.proven("agent:a", None).is_some());
        assert!(first.proven("agent:a", None).is_some(), "the same again changes nothing");
        assert!(second.proven("agent:a", None).is_some());
        let third = connected(&open, 1).unwrap();
        assert!(third.proven("agent:a", None).is_none(), "a principal has a limit too");
        assert!(third.proven("agent:b", None).is_some(), "another principal has its own");
    }

    #[test]
    fn a_tenant_with_many_principals_leaves_room_for_another_tenant() {
        let open = open_connections();
        let mut held = Vec::new();
        for n in 0..4 {
            let connection = connected(&open, n).unwrap();
            let has_room = connection.proven(&format!("agent:{n}"), Some("acme")).is_some();
            assert_eq!(has_room, n < 3);
            held.push(connection);
        }
        assert!(held[3].proven("agent:z", Some("zen")).is_some());
    }

    #[test]
    fn through_a_trusted_proxy_each_request_counts_against_the_address_it_comes_from() {
        let open = open_connections();
        let through: Vec<_> = (0..3).map(|_| PeerConnection::new(&open, false, true)).collect();
        assert!(through[0].begins(address(1)) && through[1].begins(address(1)));
        assert!(!through[2].begins(address(1)));
        assert!(through[2].begins(address(2)));
        through[0].ended();
        assert!(through[2].begins(address(1)));
    }
}
