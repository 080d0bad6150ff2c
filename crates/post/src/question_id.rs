//! Correlation ids of questions as callers give them, as they are stored, and as they are shown.
//!
//! An agent must not learn which ids others use. If another caller uses an id, the agent's own question is stored as
//! `ID#inst_…`.

use ledger::Exchange;
use posthouse_wire::delivery::is_dispatch_id;
use posthouse_wire::{CorrelationId, InstanceId};

use crate::Caller;

/// Separates a caller's id from the id of its agent. Callers cannot use this character.
const OWN: char = '#';

/// The stored id of an agent's question, if another caller uses the same id.
pub(crate) fn of_agent(said: &CorrelationId, agent: &InstanceId) -> CorrelationId {
    format!("{said}{OWN}{agent}").into()
}

/// The id to show: to an agent as it gave it, to a program of the tenant as stored, because it sees the questions of
/// all agents.
pub(crate) fn shown(by: &Caller, recorded: &CorrelationId) -> CorrelationId {
    match recorded.as_str().split_once(OWN) {
        Some((said, _)) if by.agent.is_some() => said.into(),
        _ => recorded.clone(),
    }
}

/// Whether this can be a stored id of a question: a caller's id, optionally followed by `#` and an agent's id.
pub(crate) fn is_recorded_id(text: &str) -> bool {
    is_dispatch_id(text.split_once(OWN).map_or(text, |(said, _)| said))
}

/// Whether this caller may attach to a question: the caller that asked, and programs of its tenant.
pub(crate) fn may_attach(by: &Caller, exchange: &Exchange) -> bool {
    exchange.caller == by.client || by.agent.is_none()
}
