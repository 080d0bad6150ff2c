//! What the edge promises, checked from outside.

// Actors unwrap too: a broken promise is a failed test wherever it shows.
#![allow(clippy::unwrap_used)]

mod telegram;
mod web;
