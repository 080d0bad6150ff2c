//! IP address ranges in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses: `10.0.0.0/8`, `fd00::/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    network: IpAddr,
    prefix: u8,
}

/// Error from parsing an address range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrFault {
    /// The part before the slash is not an IPv4 or IPv6 address.
    #[error("{0:?} is not an IP address")]
    Address(String),
    /// The part after the slash is not a valid prefix length for that address family.
    #[error("{0:?} is not a prefix length between 0 and {1}")]
    Prefix(String, u8),
}

impl Cidr {
    /// The first `prefix` bits of `address`; the rest is ignored. `None` if the address has fewer bits.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let network = match address {
            IpAddr::V4(address) if prefix <= 32 => {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) if prefix <= 128 => {
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
            _ => return None,
        };
        Some(Self { network, prefix })
    }

    /// The loopback ranges of IPv4 and IPv6.
    pub fn loopback() -> [Self; 2] {
        [
            Self { network: IpAddr::V4(Ipv4Addr::new(127, 0, 0, 0)), prefix: 8 },
            Self { network: IpAddr::V6(Ipv6Addr::LOCALHOST), prefix: 128 },
        ]
    }

    /// Whether `address` is in the range. An IPv4 address and its IPv4-mapped IPv6 form count as different addresses.
    pub fn contains(&self, address: IpAddr) -> bool {
        Self::new(address, self.prefix).is_some_and(|other| other == *self)
    }
}

impl FromStr for Cidr {
    type Err = CidrFault;

    fn from_str(text: &str) -> Result<Self, CidrFault> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(start, end)| (start, Some(end)));
        let address: IpAddr = address.parse().map_err(|_| CidrFault::Address(address.to_owned()))?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        let Some(prefix) = prefix else {
            return Ok(Self { network: address, prefix: longest });
        };
        // `parse` would also accept a leading plus sign.
        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let length = if digits { prefix.parse().ok() } else { None };
        length
            .and_then(|length| Self::new(address, length))
            .ok_or_else(|| CidrFault::Prefix(prefix.to_owned(), longest))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.prefix)
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
