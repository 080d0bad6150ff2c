//! The Feishu platform, tested with the vectors and with the stand-in.

pub mod actors;
mod messages;
mod sending;
mod vectors;
