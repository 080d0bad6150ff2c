//! The house as a whole: its borders, its command line, its doors.

// Actors unwrap too: a broken promise is a failed test wherever it shows.
#![allow(clippy::unwrap_used)]

mod arrows;
mod bad_input;
mod bad_input_post;
mod canaries;
mod canaries_post;
mod closing;
mod crash;
mod cron;
mod cron_doors;
mod doors;
mod fire_tokens;
mod house;
mod matrix;
mod post_cli;
mod post_reading;
mod receiver;
mod story;
mod talk;
mod tokens;
mod tokens_doors;
