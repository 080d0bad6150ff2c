//! Content hash and version of a skill.

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};

/// How many hex digits of the hash are the version.
const VERSION_DIGITS: usize = 12;

/// SHA-256 of a text as it is stored, in lower-case hex. The status line and the signature are part of it, and no line
/// ending is changed, so a change of status is a new version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ContentHash(String);

impl ContentHash {
    pub fn of(body: &str) -> Self {
        Self(hex::encode(digest(&SHA256, body.as_bytes())))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The short name of this content: the first 12 hex digits.
    pub fn version(&self) -> &str {
        &self.0[..VERSION_DIGITS]
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}
