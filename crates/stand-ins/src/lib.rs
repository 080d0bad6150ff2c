//! Stand-ins: chat platforms played on loopback.
//!
//! A stand-in checks what the platform would check (tokens, lengths, dialects, rate limits), records what
//! was said, and misbehaves on demand: it repeats, reorders, closes connections, answers late or not at
//! all. Tests judge `edge` with it, so it shares no code with `edge` and depends on no other crate of this
//! project.
//!
//! Invariants:
//! - The transcript holds what took effect on the platform, in order, and nothing else. Refused calls are
//!   recorded separately.
//! - No bot token appears in anything a stand-in reports.
//! - Memory is bounded: the oldest rows make room for new ones.
//! - It listens on loopback and delivers webhooks to loopback only.

pub mod discord;
pub mod feishu;
pub mod harness;
pub mod matrix;
pub mod slack;
pub mod telegram;
pub mod twilio;
pub mod webhook;
pub mod wecom;
pub mod whatsapp;
