//! Calls whose arguments are a JSON object, as in the bodies of `/v1`. Tools use them.

use std::time::Duration;

use http_kit::{Fields, Problem};
use serde_json::{Map, Value};

use super::{PostApi, exchange};
use crate::{Caller, Post};

/// How long a tool waits for an answer if the caller does not say. Some clients give up after 30 s.
const DEFAULT_WAIT: Duration = Duration::from_secs(25);

/// What a program can do with agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramCall {
    ListAgents,
    Notify,
    Wake,
    Ask,
}

impl Post {
    /// Makes a call for this caller. The arguments are checked as those of `/v1` are.
    pub async fn call(
        &self,
        by: Caller,
        call: ProgramCall,
        arguments: Map<String, Value>,
    ) -> Result<Value, Problem> {
        let (door, fields) = (PostApi::new(self), Fields::of(arguments));
        match call {
            ProgramCall::ListAgents => door.agents(&by, fields).await,
            ProgramCall::Notify => door.notify(by, None, fields).await,
            ProgramCall::Wake => door.wake(by, None, fields).await,
            ProgramCall::Ask => Ok(exchange::rendered(door.ask(by, fields, Some(DEFAULT_WAIT)).await?)),
        }
    }
}
