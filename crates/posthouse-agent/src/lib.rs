//! SDK for agents written in Rust: connects an agent to a Posthouse server.
//!
//! An agent opens a connection to the server, authenticates, and then receives the messages that are meant
//! for it. It holds no platform credential and checks no platform's signature, because the server delivers
//! only verified messages.
//!
//! - [`Agent`] is the API for authors: an `on_message` function, and a [`Conversation`] to answer in.
//! - [`RelayTransport`] is the contract below it. [`WebSocketTransport`] keeps a real connection to a
//!   server. [`MemoryConnector`] plays the server in an author's tests.
//!
//! Guarantees, whatever happens to the connection:
//!
//! - An inbound entry is acknowledged only after the handler has accepted it. It is handled once, however
//!   often the server delivers it.
//! - A request keeps its id across reconnects, so that the server can tell a repeat from a second request.
//! - The transport reconnects until the agent disconnects or the server has revoked its credential.
//!
//! ```no_run
//! use posthouse_agent::{Agent, Settings, WebSocketTransport, termination};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let transport = WebSocketTransport::new(Settings::from_env()?)?;
//! Agent::builder(transport)
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
//! Programs also send messages to an agent; [`Message::posted`] is set on these. A program that asked a
//! question waits for one call of [`Conversation::answer`]. Everything else that the agent sends to it is
//! not the answer. For people, and for programs that did not ask, the same call is a
//! [`Conversation::reply`]. `post::Client` is the other side: the client for programs written in Rust.
//!
//! ```no_run
//! # use posthouse_agent::{Agent, MemoryConnector};
//! # let transport = MemoryConnector::new([]);
//! let agent = Agent::builder(transport).on_message(|message, conversation| async move {
//!     if message.posted().is_some_and(|posted| posted.expects_reply) {
//!         conversation.say("let me look").await?;
//!         conversation.answer("42").await?;
//!     }
//!     Ok(())
//! });
//! ```
//!
//! Features, none of which is on by default:
//!
//! | feature | adds |
//! | --- | --- |
//! | `cron` | `cron` and `jobs`: cron jobs with time zones, and their storage; includes `verify` |
//! | `verify` | `verify`: checks the proof of a fire that arrives by HTTP |
//! | `post` | `post`: the client for programs |
//! | `media` | `media`: uploads files to send, and downloads the files of messages |
//! | `sqlite` | storage of jobs in a SQLite file; includes `cron` |
//! | `axum` | the route for fires, for axum; includes `cron` |

mod adapter;
#[cfg(feature = "cron")]
pub mod cron;
#[cfg(feature = "http-client")]
mod https;
#[cfg(feature = "cron")]
pub mod jobs;
#[cfg(feature = "media")]
pub mod media;
mod memory;
#[cfg(feature = "post")]
pub mod post;
pub mod sample;
mod settings;
#[cfg(any(feature = "cron", feature = "post"))]
mod token;
mod transport;
#[cfg(feature = "verify")]
pub mod verify;

pub use adapter::{
    Agent, AgentBuilder, Conversation, Failed, Message, OutgoingMedia, SentMessages, Streaming, TurnResult,
    chunks, termination,
};
pub use memory::{MemoryConnector, RequestedAction};
pub use settings::{BotIdentity, Settings};
pub use transport::{
    ConnectionState, DeliveryDeclined, Descriptors, Fault, Inbound, InboundHandler, RelayTransport, Tag,
    WebSocketTransport,
};

/// The contracts as data. Re-exported because its types occur in this crate's signatures.
pub use posthouse_wire as wire;
