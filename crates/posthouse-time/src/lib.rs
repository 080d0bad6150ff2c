//! The current time and timers.
//!
//! Only this crate reads the system clocks. All other code holds a [`Timepiece`]: the system's in a running
//! server, or one driven by hand in tests. Decisions take the time as an argument: a [`Moment`] of the wall
//! clock for times that are stored or named by people, an [`Instant`] of the monotonic clock for every
//! duration in memory.

#[cfg(target_os = "linux")]
mod alarm;
mod instant;
mod moment;
mod span;
mod timepiece;

pub use instant::Instant;
pub use moment::Moment;
pub use span::Span;
pub use timepiece::{TimedOut, Timepiece};
