//! The Matrix platform, tested with the vectors and with the stand-in.

mod actors;
mod files;
mod lookups;
mod rooms;
mod sending;
mod syncing;
mod vectors;
