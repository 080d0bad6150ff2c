//! Client for programs, and for agents that write to other agents: messages, wakes, questions.
//!
//! [`Client::notify`] sends a message, [`Client::wake`] wakes the agent, [`Client::exchange`] asks a
//! question and waits for the answer. [`Client::receipts`] and [`Client::exchanges`] report the state of
//! each. An agent is addressed by its name, whether it is connected or not.
//!
//! [`Client::skills`] and [`Client::data`], with the methods beside them, read and write the skills and the data of the
//! tenant.
//!
//! Each request has its own id from the start. So every call can be repeated, and a repeat never delivers
//! or asks twice. The client itself repeats a call while the server does not answer: for its
//! [`patience`](Client::patience), and a question until its deadline, also across a restart of the server.
//! A refusal is returned at once as [`Fault::Refused`].
//!
//! ```no_run
//! use posthouse_agent::post::{ApiCredential, Ask, Client, Notify};
//! use posthouse_agent::wire::Secret;
//!
//! # async fn run(secret: Secret) -> Result<(), Box<dyn std::error::Error>> {
//! let credential = ApiCredential::Client { id: "tenant:acme".into(), secret };
//! let client = Client::new("https://posthouse.example", credential);
//! client.notify(&Notify::new("heron", "the deploy is through")).await?;
//! let answer = client.exchange(&Ask::new("heron", "how many are open?")).await?;
//! println!("{}", answer.response.content);
//! # Ok(())
//! # }
//! ```

mod call;
mod client;
mod data;
mod exchange;
mod fault;
mod requests;
mod responses;
mod runs;
mod skills;

pub use client::Client;
pub use data::{DataQuery, DataReceipt, NewData, StoredData};
pub use exchange::QuestionProgress;
pub use fault::Fault;
pub use posthouse_wire::delivery::{ReceiptState, ReplyKind};
pub use requests::{Ask, Notify, ReceiptQuery, Wake};
pub use responses::{
    AddressableAgent, AgentAnswer, AgentReply, ConnectorReceipt, ConnectorReport, DeliverResponse,
    DispatchReceipt, DispatchRoute, ListPage, NotifyResponse, QuestionRecord, QuestionState, WakeResponse,
};
pub use runs::{RunQuery, SkillExecution};
pub use skills::{ListedSkill, NewSkill, SkillDocument, SkillHistoryEntry, SkillQuery};

pub use crate::token::{ApiCredential, FetchedToken, NoToken, TokenSource};
