//! Behaviour of the edge, tested through its public interface.

// Actors unwrap too: an unexpected result fails the test wherever it occurs.
#![allow(clippy::unwrap_used)]

mod access;
mod discord;
mod matrix;
mod passthrough;
mod route_removal;
mod slack;
mod telegram;
mod twilio;
mod vector_checks;
mod web;
mod webhook;
mod whatsapp;
