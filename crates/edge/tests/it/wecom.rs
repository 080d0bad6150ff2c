//! The WeCom platforms, tested with the vectors and with the stand-in.

mod actors;
mod ai_bot;
mod app;
mod long_connection;
mod vectors;
