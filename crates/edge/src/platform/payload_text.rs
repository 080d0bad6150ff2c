//! Payload text: strings borrowed from the bytes of a payload.

use std::borrow::Cow;

use serde::Deserialize;

/// A text of a payload, borrowed from its bytes unless it contains escapes.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct PayloadText<'a>(#[serde(borrow)] Cow<'a, str>);

impl std::ops::Deref for PayloadText<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}
