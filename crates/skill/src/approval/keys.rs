//! Keys of approval signatures: Ed25519, as PEM files.

use aws_lc_rs::signature::{ED25519, ED25519_PUBLIC_KEY_LEN, Ed25519KeyPair, KeyPair, ParsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

/// What precedes the 32 bytes of an Ed25519 key in a SubjectPublicKeyInfo (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Why a key file cannot be used. No text contains a part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    #[error("the file has no block '-----BEGIN {0}-----' in base64")]
    NotPem(&'static str),
    #[error("the key is not an Ed25519 key")]
    NotEd25519,
}

/// A key that checks approvals.
#[derive(Clone)]
pub struct ApprovalPublicKey {
    bytes: [u8; ED25519_PUBLIC_KEY_LEN],
    parsed: ParsedPublicKey,
}

impl ApprovalPublicKey {
    /// Reads a public key in PEM (SubjectPublicKeyInfo).
    pub fn from_pem(pem: &str) -> Result<Self, KeyFault> {
        let der = der(pem, "PUBLIC KEY")?;
        Self::from_bytes(der.strip_prefix(&SPKI_PREFIX).ok_or(KeyFault::NotEd25519)?)
    }

    /// Reads the 32 bytes of a public key.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyFault> {
        let bytes = <[u8; ED25519_PUBLIC_KEY_LEN]>::try_from(bytes).map_err(|_| KeyFault::NotEd25519)?;
        let parsed = ParsedPublicKey::new(&ED25519, bytes).map_err(|_| KeyFault::NotEd25519)?;
        Ok(Self { bytes, parsed })
    }

    pub fn as_bytes(&self) -> &[u8; ED25519_PUBLIC_KEY_LEN] {
        &self.bytes
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(message, signature).is_ok()
    }
}

/// A key that approves. It belongs on the operator's machine. It has no `Debug` and no `Serialize`, and AWS-LC wipes
/// its memory when it is dropped.
pub struct ApprovalSigningKey(Ed25519KeyPair);

impl ApprovalSigningKey {
    /// Reads a private key in PEM (PKCS#8), with or without its public half.
    pub fn from_pem(pem: &str) -> Result<Self, KeyFault> {
        let der = der(pem, "PRIVATE KEY")?;
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).map(Self).map_err(|_| KeyFault::NotEd25519)
    }

    pub fn public_key(&self) -> Result<ApprovalPublicKey, KeyFault> {
        ApprovalPublicKey::from_bytes(self.0.public_key().as_ref())
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        self.0.sign(message).as_ref().to_vec()
    }
}

/// The content of a PEM block. Wiped on drop, since it may be a private key.
fn der(pem: &str, label: &'static str) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    let block = || {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
        let (block, _) = rest.split_once(&format!("-----END {label}-----"))?;
        let mut text = Zeroizing::new(String::with_capacity(block.len()));
        text.extend(block.chars().filter(|c| !c.is_ascii_whitespace()));
        STANDARD.decode(text.as_bytes()).ok()
    };
    block().map(Zeroizing::new).ok_or(KeyFault::NotPem(label))
}
