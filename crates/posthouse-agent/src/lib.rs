//! The agent's side of the house, for agents written in Rust.
//!
//! An agent dials out, says who it is, and from then on is brought what people said to it. It holds no
//! platform credential and checks no platform's signature: what the house delivers is already verified.
//!
//! - [`Agent`] is for authors: an `on_message` function, and a [`Conversation`] to answer in.
//! - [`RelayTransport`] is the contract underneath; [`WebSocketTransport`] keeps a real line to a house,
//!   [`MemoryConnector`] plays the house in an author's tests.
//!
//! What holds whatever happens to the line: an inbound entry is acknowledged only once the handler took
//! it, and handled once however often it is brought; a request keeps its id over a redial, so the house
//! can tell a repeat from a second wish; nothing but the house's own word ends the line for good.
//!
//! ```no_run
//! use posthouse_agent::{Agent, Settings, WebSocketTransport, termination};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let line = WebSocketTransport::new(Settings::from_env()?)?;
//! Agent::builder(line)
//!     .on_message(|message, conversation| async move {
//!         conversation.answer(&format!("You said: {}", message.text())).await?;
//!         Ok(())
//!     })
//!     .run(termination())
//!     .await?;
//! # Ok(())
//! # }
//! ```
//!
//! Programs reach an agent as well, and [`Message::posted`] tells when one did. A program that asked a
//! question waits for one call, [`Conversation::answer`]; everything else said to it is talk. To people, and
//! to programs that did not ask, the same call is [`Conversation::reply`]. The other end of that wait, for
//! programs written in Rust, is [`post::Client`].
//!
//! ```no_run
//! # use posthouse_agent::{Agent, MemoryConnector};
//! # let line = MemoryConnector::new([]);
//! let agent = Agent::builder(line).on_message(|message, conversation| async move {
//!     if message.posted().is_some_and(|posted| posted.expects_reply) {
//!         conversation.say("let me look").await?;
//!         conversation.answer("42").await?;
//!     }
//!     Ok(())
//! });
//! ```

mod adapter;
pub mod cron;
mod https;
pub mod jobs;
mod memory;
pub mod post;
pub mod sample;
mod settings;
mod token;
mod transport;
pub mod verify;

pub use adapter::{
    Agent, AgentBuilder, Conversation, Failed, Message, Sent, Streaming, Turn, chunks, termination,
};
pub use memory::{Carried, MemoryConnector};
pub use settings::{Identity, Settings};
pub use transport::{
    Declined, Descriptors, Fault, Inbound, InboundHandler, RelayTransport, Standing, Tag, WebSocketTransport,
};

/// The contracts as data, for the types that stand in this crate's signatures.
pub use posthouse_wire as wire;
