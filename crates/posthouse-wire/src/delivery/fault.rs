//! Errors of deliveries, with the five causes of the contract.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A delivery failed for an operational reason. A receiver that only lacks a feature degrades instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct DeliveryFailed {
    pub agent_id: String,
    pub cause_kind: Cause,
    pub http_status: Option<u16>,
    pub message: String,
    /// Pause that the receiver asked for. Not part of the contract.
    #[serde(skip)]
    pub retry_after: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Network,
    Timeout,
    HttpStatus,
    MalformedResponse,
    /// Unknown agent or bad configuration. Nothing was sent.
    ClientValidation,
}

impl Cause {
    pub fn word(self) -> &'static str {
        match self {
            Cause::Network => "network",
            Cause::Timeout => "timeout",
            Cause::HttpStatus => "http_status",
            Cause::MalformedResponse => "malformed_response",
            Cause::ClientValidation => "client_validation",
        }
    }
}

impl DeliveryFailed {
    pub fn new(agent_id: impl Into<String>, cause_kind: Cause, message: impl Into<String>) -> Self {
        Self {
            agent_id: agent_id.into(),
            cause_kind,
            http_status: None,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Adds the pause that the receiver asked for.
    #[must_use]
    pub fn after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    /// The request was invalid, so nothing was sent.
    pub fn client_validation(agent_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(agent_id, Cause::ClientValidation, message)
    }

    pub fn http_status(agent_id: impl Into<String>, status: u16, message: impl Into<String>) -> Self {
        Self { http_status: Some(status), ..Self::new(agent_id, Cause::HttpStatus, message) }
    }

    /// Whether a retry of the same bytes may succeed.
    pub fn may_pass(&self) -> bool {
        match self.cause_kind {
            Cause::Network | Cause::Timeout => true,
            Cause::HttpStatus => self.http_status.is_some_and(|status| status == 429 || status >= 500),
            Cause::MalformedResponse | Cause::ClientValidation => false,
        }
    }
}
