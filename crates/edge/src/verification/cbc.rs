//! AES-256 in CBC mode with PKCS#7 padding, for platforms that encrypt their webhooks.

use aws_lc_rs::cipher::{
    AES_256, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;

/// Length of a key, and of an initialization vector, in bytes.
pub const KEY: usize = 32;
pub const IV: usize = 16;

/// Decrypts, and removes the padding, which fills up a block of `padding_block` bytes. `None` for anything that cannot
/// be the work of this key: all such failures are the same, so that no answer depends on the padding.
pub fn decrypt_cbc(
    key: &[u8; KEY],
    iv: [u8; IV],
    mut ciphertext: Vec<u8>,
    padding_block: usize,
) -> Option<Vec<u8>> {
    if ciphertext.is_empty() || !ciphertext.len().is_multiple_of(IV) {
        return None;
    }
    let key = DecryptingKey::cbc(UnboundCipherKey::new(&AES_256, key).ok()?).ok()?;
    let length = key.decrypt(&mut ciphertext, DecryptionContext::Iv128(FixedLength::from(iv))).ok()?.len();
    ciphertext.truncate(length);
    let padding = usize::from(*ciphertext.last()?);
    if !(1..=padding_block).contains(&padding) || padding > length {
        return None;
    }
    let message = length - padding;
    // Every byte of the padding counts, whichever of them is wrong.
    let differs = ciphertext[message..].iter().fold(0, |all, byte| all | (usize::from(*byte) ^ padding));
    ciphertext.truncate(message);
    (differs == 0).then_some(ciphertext)
}

/// Encrypts, with padding that fills up a block of `padding_block` bytes, which is a multiple of 16 and below 256.
pub fn encrypt_cbc(
    key: &[u8; KEY],
    iv: [u8; IV],
    mut plaintext: Vec<u8>,
    padding_block: usize,
) -> Option<Vec<u8>> {
    let padding = padding_block - plaintext.len() % padding_block;
    plaintext.resize(plaintext.len() + padding, u8::try_from(padding).ok()?);
    let key = EncryptingKey::cbc(UnboundCipherKey::new(&AES_256, key).ok()?).ok()?;
    key.less_safe_encrypt(&mut plaintext, EncryptionContext::Iv128(FixedLength::from(iv))).ok()?;
    Some(plaintext)
}

#[cfg(test)]
mod tests {
    use super::*;

    const AES_KEY: [u8; KEY] = [7; KEY];
    const START: [u8; IV] = [9; IV];

    #[test]
    fn what_is_encrypted_can_be_decrypted_with_the_same_padding() {
        for block in [16, 32] {
            for length in [0, 1, 15, 16, 17, 31, 32, 33, 100] {
                let text = vec![b'x'; length];
                let hidden = encrypt_cbc(&AES_KEY, START, text.clone(), block).unwrap();
                assert!(hidden.len() > length && hidden.len().is_multiple_of(block));
                assert_eq!(decrypt_cbc(&AES_KEY, START, hidden, block), Some(text));
            }
        }
    }

    /// The first block of NIST SP 800-38A, F.2.6.
    #[test]
    fn a_text_without_a_valid_padding_is_refused() {
        let bytes = |text: &str| hex::decode(text).unwrap();
        let key =
            bytes("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4").try_into().unwrap();
        let start: [u8; IV] = bytes("000102030405060708090a0b0c0d0e0f").try_into().unwrap();
        let hidden = bytes("f58c4c04d6e5f1ba779eabfb5f7bfbd6");
        // The text ends in 2a, which is no padding.
        assert_eq!(decrypt_cbc(&key, start, hidden.clone(), 16), None);
        // Another vector turns its last byte into 01.
        let mut padded = start;
        padded[15] ^= 0x2a ^ 0x01;
        let text = decrypt_cbc(&key, padded, hidden, 16).unwrap();
        assert_eq!(hex::encode(text), "6bc1bee22e409f96e93d7e11739317");
    }

    #[test]
    fn anything_else_is_refused() {
        let hidden = encrypt_cbc(&AES_KEY, START, vec![b'x'; 40], 32).unwrap();
        assert_eq!(decrypt_cbc(&AES_KEY, START, hidden.clone(), 16), None, "24 bytes of padding");
        assert_eq!(decrypt_cbc(&AES_KEY, START, hidden[..63].to_vec(), 32), None);
        assert_eq!(decrypt_cbc(&AES_KEY, START, Vec::new(), 32), None);
        for padding in [0, 17, 255] {
            let mut text = vec![b'x'; 31];
            text.push(padding);
            let key = EncryptingKey::cbc(UnboundCipherKey::new(&AES_256, &AES_KEY).unwrap()).unwrap();
            let context = EncryptionContext::Iv128(FixedLength::from(START));
            key.less_safe_encrypt(&mut text, context).unwrap();
            assert_eq!(decrypt_cbc(&AES_KEY, START, text, 16), None, "{padding}");
        }
    }
}
