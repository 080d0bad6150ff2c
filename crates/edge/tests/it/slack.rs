//! The Slack platform, tested with the vectors and with the stand-in.

pub mod actors;
mod files;
mod health;
mod interactions;
mod messages;
mod sending;
mod socket_mode;
mod streaming;
mod vectors;
