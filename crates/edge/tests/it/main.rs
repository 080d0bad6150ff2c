//! Behaviour of the edge, tested through its public interface.

// Actors unwrap too: an unexpected result fails the test wherever it occurs.
#![allow(clippy::unwrap_used)]

mod access;
mod passthrough;
mod route_removal;
mod telegram;
mod web;
