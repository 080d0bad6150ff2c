//! The house as a whole: its borders, its command line, its doors.

// Actors unwrap too: a broken promise is a failed test wherever it shows.
#![allow(clippy::unwrap_used)]

mod arrows;
mod bad_input;
mod canaries;
mod closing;
mod crash;
mod cron;
mod cron_doors;
mod doors;
mod fire_tokens;
mod house;
mod post_cli;
mod story;
mod talk;
mod tokens;
mod tokens_doors;
