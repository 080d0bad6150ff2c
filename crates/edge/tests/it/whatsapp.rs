//! The WhatsApp platform, tested with the vectors and with the stand-in.

mod actors;
mod people;
mod reading;
mod sending;
mod vectors;
