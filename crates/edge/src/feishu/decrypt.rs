//! Decryption of AES-256-CBC with PKCS #7 padding.

use aws_lc_rs::cipher::{AES_256, DecryptingKey, DecryptionContext, UnboundCipherKey};
use aws_lc_rs::iv::FixedLength;

/// Size of an AES block, in bytes.
pub(super) const BLOCK: usize = 16;

/// Decrypts in place and returns the text without its padding. `padded_to` is the number of bytes to a multiple of
/// which the text was padded. `None` if the length or the padding is wrong.
pub(super) fn decrypt_cbc(
    key: &[u8; 32],
    iv: &[u8; BLOCK],
    mut ciphertext: Vec<u8>,
    padded_to: usize,
) -> Option<Vec<u8>> {
    if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(BLOCK) {
        return None;
    }
    let key = DecryptingKey::cbc(UnboundCipherKey::new(&AES_256, key).ok()?).ok()?;
    let context = DecryptionContext::Iv128(FixedLength::from(iv));
    let text = key.decrypt(&mut ciphertext, context).ok()?;
    let padding = usize::from(*text.last()?);
    let kept = text.len().checked_sub(padding).filter(|_| (1..=padded_to).contains(&padding))?;
    if !text[kept..].iter().all(|byte| usize::from(*byte) == padding) {
        return None;
    }
    ciphertext.truncate(kept);
    Some(ciphertext)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST SP 800-38A, F.2.6: the first block of CBC with a key of 256 bits.
    #[test]
    fn a_text_without_a_valid_padding_is_refused() {
        let key: [u8; 32] = hex::decode("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
            .unwrap()
            .try_into()
            .unwrap();
        let iv: [u8; 16] = hex::decode("000102030405060708090a0b0c0d0e0f").unwrap().try_into().unwrap();
        let ciphertext = hex::decode("f58c4c04d6e5f1ba779eabfb5f7bfbd6").unwrap();
        // The text ends in 2a, which is no padding.
        assert_eq!(decrypt_cbc(&key, &iv, ciphertext.clone(), 16), None);
        // Another IV turns its last byte into 01.
        let mut padded = iv;
        padded[15] ^= 0x2a ^ 0x01;
        let text = decrypt_cbc(&key, &padded, ciphertext.clone(), 16).unwrap();
        assert_eq!(hex::encode(text), "6bc1bee22e409f96e93d7e11739317");
        padded[15] ^= 0x01;
        assert_eq!(decrypt_cbc(&key, &padded, ciphertext.clone(), 16), None, "a padding of nothing");
        for wrong in [&ciphertext[..15], &[]] {
            assert_eq!(decrypt_cbc(&key, &iv, wrong.to_vec(), 16), None);
        }
    }
}
