//! Encrypted envelopes of WeCom (BizMsgCrypt): signature, encryption, and the id of the recipient inside.

use aws_lc_rs::digest;
use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::general_purpose::{GeneralPurpose, PAD, STANDARD};
use posthouse_time::Moment;
use posthouse_wire::Secret;
use serde_json::json;

use super::{AES_KEY, CALLBACK_TOKEN, WeComProduct};
use crate::bots::OpenedBot;
use crate::platform::{PlatformResponse, WebhookRefusal};
use crate::verification::cbc::{self, decrypt_cbc, encrypt_cbc};
use crate::verification::secret_of;

/// Padding fills up blocks of 32 bytes, which is twice the block of AES.
const PADDING_BLOCK: usize = 32;
/// Random bytes at the start of each text, and the length field after them.
const RANDOM: usize = 16;
const LENGTH: usize = 4;
/// The key is 43 letters of base64. They hold two bits more than its 32 bytes, which WeCom does not set to zero.
const LETTERS: usize = 43;
const KEY_LETTERS: GeneralPurpose = GeneralPurpose::new(&ALPHABET, PAD.with_decode_allow_trailing_bits(true));

/// The key with which a bot's callbacks are encrypted.
pub(super) struct EnvelopeKey([u8; cbc::KEY]);

impl EnvelopeKey {
    /// The key of a bot, from its EncodingAESKey.
    pub fn of(bot: &OpenedBot) -> Result<Self, WebhookRefusal> {
        Self::from_letters(secret_of(bot, AES_KEY)?).ok_or(WebhookRefusal::unproven("no_secret"))
    }

    pub fn from_letters(letters: &Secret) -> Option<Self> {
        let letters = letters.expose();
        if letters.len() != LETTERS {
            return None;
        }
        let bytes = KEY_LETTERS.decode(format!("{letters}=")).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }

    /// Decrypts a file that came with a message, or a text.
    pub fn decrypt(&self, hidden: Vec<u8>) -> Option<Vec<u8>> {
        decrypt_cbc(&self.0, self.iv(), hidden, PADDING_BLOCK)
    }

    fn iv(&self) -> [u8; cbc::IV] {
        let mut iv = [0; cbc::IV];
        iv.copy_from_slice(&self.0[..cbc::IV]);
        iv
    }

    /// Opens an envelope that is for this recipient. Its signature must have been checked.
    pub fn open(&self, sealed: &str, receive_id: &str) -> Result<Vec<u8>, WebhookRefusal> {
        let failed = WebhookRefusal::unproven("decrypt_failed");
        let mut text = STANDARD.decode(sealed).ok().and_then(|hidden| self.decrypt(hidden)).ok_or(failed)?;
        let length = text.get(RANDOM..RANDOM + LENGTH).and_then(|field| field.try_into().ok());
        let length = usize::try_from(u32::from_be_bytes(length.ok_or(failed)?)).map_err(|_| failed)?;
        let end = (RANDOM + LENGTH).checked_add(length).filter(|end| *end <= text.len()).ok_or(failed)?;
        if text[end..] != *receive_id.as_bytes() {
            return Err(WebhookRefusal::unproven("wrong_receive_id"));
        }
        text.truncate(end);
        text.drain(..RANDOM + LENGTH);
        Ok(text)
    }

    /// Seals a text for this recipient.
    pub fn seal(&self, text: &[u8], receive_id: &str, random: [u8; RANDOM]) -> Option<String> {
        let length = u32::try_from(text.len()).ok()?;
        let whole = [&random[..], &length.to_be_bytes(), text, receive_id.as_bytes()].concat();
        encrypt_cbc(&self.0, self.iv(), whole, PADDING_BLOCK).map(|hidden| STANDARD.encode(hidden))
    }
}

/// The signature of an envelope: SHA-1 over its parts, sorted by their bytes.
pub(super) fn signature(token: &Secret, timestamp: &str, nonce: &str, sealed: &str) -> [u8; 20] {
    let mut parts = [token.expose(), timestamp, nonce, sealed];
    parts.sort_unstable();
    let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    parts.iter().for_each(|part| context.update(part.as_bytes()));
    let mut signed = [0; 20];
    signed.copy_from_slice(context.finish().as_ref());
    signed
}

/// The sealed response to a callback of an AI bot (a passive reply). `None` if the bot lacks its keys.
pub(super) fn sealed_response(bot: &OpenedBot, text: &str, now: Moment) -> Option<PlatformResponse> {
    let token = bot.credentials.get(CALLBACK_TOKEN).filter(|token| !token.is_empty())?;
    let key = EnvelopeKey::of(bot).ok()?;
    // The random part may be of any bytes, but some receivers read it as text.
    let mut random = [0; RANDOM];
    aws_lc_rs::rand::fill(&mut random).ok()?;
    let letters = hex::encode(random);
    let (start, nonce) = letters.split_at(RANDOM);
    let receive_id = WeComProduct::AiBot.receive_id(bot)?;
    let sealed = key.seal(text.as_bytes(), receive_id, start.as_bytes().try_into().ok()?)?;
    let timestamp = now.millis().div_euclid(1000).to_string();
    let signed = hex::encode(signature(token, &timestamp, nonce, &sealed));
    let body = json!({ "encrypt": sealed, "msgsignature": signed, "timestamp": timestamp, "nonce": nonce });
    Some(PlatformResponse::json(body.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn envelopes_are_sealed_as_the_vectors_say_and_can_be_opened() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/platforms/verify_wecom.json");
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let key = EnvelopeKey::from_letters(&Secret::new(text(&file["config"]["encoding_aes_key"]))).unwrap();
        assert_eq!(hex::encode(key.0), text(&file["config"]["aes_key_hex"]));
        let token = Secret::new(text(&file["config"]["token"]));
        for case in file["encrypt_vectors"].as_array().unwrap() {
            let (plain, receiver) = (text(&case["plaintext"]), text(&case["receive_id"]));
            let random = text(&case["random_16"]).into_bytes().try_into().unwrap();
            let sealed = key.seal(plain.as_bytes(), &receiver, random).unwrap();
            assert_eq!(sealed, text(&case["encrypt"]));
            let signed = signature(&token, &text(&case["timestamp"]), &text(&case["nonce"]), &sealed);
            assert_eq!(hex::encode(signed), text(&case["msg_signature"]));
            assert_eq!(key.open(&sealed, &receiver), Ok(plain.into_bytes()));
            assert_eq!(key.open(&sealed, "other").unwrap_err().reason, "wrong_receive_id");
        }
    }

    #[test]
    fn a_key_has_43_letters_whose_last_bits_do_not_count() {
        let letters = |last: char| Secret::new(format!("{}{last}", "a".repeat(42)));
        for last in ['a', 'b', '8', 'Z'] {
            assert!(EnvelopeKey::from_letters(&letters(last)).is_some(), "{last}");
        }
        for wrong in ["", "short", &"a".repeat(44), &"=".repeat(43)] {
            assert!(EnvelopeKey::from_letters(&Secret::new(wrong)).is_none(), "{wrong}");
        }
    }
}
