//! The Telegram platform, tested with the vectors and with the stand-in.

mod actors;
pub mod house;
mod intake;
mod polling;
mod sending;
mod settling;
mod vectors;
