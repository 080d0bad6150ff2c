//! `Secret`: a text that cannot be printed or serialized by accident.

use serde::{Deserialize, Deserializer};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// A token, password or key. It has no `Debug`, no `Display` and no `Serialize`, so a struct that contains one cannot
/// print it by accident. Its memory is wiped on drop.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Returns the text, for the one call that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Compares in time that depends only on the lengths.
    pub fn matches(&self, presented: &str) -> bool {
        self.0.as_bytes().ct_eq(presented.as_bytes()).into()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_matches_itself_and_nothing_near_it() {
        let secret = Secret::new("s3cret");
        assert!(secret.matches("s3cret"));
        for wrong in ["", "s3cre", "s3crets", "S3cret"] {
            assert!(!secret.matches(wrong), "{wrong}");
        }
    }
}
