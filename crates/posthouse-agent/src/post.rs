//! Writing to agents: a client of the house for programs, and for agents that write to their neighbours.
//!
//! [`Client::notify`] tells, [`Client::wake`] gets attention, [`Client::exchange`] asks and waits for the
//! answer; [`Client::receipts`] and [`Client::exchanges`] say what became of it. An agent is reached by its name, whether it is
//! awake or not.
//!
//! What holds whatever happens to the house or to the line: a wish carries its own id from the moment it
//! is made, so that every call may be repeated and nothing is told or asked twice by it. The client does
//! repeat it while nobody answers, for as long as its [`patience`](Client::patience), and a question until
//! its deadline, also over a restart of the house. A refusal is a [`Fault::Refused`] at once.
//!
//! ```no_run
//! use posthouse_agent::post::{Ask, Client, Credential, Notify};
//! use posthouse_agent::wire::Secret;
//!
//! # async fn run(secret: Secret) -> Result<(), Box<dyn std::error::Error>> {
//! let credential = Credential::Client { id: "tenant:acme".into(), secret };
//! let house = Client::new("https://posthouse.example", credential);
//! house.notify(&Notify::new("heron", "the deploy is through")).await?;
//! let answer = house.exchange(&Ask::new("heron", "how many are open?")).await?;
//! println!("{}", answer.response.content);
//! # Ok(())
//! # }
//! ```

mod call;
mod client;
mod exchange;
mod fault;
mod told;
mod wish;

pub use client::Client;
pub use fault::Fault;
pub use posthouse_wire::delivery::{ReceiptState, ReplyKind};
pub use told::{
    Answered, Asked, Delivered, Dispatched, ExchangeState, Handed, Listed, Notified, Page, Receipt, Reply,
    Route, Woken,
};
pub use wish::{Ask, Listing, Notify, Wake};

pub use crate::token::Credential;
