//! Ed25519 signatures of interactions.

use aws_lc_rs::{
    digest::{SHA256, digest},
    signature::{Ed25519KeyPair, KeyPair},
};

/// The key of one application.
pub(super) struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// From a seed, or from a seed derived from the application id.
    pub fn new(seed: Option<[u8; 32]>, application: &str) -> SigningKey {
        let derived = digest(&SHA256, format!("discord stand-in {application}").as_bytes());
        let seed = seed.as_ref().map_or(derived.as_ref(), |seed| seed.as_slice());
        SigningKey(Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed has 32 bytes"))
    }

    /// The public key, in hex.
    pub fn public_key(&self) -> String {
        hex::encode(self.0.public_key().as_ref())
    }

    /// Signature over timestamp and body, in hex.
    pub fn sign(&self, timestamp: &str, body: &[u8]) -> String {
        hex::encode(self.0.sign(&[timestamp.as_bytes(), body].concat()).as_ref())
    }
}
