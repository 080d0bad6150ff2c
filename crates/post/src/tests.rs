//! Fixtures of the unit tests.

pub(crate) mod fixtures;
