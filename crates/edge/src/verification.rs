//! Checks that several platforms use to verify webhooks: headers, encodings, time windows and MACs.
//!
//! Every refusal has a reason for metrics. The response is the same for all of them.

pub mod cbc;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::AsHeaderName;
use http::{HeaderMap, HeaderName};
use http_kit::sole_header;
use posthouse_time::Moment;
use posthouse_wire::Secret;

use crate::bots::OpenedBot;
use crate::platform::WebhookRefusal;

/// The largest difference between a request's time and ours, in seconds, unless a platform sets another.
pub const WINDOW_SECONDS: u64 = 300;

/// The value of a header that must be there once, without white space around it. Equal repetitions count as one.
pub fn single_header(headers: &HeaderMap, name: impl AsHeaderName) -> Result<&str, WebhookRefusal> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Err(WebhookRefusal::unproven("missing_header")) };
    if values.any(|other| other != first) {
        return Err(WebhookRefusal::unproven("ambiguous_header"));
    }
    // A value with other characters than visible ASCII cannot be a signature.
    let text = first.to_str().map_err(|_| WebhookRefusal::unproven("malformed_signature"))?;
    Ok(text.trim_matches([' ', '\t']))
}

/// The value of a header that is itself a credential, such as a token. It must be there exactly once.
pub fn credential_header(headers: &HeaderMap, name: HeaderName) -> Result<&str, WebhookRefusal> {
    let is_there = headers.contains_key(&name);
    let only = sole_header(headers, name);
    let reason = if is_there { "ambiguous_header" } else { "missing_header" };
    let only = only.ok_or(WebhookRefusal::unproven(reason))?;
    let text = only.to_str().map_err(|_| WebhookRefusal::unproven("malformed_signature"))?;
    Ok(text.trim_matches([' ', '\t']))
}

/// A secret of a bot. If the bot lacks it, the request is refused.
pub fn secret_of<'b>(bot: &'b OpenedBot, name: &str) -> Result<&'b Secret, WebhookRefusal> {
    let secret = bot.credentials.get(name).filter(|secret| !secret.is_empty());
    secret.ok_or(WebhookRefusal::unproven("no_secret"))
}

/// Hexadecimal digits of either case, of exactly this many bytes.
pub fn hex_bytes<const N: usize>(text: &str) -> Result<[u8; N], WebhookRefusal> {
    let mut bytes = [0; N];
    match hex::decode_to_slice(text, &mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(WebhookRefusal::unproven("malformed_signature")),
    }
}

/// Standard base64 with padding.
pub fn base64_bytes(text: &str) -> Result<Vec<u8>, WebhookRefusal> {
    STANDARD.decode(text).map_err(|_| WebhookRefusal::unproven("malformed_signature"))
}

/// The fields of a form or a query, decoded once, in their order. Empty values stay.
pub fn form_fields(encoded: &[u8]) -> Vec<(String, String)> {
    form_urlencoded::parse(encoded).into_owned().collect()
}

/// The value of a field that is there at most once. A repeated field has no value: which one counts would depend on the
/// reader.
pub fn single_field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    let mut values = fields.iter().filter(|(field, _)| field == name);
    match (values.next(), values.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

/// The signature in a header such as `sha256=<hex>`.
pub fn prefixed_hex<const N: usize>(text: &str, prefix: &str) -> Result<[u8; N], WebhookRefusal> {
    match text.strip_prefix(prefix) {
        Some(digits) => hex_bytes(digits),
        None => Err(WebhookRefusal::unproven("malformed_signature")),
    }
}

/// Compares in constant time.
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(left, right).is_ok()
}

/// The algorithm of a MAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacAlgorithm {
    Sha1,
    Sha256,
}

/// The HMAC of several parts, one after the other.
pub fn mac(algorithm: MacAlgorithm, key: &[u8], parts: &[&[u8]]) -> hmac::Tag {
    let algorithm = match algorithm {
        MacAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        MacAlgorithm::Sha256 => hmac::HMAC_SHA256,
    };
    let mut context = hmac::Context::with_key(&hmac::Key::new(algorithm, key));
    for part in parts {
        context.update(part);
    }
    context.sign()
}

/// Checks the HMAC of several parts against a signature.
pub fn check_mac(
    algorithm: MacAlgorithm,
    key: &[u8],
    parts: &[&[u8]],
    signature: &[u8],
) -> Result<(), WebhookRefusal> {
    match equal(mac(algorithm, key, parts).as_ref(), signature) {
        true => Ok(()),
        false => Err(WebhookRefusal::unproven("bad_signature")),
    }
}

/// Checks that a time in Unix seconds is at most `window_seconds` before or after `now`.
pub fn check_window(now: Moment, timestamp: &str, window_seconds: u64) -> Result<(), WebhookRefusal> {
    let digits = !timestamp.is_empty() && timestamp.bytes().all(|byte| byte.is_ascii_digit());
    let Some(then) = timestamp.parse::<i64>().ok().filter(|_| digits) else {
        return Err(WebhookRefusal::unproven("malformed_timestamp"));
    };
    let now = now.millis().div_euclid(1000);
    match now.abs_diff(then) <= window_seconds {
        true => Ok(()),
        false => Err(WebhookRefusal::unproven("stale_timestamp")),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::AUTHORIZATION;

    use super::*;

    #[test]
    fn a_header_counts_if_all_its_values_are_equal() {
        let mut headers = HeaderMap::new();
        assert_eq!(single_header(&headers, "x-sig").unwrap_err().reason, "missing_header");
        headers.append("x-sig", HeaderValue::from_static(" abc\t"));
        headers.append("x-sig", HeaderValue::from_static(" abc\t"));
        assert_eq!(single_header(&headers, "X-Sig"), Ok("abc"));
        headers.append("x-sig", HeaderValue::from_static("abd"));
        assert_eq!(single_header(&headers, "x-sig").unwrap_err().reason, "ambiguous_header");
    }

    #[test]
    fn a_header_that_is_a_credential_counts_only_alone() {
        let mut headers = HeaderMap::new();
        let read = |headers: &HeaderMap| {
            let read = credential_header(headers, AUTHORIZATION).map(str::to_owned);
            read.map_err(|refusal| refusal.reason)
        };
        assert_eq!(read(&headers), Err("missing_header"));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer abc "));
        assert_eq!(read(&headers).as_deref(), Ok("Bearer abc"));
        headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer abc "));
        assert_eq!(read(&headers), Err("ambiguous_header"));
    }

    #[test]
    fn encodings_are_read_exactly() {
        assert_eq!(hex_bytes::<2>("aBfF"), Ok([0xab, 0xff]));
        for wrong in ["abf", "abfff0", "abxx", "", " abff"] {
            assert_eq!(hex_bytes::<2>(wrong).unwrap_err().reason, "malformed_signature", "{wrong}");
        }
        assert_eq!(base64_bytes("aGk=").unwrap(), b"hi");
        for wrong in ["aGk", "aG-=", "aGk=\n"] {
            assert!(base64_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_field_that_is_repeated_has_no_value() {
        let fields = form_fields(b"a=1&b=+x+&c=&a=2&d=%C3%A9%2B");
        assert_eq!(single_field(&fields, "a"), None);
        assert_eq!(single_field(&fields, "b"), Some(" x "));
        assert_eq!((single_field(&fields, "c"), single_field(&fields, "d")), (Some(""), Some("é+")));
    }

    #[test]
    fn a_time_at_the_edge_of_the_window_passes_and_one_beyond_it_does_not() {
        let now = Moment::from_millis(1_765_000_000_900);
        for near in ["1765000300", "1764999700"] {
            assert_eq!(check_window(now, near, 300), Ok(()), "{near}");
        }
        for far in ["1765000301", "1764999699"] {
            assert_eq!(check_window(now, far, 300).unwrap_err().reason, "stale_timestamp", "{far}");
        }
        for no_time in ["", "+1765000000", "-5", "1.7e9", "99999999999999999999"] {
            assert_eq!(
                check_window(now, no_time, 300).unwrap_err().reason,
                "malformed_timestamp",
                "{no_time}"
            );
        }
    }

    #[test]
    fn a_mac_covers_its_parts_in_order() {
        // RFC 4231, test case 2.
        let signature =
            hex_bytes::<32>("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843").unwrap();
        let parts: [&[u8]; 2] = [b"what do ya want ", b"for nothing?"];
        assert_eq!(check_mac(MacAlgorithm::Sha256, b"Jefe", &parts, &signature), Ok(()));
        let swapped: [&[u8]; 2] = [b"for nothing?", b"what do ya want "];
        assert!(check_mac(MacAlgorithm::Sha256, b"Jefe", &swapped, &signature).is_err());
        assert!(check_mac(MacAlgorithm::Sha1, b"Jefe", &parts, &signature).is_err());
    }
}
