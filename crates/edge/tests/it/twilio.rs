//! Twilio's channels, tested with the vectors and with the stand-in.

pub mod actors;
mod conversation;
mod vectors;
