//! Guarantees of the vault, tested with a ledger in memory or in a folder.

#![allow(clippy::unwrap_used)]

mod canary;
mod capability;
mod keyring;
mod safe;
mod signer;
mod tokens;
mod unlock;
mod webhook_signer;
