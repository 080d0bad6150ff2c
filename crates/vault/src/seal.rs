//! Encryption of secrets: AES-256-GCM, a random nonce per value, the value's owner and name as associated data.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ledger::Sealed;
use posthouse_wire::Secret;
use zeroize::Zeroizing;

use crate::Fault;

/// The master keys, current one first. Older keys only open values that are not yet resealed.
pub struct MasterKeys(Vec<MasterKey>);

struct MasterKey {
    id: String,
    cipher: LessSafeKey,
}

/// Plaintext that is sealed to prove that a key fits a ledger.
const PROOF: &[u8] = b"this ledger's vault";
const PROOF_CONTEXT: &str = "proof";

impl MasterKeys {
    /// Generates a key, as the text of a key file.
    pub fn generate() -> Result<Secret, Fault> {
        let mut bytes = Zeroizing::new([0_u8; 32]);
        fill(&mut *bytes)?;
        let encoded = Zeroizing::new(STANDARD.encode(*bytes));
        Ok(Secret::new(format!("{}:{}\n", random_hex(4)?.expose(), encoded.as_str())))
    }

    /// Parses a key file: one `id:base64` per line, current key first.
    pub fn read(text: &Secret) -> Result<Self, Fault> {
        let mut keys: Vec<MasterKey> = Vec::new();
        for line in text.expose().lines().map(str::trim).filter(|line| !line.is_empty()) {
            let (id, encoded) = line.split_once(':').ok_or(Fault::BadKey("a line is not `id:base64`"))?;
            if id.is_empty() {
                return Err(Fault::BadKey("a key has no id"));
            }
            if keys.iter().any(|key| key.id == id) {
                // Values sealed under the second one could never be opened.
                return Err(Fault::BadKey("two keys have the same id"));
            }
            let bytes =
                Zeroizing::new(STANDARD.decode(encoded).map_err(|_| Fault::BadKey("a key is not base64"))?);
            let unbound = UnboundKey::new(&AES_256_GCM, &bytes)
                .map_err(|_| Fault::BadKey("a key is not 32 bytes long"))?;
            keys.push(MasterKey { id: id.to_owned(), cipher: LessSafeKey::new(unbound) });
        }
        if keys.is_empty() {
            return Err(Fault::BadKey("the key file contains no key"));
        }
        Ok(Self(keys))
    }

    pub(crate) fn current_id(&self) -> &str {
        &self.0[0].id
    }

    /// Seals `plain` for `context`. It opens only with the same context.
    pub(crate) fn seal(&self, context: &str, plain: &[u8]) -> Result<Sealed, Fault> {
        let key = &self.0[0];
        let mut nonce = [0_u8; NONCE_LEN];
        fill(&mut nonce)?;
        let mut body = Zeroizing::new(plain.to_vec());
        let tag = key
            .cipher
            .seal_in_place_separate_tag(
                Nonce::assume_unique_for_key(nonce),
                Aad::from(context.as_bytes()),
                body.as_mut_slice(),
            )
            .map_err(|_| Fault::Broken)?;
        let mut blob = nonce.to_vec();
        blob.extend_from_slice(&body);
        blob.extend_from_slice(tag.as_ref());
        Ok(Sealed { key_id: key.id.clone(), blob })
    }

    pub(crate) fn open(&self, context: &str, sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let key = self
            .0
            .iter()
            .find(|key| key.id == sealed.key_id)
            .ok_or_else(|| Fault::WrongKey(sealed.key_id.clone()))?;
        let (nonce, body) = sealed.blob.split_at_checked(NONCE_LEN).ok_or(Fault::Broken)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| Fault::Broken)?;
        let mut body = Zeroizing::new(body.to_vec());
        let length = key
            .cipher
            .open_in_place(nonce, Aad::from(context.as_bytes()), &mut body)
            .map_err(|_| Fault::Broken)?
            .len();
        body.truncate(length);
        Ok(body)
    }

    /// Same as [`MasterKeys::open`], for text.
    pub(crate) fn open_text(&self, context: &str, sealed: &Sealed) -> Result<Secret, Fault> {
        let plain = self.open(context, sealed)?;
        std::str::from_utf8(&plain).map(Secret::new).map_err(|_| Fault::Broken)
    }

    pub(crate) fn proof(&self) -> Result<String, Fault> {
        let sealed = self.seal(PROOF_CONTEXT, PROOF)?;
        Ok(format!("{}:{}", sealed.key_id, STANDARD.encode(sealed.blob)))
    }

    /// Returns the id of the key that opens the proof.
    pub(crate) fn check_proof(&self, proof: &str) -> Result<String, Fault> {
        let (key_id, encoded) = proof.split_once(':').ok_or(Fault::Broken)?;
        let blob = STANDARD.decode(encoded).map_err(|_| Fault::Broken)?;
        let opened = self.open(PROOF_CONTEXT, &Sealed { key_id: key_id.to_owned(), blob });
        // A key with the right id but other bytes is a wrong key too.
        opened.map(|_| key_id.to_owned()).map_err(|_| Fault::WrongKey(key_id.to_owned()))
    }
}

/// `bytes` random bytes as lower-case hex. Every secret that the server makes comes from here.
pub fn random_hex(bytes: usize) -> Result<Secret, Fault> {
    let mut raw = Zeroizing::new(vec![0_u8; bytes]);
    fill(&mut raw)?;
    Ok(Secret::new(hex::encode(raw.as_slice())))
}

fn fill(bytes: &mut [u8]) -> Result<(), Fault> {
    SystemRandom::new().fill(bytes).map_err(|_| Fault::NoRandom)
}
