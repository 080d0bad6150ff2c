//! The admin token: the operator's credential, stored as a hash.

use aws_lc_rs::digest::{SHA256, digest};
use http::HeaderMap;
use posthouse_wire::Secret;
use subtle::ConstantTimeEq;

use crate::authorization::bearer;

/// The stored admin token: only its hash. The default admits nobody.
#[derive(Clone, Default)]
pub struct AdminToken(String);

impl AdminToken {
    /// The hash to store: SHA-256 in lower-case hex. The token is long and random, so no slower hash is needed.
    pub fn hash(token: &Secret) -> String {
        hex::encode(digest(&SHA256, token.expose().trim().as_bytes()))
    }

    /// From the stored hash. A text that is not a hash admits nobody.
    pub fn from_hash(hash: impl Into<String>) -> Self {
        Self(hash.into())
    }

    /// Compares hashes in constant time.
    pub fn admits(&self, presented: &Secret) -> bool {
        !presented.is_empty() && bool::from(Self::hash(presented).as_bytes().ct_eq(self.0.as_bytes()))
    }

    /// Whether a request has the token as `Authorization: Bearer`.
    pub(crate) fn admits_request(&self, headers: &HeaderMap) -> bool {
        bearer(headers).is_some_and(|token| self.admits(&Secret::new(token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_itself_is_admitted() {
        let token = Secret::new("adm_1234");
        let admin = AdminToken::from_hash(AdminToken::hash(&token));
        assert!(admin.admits(&token));
        assert!(admin.admits(&Secret::new("adm_1234\n")), "a file ends with a line break");
        let hash = AdminToken::hash(&token);
        for wrong in ["", "adm_123", "adm_12345", "ADM_1234", hash.as_str()] {
            assert!(!admin.admits(&Secret::new(wrong)), "{wrong}");
        }
        assert!(!AdminToken::default().admits(&Secret::new("")), "no token configured, nobody admitted");
    }
}
