//! Tests of authentication, accounts, caches and the gate, through the components that every HTTP API uses.

#![allow(clippy::unwrap_used, reason = "in a test, trouble is a failure")]

mod caches;
mod enrolment;
mod fixtures;
mod gate;
mod issuer;
mod issuers;
mod links_per_bot;
mod oauth;
mod program;
mod provisioning;
mod quotas;
mod shared_gate;
