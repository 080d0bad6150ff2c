//! Verifier with one configured public key.

use async_trait::async_trait;
use http::HeaderMap;
use posthouse_time::Timepiece;

use super::{BadKey, Expected, FireVerifier, KeySet, VerifiedFire, bearer, check_claims};

/// Checks tokens with one public key and fetches nothing. A rotation of the portal's key needs a new
/// configuration.
pub struct PinnedKey {
    keys: KeySet,
    expected: Expected,
    timepiece: Timepiece,
}

impl PinnedKey {
    pub fn new(pem: &str, expected: Expected, timepiece: Timepiece) -> Result<Self, BadKey> {
        Ok(Self { keys: KeySet::pinned(pem)?, expected, timepiece })
    }
}

#[async_trait]
impl FireVerifier for PinnedKey {
    async fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Option<VerifiedFire> {
        let Expected { audience, issuer } = &self.expected;
        let claims =
            check_claims(bearer(headers)?, audience, &self.keys, issuer.as_deref(), self.timepiece.now())?;
        VerifiedFire::by_token(claims).bound_to(body)
    }
}
