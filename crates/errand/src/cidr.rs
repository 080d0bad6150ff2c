//! IP address ranges in CIDR notation.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr(IpNet);

/// Error from parsing an address range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IP address or a range such as 10.0.0.0/8")]
pub struct CidrFault(String);

impl Cidr {
    /// The loopback ranges of IPv4 and IPv6.
    pub fn loopback() -> [Self; 2] {
        [[127, 0, 0, 0].into(), IpAddr::V6(std::net::Ipv6Addr::LOCALHOST)].map(|address: IpAddr| {
            let prefix = if address.is_ipv4() { 8 } else { 128 };
            Self(IpNet::new_assert(address, prefix))
        })
    }

    /// Whether `address` is in the range. An IPv4 address and its IPv4-mapped IPv6 form count as different addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address)
    }
}

impl FromStr for Cidr {
    type Err = CidrFault;

    fn from_str(text: &str) -> Result<Self, CidrFault> {
        let single = || text.parse::<IpAddr>().map(IpNet::from);
        let range = text.parse::<IpNet>().or_else(|_| single());
        // The bits after the prefix are ignored.
        range.map(|range| Self(range.trunc())).map_err(|_| CidrFault(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_and_printed() {
        for (text, printed) in [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("127.0.0.1/8", "127.0.0.0/8"),
            ("192.168.1.7", "192.168.1.7/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::/8", "fd00::/8"),
            ("::1", "::1/128"),
            ("::/0", "::/0"),
        ] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), printed);
        }
        for text in [
            "",
            "10.0.0/8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "::1/129",
            "example.test/8",
            "1.2.3.4/8/8",
        ] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_range_contains_its_own_kind_only() {
        let ten: Cidr = "10.0.0.0/8".parse().unwrap();
        assert!(ten.contains("10.255.0.1".parse().unwrap()));
        assert!(!ten.contains("11.0.0.1".parse().unwrap()));
        assert!(!ten.contains("::ffff:10.0.0.1".parse().unwrap()));
        let everything: Cidr = "::/0".parse().unwrap();
        assert!(everything.contains("fe80::1".parse().unwrap()));
        assert!(!everything.contains("10.0.0.1".parse().unwrap()));
    }
}
