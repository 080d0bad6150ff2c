//! What the vault promises, with a ledger in memory or in a folder under it.

#![allow(clippy::unwrap_used)]

mod canary;
mod capability;
mod keyring;
mod safe;
mod signer;
mod stamps;
mod tokens;
mod unlock;
