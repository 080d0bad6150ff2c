//! Verification of Twilio's webhook calls: a signature over the registered URL and the form, or the hash of a JSON body.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::digest;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, StatusCode};

use super::{AUTH_TOKEN, SHARED_KEY, SHARED_KEY_ID, WEBHOOK_URL};
use crate::bots::OpenedBot;
use crate::platform::{UnverifiedRequest, VerifiedRequest, WebhookRefusal};
use crate::verification::{
    MacAlgorithm, base64_bytes, check_mac, equal, form_fields, hex_bytes, secret_of, single_field,
    single_header,
};

const SIGNATURE: HeaderName = HeaderName::from_static("x-twilio-signature");
const SETTINGS: HeaderName = HeaderName::from_static("x-twilio-webhooks-signature-settings");
/// The parameter with the hash of a JSON body.
const BODY_HASH: &str = "bodySHA256";

/// Twilio expects 403 after a failed proof.
pub(super) fn verify(bot: &OpenedBot, raw: UnverifiedRequest) -> Result<VerifiedRequest, WebhookRefusal> {
    match check(bot, &raw) {
        Ok(()) => Ok(raw.into_verified()),
        Err(refusal) => Err(WebhookRefusal { status: StatusCode::FORBIDDEN, ..refusal }),
    }
}

fn check(bot: &OpenedBot, raw: &UnverifiedRequest) -> Result<(), WebhookRefusal> {
    let presented = single_header(&raw.headers, SIGNATURE)?;
    let (algorithm, key, length) = key_of(bot, &raw.headers)?;
    let signature = base64_bytes(presented)?;
    if signature.len() != length {
        return Err(WebhookRefusal::unproven("malformed_signature"));
    }
    let fields = match is_form(&raw.headers) {
        true => signed_fields(&raw.body),
        false => {
            check_body_hash(raw)?;
            String::new()
        }
    };
    // Twilio signs the URL with or without the default port, whatever was registered.
    let matches =
        |url: &String| check_mac(algorithm, key, &[url.as_bytes(), fields.as_bytes()], &signature).is_ok();
    match registered_urls(bot, raw).iter().any(matches) {
        true => Ok(()),
        false => Err(WebhookRefusal::unproven("bad_signature")),
    }
}

/// The key of a request with its algorithm and the length of its signature. The header names a key, and each key has one
/// algorithm: the header must not choose a weaker one.
fn key_of<'b>(
    bot: &'b OpenedBot,
    headers: &HeaderMap,
) -> Result<(MacAlgorithm, &'b [u8], usize), WebhookRefusal> {
    if !headers.contains_key(&SETTINGS) {
        let token = secret_of(bot, AUTH_TOKEN)?;
        return Ok((MacAlgorithm::Sha1, token.expose().as_bytes(), 20));
    }
    let settings = single_header(headers, SETTINGS)?;
    let field = |name: &str| {
        let mut values = settings.split(',').filter_map(|part| part.trim().split_once('='));
        values.find(|(found, _)| *found == name).map(|(_, value)| value)
    };
    let known = bot.setting(SHARED_KEY_ID).ok_or(WebhookRefusal::unproven("no_secret"))?;
    if field("key") != Some(known) {
        return Err(WebhookRefusal::unproven("unknown_key"));
    }
    if field("algorithm") != Some("HMAC_SHA256") {
        return Err(WebhookRefusal::unproven("algorithm_downgrade"));
    }
    Ok((MacAlgorithm::Sha256, secret_of(bot, SHARED_KEY)?.expose().as_bytes(), 32))
}

/// Whether the body is a form. A request without a type has none of Twilio's other kinds of body.
pub(super) fn is_form(headers: &HeaderMap) -> bool {
    let Some(kind) = headers.get(CONTENT_TYPE) else { return true };
    let kind = kind.to_str().unwrap_or_default().trim_start().to_ascii_lowercase();
    kind.starts_with("application/x-www-form-urlencoded")
}

/// The fields of a form as they are signed: by name, and for each name its different values in order.
fn signed_fields(body: &[u8]) -> String {
    let mut fields: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, value) in form_fields(body) {
        fields.entry(name).or_default().insert(value);
    }
    let mut text = String::with_capacity(body.len());
    for (name, values) in &fields {
        for value in values {
            text.push_str(name);
            text.push_str(value);
        }
    }
    text
}

fn check_body_hash(raw: &UnverifiedRequest) -> Result<(), WebhookRefusal> {
    let wrong = WebhookRefusal::unproven("bad_body_hash");
    let query = form_fields(raw.query.as_bytes());
    let expected =
        single_field(&query, BODY_HASH).and_then(|hash| hex_bytes::<32>(hash).ok()).ok_or(wrong)?;
    match equal(digest::digest(&digest::SHA256, &raw.body).as_ref(), &expected) {
        true => Ok(()),
        false => Err(wrong),
    }
}

/// The URL as it was registered, with the query of the request, and the same with or without the default port.
fn registered_urls(bot: &OpenedBot, raw: &UnverifiedRequest) -> Vec<String> {
    let url = match bot.setting(WEBHOOK_URL) {
        Some(registered) => {
            let base = registered.split('?').next().unwrap_or(registered);
            let query = if raw.query.is_empty() { String::new() } else { format!("?{}", raw.query) };
            format!("{base}{query}")
        }
        None => raw.head().url(bot),
    };
    let other = other_port(&url);
    [Some(url), other].into_iter().flatten().collect()
}

/// The URL with its default port added, or removed.
fn other_port(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let port = if scheme == "https" { ":443" } else { ":80" };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    match host.strip_suffix(port) {
        Some(host) => Some(format!("{scheme}://{host}{path}")),
        None if host.contains(':') => None,
        None => Some(format!("{scheme}://{host}{port}{path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_port_is_added_or_removed() {
        for (url, other) in [
            ("https://a.example/x?y=1", Some("https://a.example:443/x?y=1")),
            ("https://a.example:443/x", Some("https://a.example/x")),
            ("http://a.example", Some("http://a.example:80")),
            ("https://a.example:8443/x", None),
        ] {
            assert_eq!(other_port(url).as_deref(), other);
        }
    }
}
