//! Client addresses of requests.

use std::net::{IpAddr, Ipv6Addr};

/// The client address of a request, after trusted proxies. The listener adds it to the extensions of every request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub IpAddr);

/// The part of an address that counts as one peer. An IPv6 host usually has all 2^64 addresses of its network.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::2"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("::ffff:192.0.2.1"), IpAddr::from([192, 0, 2, 1]));
    }
}
