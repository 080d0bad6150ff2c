//! Verification of WeCom's callbacks: the signature in the query, then the envelope in the body or in `echostr`.

use http::Method;
use serde::Deserialize;

use super::envelope::{EnvelopeKey, signature};
use super::xml::XmlFields;
use super::{CALLBACK_TOKEN, WeComProduct};
use crate::bots::OpenedBot;
use crate::platform::{UnverifiedRequest, VerifiedRequest, WebhookRefusal};
use crate::verification::{
    WINDOW_SECONDS, check_window, equal, form_fields, hex_bytes, secret_of, single_field,
};

/// The body of a callback of an AI bot.
#[derive(Deserialize)]
struct SealedJson {
    encrypt: String,
}

/// Checks a callback or the handshake of a new URL. The body of the result is the decrypted text.
pub(super) fn verify(
    product: WeComProduct,
    bot: &OpenedBot,
    raw: UnverifiedRequest,
) -> Result<VerifiedRequest, WebhookRefusal> {
    let fields = form_fields(raw.query.as_bytes());
    let parameter = |name| {
        let value = single_field(&fields, name).filter(|value| !value.is_empty());
        value.ok_or(WebhookRefusal::malformed("missing_parameter"))
    };
    let (timestamp, nonce) = (parameter("timestamp")?, parameter("nonce")?);
    let signed = parameter("msg_signature")?;
    let sealed = match raw.method == Method::GET {
        // A plus sign that was not escaped was read as a space, which base64 does not have.
        true => parameter("echostr")?.replace(' ', "+"),
        false => sealed_text(product, &raw.body).ok_or(WebhookRefusal::malformed("malformed_body"))?,
    };
    let (token, key) = (secret_of(bot, CALLBACK_TOKEN)?, EnvelopeKey::of(bot)?);
    if !equal(&signature(token, timestamp, nonce, &sealed), &hex_bytes::<20>(signed)?) {
        return Err(WebhookRefusal::unproven("bad_signature"));
    }
    check_window(raw.received, timestamp, WINDOW_SECONDS)?;
    let receive_id = product.receive_id(bot).ok_or(WebhookRefusal::unproven("no_secret"))?;
    let text = key.open(&sealed, receive_id)?;
    Ok(VerifiedRequest { body: text.into(), ..raw.into_verified() })
}

/// The encrypted text of a body.
fn sealed_text(product: WeComProduct, body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let sealed = match product {
        WeComProduct::App => XmlFields::read(text)?.get("Encrypt")?.to_owned(),
        // Only an object: serde would also fill the struct from an array.
        WeComProduct::AiBot if text.trim_start().starts_with('{') => {
            serde_json::from_str::<SealedJson>(text).ok()?.encrypt
        }
        WeComProduct::AiBot => return None,
    };
    (!sealed.is_empty()).then_some(sealed)
}
