//! URL checks before the host is resolved: scheme, credentials, port, literal addresses.

use crate::{Cidr, Config, Url, UrlRefusal, address};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(crate) const LONGEST: usize = 2048;

/// Parses and normalizes `url`. A numeric host in any notation becomes an address and is checked. Any other host
/// becomes punycode without a trailing dot.
pub(crate) fn read(url: &str, config: &Config) -> Result<Url, UrlRefusal> {
    if url.len() > LONGEST {
        return Err(UrlRefusal::TooLong);
    }
    // The parser would silently drop or repair these characters, which serves only URLs that are meant to mislead.
    if url.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '\\') {
        return Err(UrlRefusal::NotAUrl);
    }
    let mut url = Url::parse(url).map_err(|_| UrlRefusal::NotAUrl)?;
    match url.scheme() {
        "https" => {}
        "http" if config.allow_http => {}
        "http" => return Err(UrlRefusal::PlainHttp),
        _ => return Err(UrlRefusal::Scheme),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlRefusal::Credentials);
    }
    if url.fragment().is_some() {
        return Err(UrlRefusal::Fragment);
    }
    if url.port() == Some(0) {
        return Err(UrlRefusal::Port);
    }
    let host = url.host_str().ok_or(UrlRefusal::NotAUrl)?.to_owned();
    if let Some(address) = literal(&host) {
        address::admit(address, &config.allow_cidrs)?;
        return Ok(url);
    }
    let name = host.strip_suffix('.').unwrap_or(&host);
    if name.is_empty() || name.split('.').any(str::is_empty) {
        return Err(UrlRefusal::NotAUrl);
    }
    if name == "localhost" || name.ends_with(".localhost") {
        admit_loopback(&config.allow_cidrs)?;
    }
    if name.len() < host.len() {
        url.set_host(Some(name)).map_err(|_| UrlRefusal::NotAUrl)?;
    }
    Ok(url)
}

fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse().ok().map(IpAddr::V6),
        None => host.parse().ok().map(IpAddr::V4),
    }
}

/// Refuses `localhost` without a lookup when neither loopback address is listed.
fn admit_loopback(allowed: &[Cidr]) -> Result<(), UrlRefusal> {
    address::admit(IpAddr::V6(Ipv6Addr::LOCALHOST), allowed)
        .or_else(|_| address::admit(IpAddr::V4(Ipv4Addr::LOCALHOST), allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strict(url: &str) -> Result<Url, UrlRefusal> {
        read(url, &Config::default())
    }

    #[test]
    fn a_public_https_url_is_read() {
        for (url, read) in [
            ("https://example.com/a?b=c", "https://example.com/a?b=c"),
            ("https://EXAMPLE.com:8443", "https://example.com:8443/"),
            ("https://example.com./x", "https://example.com/x"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
            ("https://8.8.8.8/", "https://8.8.8.8/"),
        ] {
            assert_eq!(strict(url).map(String::from), Ok(read.to_owned()));
        }
    }

    #[test]
    fn a_host_in_any_numeric_notation_is_an_address() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "127.0.0.1.",
            "%31%32%37.0.0.1",
            "１２７.0.0.1",
            "0",
            "0.0.0.0",
            "10.1",
            "169.254.169.254",
            "0xa9fea9fe",
            "[::1]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "[64:ff9b::7f00:1]",
            "[fe80::1]",
            "localhost",
            "LOCALHOST",
            "localhost.",
            "a.localhost",
        ] {
            let refusal = strict(&format!("https://{host}/"));
            assert!(matches!(refusal, Err(UrlRefusal::Address(_))), "{host}: {refusal:?}");
        }
    }

    #[test]
    fn malformed_and_unwanted_urls_are_refused() {
        let long = format!("https://example.com/{}", "a".repeat(2048));
        for (url, refusal) in [
            ("", UrlRefusal::NotAUrl),
            ("example.com/x", UrlRefusal::NotAUrl),
            ("/x", UrlRefusal::NotAUrl),
            ("https://", UrlRefusal::NotAUrl),
            ("https://exa mple.com/", UrlRefusal::NotAUrl),
            (" https://example.com/", UrlRefusal::NotAUrl),
            ("https://example.com/\r\nHost: x", UrlRefusal::NotAUrl),
            ("https:\\\\example.com", UrlRefusal::NotAUrl),
            ("https://a..example/", UrlRefusal::NotAUrl),
            ("https://example.com../", UrlRefusal::NotAUrl),
            ("https://[fe80::1%25eth0]/", UrlRefusal::NotAUrl),
            ("https://256.256.256.256/", UrlRefusal::NotAUrl),
            ("https://example.com:70000/", UrlRefusal::NotAUrl),
            ("https://example.com:0/", UrlRefusal::Port),
            ("http://example.com/", UrlRefusal::PlainHttp),
            ("file:///etc/passwd", UrlRefusal::Scheme),
            ("gopher://example.com/", UrlRefusal::Scheme),
            ("javascript:alert(1)", UrlRefusal::Scheme),
            ("https://user@example.com/", UrlRefusal::Credentials),
            ("https://:pass@example.com/", UrlRefusal::Credentials),
            ("https://example.com/#x", UrlRefusal::Fragment),
            (&long, UrlRefusal::TooLong),
        ] {
            assert_eq!(strict(url), Err(refusal), "{url}");
        }
    }

    #[test]
    fn http_and_private_addresses_are_two_permissions() {
        let loopback = Config { allow_cidrs: Cidr::loopback().to_vec(), ..Config::default() };
        assert_eq!(read("http://127.0.0.1/", &loopback), Err(UrlRefusal::PlainHttp));
        assert!(read("https://127.0.0.1/", &loopback).is_ok());
        let http = Config { allow_http: true, ..Config::default() };
        assert!(read("http://example.com/", &http).is_ok());
        assert!(matches!(read("http://127.0.0.1/", &http), Err(UrlRefusal::Address(_))));
        assert!(read("http://localhost:8080/", &Config::loopback()).is_ok());
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig { failure_persistence: None, ..Default::default() })]
        #[test]
        fn no_text_makes_the_reader_fall(url in "(https?://)?.{0,40}") {
            let _ = read(&url, &Config::loopback());
        }
    }
}
