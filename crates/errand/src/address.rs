//! IP address policy: which addresses are public and may be called.

use crate::{Cidr, UrlRefusal};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Refuses an address that is neither public nor listed in `allowed`.
pub(crate) fn admit(address: IpAddr, allowed: &[Cidr]) -> Result<(), UrlRefusal> {
    // The system connects to an IPv4-mapped address as the IPv4 address it contains. So a range that lists the
    // IPv4 address also lists its mapped form.
    let dialled = address.to_canonical();
    if allowed.iter().any(|range| range.contains(address) || range.contains(dialled)) || is_public(address) {
        Ok(())
    } else {
        Err(UrlRefusal::Address(address))
    }
}

pub(crate) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127, _, _)                        // this network, private, loopback
            | (100, 64..=127, _)                    // carrier NAT
            | (169, 254, _)                         // link-local, with the clouds' metadata services
            | (172, 16..=31, _) | (192, 168, _)     // private
            | (192, 0, 0 | 2)                       // protocol assignments, documentation
            | (192, 88, 99)                         // relays to 6to4
            | (198, 18 | 19, _)                     // benchmarks
            | (198, 51, 100) | (203, 0, 113)        // documentation
            | (224..=255, _, _) // multicast, reserved, broadcast
    )
}

/// Only global unicast (2000::/3) can be public, except its special-purpose ranges. No form that contains an IPv4
/// address is public: 2000::/3 excludes mapped, compatible and NAT64 addresses; 6to4, Teredo and ISATAP are
/// excluded by name.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let [first, second, ..] = segments;
    let global_unicast = first & 0xe000 == 0x2000;
    let protocol_assignments = first == 0x2001 && second < 0x200; // includes Teredo, benchmarks and ORCHID
    let documentation = first == 0x2001 && second == 0xdb8 || first == 0x3fff && second < 0x1000;
    let six_to_four = first == 0x2002;
    let isatap = segments[4] & 0xfcff == 0 && segments[5] == 0x5efe;
    global_unicast && !protocol_assignments && !documentation && !six_to_four && !isatap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for inside in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::7f00:1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::7f00:1",
            "64:ff9b::808:808",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:db8::1",
            "2002:7f00:1::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2a00:1450::5efe:a00:1",
            "2a00:1450::200:5efe:a00:1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for outside in [
            "1.1.1.1",
            "8.8.8.8",
            "100.63.255.255",
            "100.128.0.1",
            "172.15.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.1.1",
            "198.17.0.1",
            "223.255.255.255",
            "2606:4700::1111",
            "2a00:1450:4001::200e",
            "2001:4860:4860::8888",
            "2001:200::1",
            "3fff:1000::1",
        ] {
            assert!(is_public(outside.parse().unwrap()), "{outside}");
        }
    }

    #[test]
    fn a_listed_address_is_admitted_in_either_form() {
        let allowed = ["127.0.0.0/8".parse().unwrap(), "64:ff9b::/96".parse().unwrap()];
        for address in ["127.0.0.1", "::ffff:127.0.0.1", "64:ff9b::808:808", "9.9.9.9"] {
            assert!(admit(address.parse().unwrap(), &allowed).is_ok(), "{address}");
        }
        for address in ["::1", "::7f00:1", "10.0.0.1", "::ffff:10.0.0.1"] {
            assert!(admit(address.parse().unwrap(), &allowed).is_err(), "{address}");
        }
    }
}
