//! The admin API as its operator meets it.

mod agents;
mod bots;
mod door;
mod house;
mod inbox;
mod pigeon;
mod routing;
