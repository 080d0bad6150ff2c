//! The Telegram platform against the recorded truths and against the stand-in.

mod actors;
mod house;
mod intake;
mod polling;
mod sending;
mod settling;
mod vectors;
