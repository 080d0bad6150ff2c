//! The Discord platform, tested with the vectors and with the stand-in.

pub mod actors;
mod early_files;
mod gateway;
mod guests;
mod interactions;
mod restarts;
mod sending;
mod streaming;
mod threads;
mod vectors;
mod waiting_events;
