//! The Telegram platform, tested with the vectors and with the stand-in.

mod actors;
mod intake;
mod media;
mod polling;
mod registration;
mod sending;
pub mod test_server;
mod vectors;
