//! Behaviour of the edge, tested through its public interface.

// Actors unwrap too: an unexpected result fails the test wherever it occurs.
#![allow(clippy::unwrap_used)]

mod access;
mod announced_limits;
mod dead_bots;
mod discord;
mod feishu;
mod forbidden_text;
mod matrix;
mod passthrough;
mod route_removal;
mod slack;
mod stop_rules;
mod strangers;
mod telegram;
mod twilio;
mod vector_checks;
mod web;
mod webhook;
mod wecom;
mod whatsapp;
