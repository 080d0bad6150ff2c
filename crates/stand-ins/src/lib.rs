//! The chat platforms, played on loopback.
//!
//! A stand-in checks what the platform would check (tokens, lengths, dialects, rate limits), keeps what
//! was said, and misbehaves on demand: it repeats, reorders, hangs up, answers late or not at all. It is
//! the judge of `edge`, so it shares no line with it and depends on none of the house's crates.
//!
//! Invariants:
//! - The transcript holds what took effect on the platform, in order, and nothing else; what was turned
//!   away is kept apart.
//! - No bot token appears in anything a stand-in reports.
//! - Memory is bounded: the oldest rows make room for new ones.
//! - It listens on loopback and delivers webhooks to loopback only.

pub mod telegram;
