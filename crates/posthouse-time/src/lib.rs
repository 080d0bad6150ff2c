//! What time it is, and when to wake.
//!
//! The system clock is asked in this crate only. Everything else holds a [`Timepiece`]: the wall's
//! in a running house, one wound by hand in tests. Decisions take a [`Moment`] as an argument.

#[cfg(target_os = "linux")]
mod alarm;
mod moment;
mod span;
mod timepiece;

pub use moment::Moment;
pub use span::Span;
pub use timepiece::{Late, Timepiece};
