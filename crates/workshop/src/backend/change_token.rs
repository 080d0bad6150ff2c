//! Change tokens: short hashes over one line for each skill.

use aws_lc_rs::digest::{Context, SHA256};

/// How many hex digits of the hash are the token.
const DIGITS: usize = 16;

/// The first hex digits of the SHA-256 over the lines, which newlines separate.
pub(super) fn token_of(lines: impl IntoIterator<Item = String>) -> String {
    let mut hash = Context::new(&SHA256);
    for (number, line) in lines.into_iter().enumerate() {
        if number > 0 {
            hash.update(b"\n");
        }
        hash.update(line.as_bytes());
    }
    let mut token = hex::encode(hash.finish());
    token.truncate(DIGITS);
    token
}
