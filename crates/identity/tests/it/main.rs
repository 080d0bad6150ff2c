//! Who is calling, tested through the components that every door uses.

#![allow(clippy::unwrap_used, reason = "in a test, trouble is a failure")]

mod caches;
mod fixtures;
mod gate;
mod oauth;
mod program;
