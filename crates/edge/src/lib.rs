//! edge
