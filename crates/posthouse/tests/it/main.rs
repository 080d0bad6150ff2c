//! The house as a whole: its borders, its command line, its doors.

mod arrows;
mod bad_input;
mod canaries;
mod crash;
mod doors;
mod house;
mod story;
mod talk;
