//! The WhatsApp platform, tested with the vectors and with the stand-in.

pub mod actors;
mod people;
mod reading;
mod sending;
mod vectors;
