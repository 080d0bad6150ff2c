//! Upgrade tokens (relay contract section 3.1) and the signatures of the retired HTTP delivery (section 20).

use aws_lc_rs::hmac;
use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use subtle::{Choice, ConstantTimeEq};

use crate::id::GatewayId;
use crate::secret::Secret;

/// Written without padding. Read with or without padding, and with any spare bits in the last character.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::URL_SAFE,
    GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Result of verifying a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenVerdict {
    Good(GatewayId),
    /// Signed with the right secret, but expired.
    Expired {
        gateway: GatewayId,
        late_seconds: i64,
    },
    /// Malformed, unknown or signed with another secret. One variant on purpose: telling these apart would reveal
    /// which gateways exist.
    Refused,
}

/// Makes the token that a gateway presents when it connects. With a `ttl_seconds` of zero or less it never expires.
pub fn mint(gateway: &GatewayId, secret: &Secret, ttl_seconds: i64, now_s: i64) -> String {
    let expires = if ttl_seconds > 0 { now_s.saturating_add(ttl_seconds) } else { 0 };
    let signed = format!("{gateway}:{expires}");
    let signature = hex::encode(tag(secret.expose(), signed.as_bytes()));
    BASE64.encode(format!("{signed}:{signature}"))
}

/// The gateway that the token claims to be from, for looking up its secrets. The claim is not verified.
pub fn claimed_gateway(token: &str) -> Option<GatewayId> {
    ParsedToken::read(token).map(|claim| claim.gateway)
}

/// Verifies a token with all secrets of the gateway that it claims, except empty ones.
///
/// To hide which gateways exist, the work is the same for an unknown gateway (no secrets), and it does not stop at the
/// secret that matches.
pub fn verify<'a>(token: &str, secrets: impl IntoIterator<Item = &'a Secret>, now_s: i64) -> TokenVerdict {
    let Some(claim) = ParsedToken::read(token) else { return TokenVerdict::Refused };
    let signed = format!("{}:{}", claim.gateway, claim.expires);
    if !signed_by_any(secrets, signed.as_bytes(), &claim.signature) {
        return TokenVerdict::Refused;
    }
    if claim.expires != 0 && now_s > claim.expires {
        let late_seconds = now_s.saturating_sub(claim.expires);
        return TokenVerdict::Expired { gateway: claim.gateway, late_seconds };
    }
    TokenVerdict::Good(claim.gateway)
}

/// Signs a body as the retired HTTP delivery did (`x-relay-signature`).
pub fn sign_delivery(key: &Secret, timestamp: i64, body: &[u8]) -> String {
    hex::encode(tag(key.expose(), &delivery_text(timestamp, body)))
}

/// Verifies a signature of the retired HTTP delivery. `timestamp` and `signature` are the raw header values.
pub fn verify_delivery<'a>(
    keys: impl IntoIterator<Item = &'a Secret>,
    timestamp: Option<&str>,
    signature: Option<&str>,
    body: &[u8],
    now_s: i64,
    max_skew_seconds: i64,
) -> bool {
    let Some(timestamp) = timestamp.and_then(number) else { return false };
    let Some(signature) = signature.and_then(signature_bytes) else { return false };
    let skew = i128::from(now_s) - i128::from(timestamp);
    skew.abs() <= i128::from(max_skew_seconds)
        && signed_by_any(keys, &delivery_text(timestamp, body), &signature)
}

/// A parsed token, not verified.
struct ParsedToken {
    gateway: GatewayId,
    expires: i64,
    signature: [u8; 32],
}

impl ParsedToken {
    fn read(token: &str) -> Option<Self> {
        // Peers use either alphabet. Other characters are refused, although stock verifiers skip them.
        let url_safe = token.replace('+', "-").replace('/', "_");
        let text = String::from_utf8(BASE64.decode(url_safe).ok()?).ok()?;
        // Split from the right, because the gateway's name may contain colons.
        let (rest, signature) = text.rsplit_once(':')?;
        let (gateway, expires) = rest.rsplit_once(':')?;
        Some(Self {
            gateway: GatewayId::new(gateway),
            expires: number(expires)?,
            signature: signature_bytes(signature)?,
        })
    }
}

/// Reads a number. The signed text is rebuilt from the number, so any spelling of it verifies.
fn number(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

fn signature_bytes(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

fn delivery_text(timestamp: i64, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{timestamp}.").into_bytes();
    text.extend_from_slice(body);
    text
}

fn signed_by_any<'a>(
    secrets: impl IntoIterator<Item = &'a Secret>,
    message: &[u8],
    signature: &[u8; 32],
) -> bool {
    let (mut matched, mut tried) = (Choice::from(0), false);
    for secret in secrets.into_iter().filter(|secret| !secret.is_empty()) {
        matched |= tag(secret.expose(), message).ct_eq(signature);
        tried = true;
    }
    if !tried {
        // The result is already known. This keeps the time the same as for a known gateway.
        std::hint::black_box(tag("no secret", message).ct_eq(signature));
    }
    matched.into()
}

fn tag(key: &str, message: &[u8]) -> [u8; 32] {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), message);
    tag.as_ref().try_into().expect("an HMAC-SHA256 tag has 32 bytes")
}
