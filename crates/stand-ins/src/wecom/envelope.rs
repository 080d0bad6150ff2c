//! Encrypted envelopes of WeCom, as the platform makes and reads them.

use aws_lc_rs::{
    cipher::{AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey},
    digest,
    iv::FixedLength,
};
use base64::{
    Engine, alphabet,
    engine::general_purpose::{GeneralPurpose, PAD},
    prelude::BASE64_STANDARD,
};

const KEY_LETTERS: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, PAD.with_decode_allow_trailing_bits(true));
const BLOCK: usize = 32;

fn key_of(letters: &str) -> Option<Vec<u8>> {
    KEY_LETTERS.decode(format!("{letters}=")).ok().filter(|key| key.len() == 32)
}

/// Encrypts bytes with the key and the padding of envelopes, as files of messages are.
pub(super) fn encrypt(letters: &str, plain: &[u8]) -> Option<Vec<u8>> {
    let key = key_of(letters)?;
    let iv: [u8; 16] = key[..16].try_into().ok()?;
    let padding = BLOCK - plain.len() % BLOCK;
    let mut bytes = plain.to_vec();
    bytes.resize(plain.len() + padding, u8::try_from(padding).ok()?);
    let cipher = EncryptingKey::cbc(UnboundCipherKey::new(&AES_256, &key).ok()?).ok()?;
    cipher.less_safe_encrypt(&mut bytes, EncryptionContext::Iv128(FixedLength::from(iv))).ok()?;
    Some(bytes)
}

/// Seals a text for a recipient. `number` stands for the random bytes.
pub(super) fn seal(letters: &str, text: &str, receiver: &str, number: u64) -> Option<String> {
    let mut whole = format!("{number:016}").into_bytes();
    whole.extend_from_slice(&u32::try_from(text.len()).ok()?.to_be_bytes());
    whole.extend_from_slice(text.as_bytes());
    whole.extend_from_slice(receiver.as_bytes());
    encrypt(letters, &whole).map(|hidden| BASE64_STANDARD.encode(hidden))
}

/// Opens an envelope. `None` if it is not for this recipient.
pub(super) fn open(letters: &str, sealed: &str, receiver: &str) -> Option<String> {
    let key = key_of(letters)?;
    let iv: [u8; 16] = key[..16].try_into().ok()?;
    let mut bytes = BASE64_STANDARD.decode(sealed).ok()?;
    let cipher = DecryptingKey::cbc(UnboundCipherKey::new(&AES_256, &key).ok()?).ok()?;
    let length = cipher.decrypt(&mut bytes, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?.len();
    let end = length.checked_sub(usize::from(bytes[length - 1]))?;
    let size = u32::from_be_bytes(bytes.get(16..20)?.try_into().ok()?);
    let text_end = 20_usize.checked_add(usize::try_from(size).ok()?)?;
    if bytes.get(text_end..end)? != receiver.as_bytes() {
        return None;
    }
    String::from_utf8(bytes[20..text_end].to_vec()).ok()
}

/// The signature of an envelope, in hexadecimal digits.
pub(super) fn signature(token: &str, timestamp: &str, nonce: &str, sealed: &str) -> String {
    let mut parts = [token, timestamp, nonce, sealed];
    parts.sort_unstable();
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, parts.concat().as_bytes());
    hex::encode(hash.as_ref())
}
