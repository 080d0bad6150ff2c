//! Verification of interactions: an Ed25519 signature over timestamp and body, with the key of the application.

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use http::HeaderName;

use crate::bots::OpenedBot;
use crate::platform::{UnverifiedRequest, VerifiedRequest, WebhookRefusal};
use crate::verification::{WINDOW_SECONDS, check_window, hex_bytes, single_header};

use super::PUBLIC_KEY;

const SIGNATURE: HeaderName = HeaderName::from_static("x-signature-ed25519");
const TIMESTAMP: HeaderName = HeaderName::from_static("x-signature-timestamp");

/// The key for the check of a bot without a key: the first test key of RFC 8032, section 7.1.
const NOBODYS_KEY: [u8; 32] = [
    0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07, 0x3a, 0x0e,
    0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07, 0x51, 0x1a,
];

pub(super) fn verify(bot: &OpenedBot, raw: UnverifiedRequest) -> Result<VerifiedRequest, WebhookRefusal> {
    let signature = hex_bytes::<64>(single_header(&raw.headers, SIGNATURE)?)?;
    let timestamp = single_header(&raw.headers, TIMESTAMP)?;
    let key = bot.setting(PUBLIC_KEY).and_then(|key| hex_bytes::<32>(key).ok());
    let signed = [timestamp.as_bytes(), &raw.body].concat();
    // A bot without a key takes the same work, so that the response time does not reveal which bots exist.
    let proven = UnparsedPublicKey::new(&ED25519, key.unwrap_or(NOBODYS_KEY)).verify(&signed, &signature);
    // Fail closed: for a bot without a key every call is refused.
    if key.is_none() {
        return Err(WebhookRefusal::unproven("no_secret"));
    }
    if proven.is_err() {
        return Err(WebhookRefusal::unproven("bad_signature"));
    }
    // The timestamp is checked after the signature, because it proves nothing unless it is signed.
    check_window(raw.received, timestamp, WINDOW_SECONDS)?;
    Ok(raw.into_verified())
}
