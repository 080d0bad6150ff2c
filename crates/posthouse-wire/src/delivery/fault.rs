//! Why a delivery failed, by the contract's own five names.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An operational fault. A substrate that merely cannot do a thing degrades instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct DeliveryFailed {
    pub agent_id: String,
    pub cause_kind: Cause,
    pub http_status: Option<u16>,
    pub message: String,
    /// How long the other side asks to be left alone. Not part of the contract's shape.
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
    /// Unknown agent or bad configuration; raised before anything is sent.
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

    /// With what the other side asked for.
    #[must_use]
    pub fn after(self, retry_after: Option<Duration>) -> Self {
        Self { retry_after, ..self }
    }

    /// Nothing was sent, since nothing could be right about it.
    pub fn client_validation(agent_id: impl Into<String>, message: impl Into<String>) -> Self {
        Self::new(agent_id, Cause::ClientValidation, message)
    }

    pub fn http_status(agent_id: impl Into<String>, status: u16, message: impl Into<String>) -> Self {
        Self { http_status: Some(status), ..Self::new(agent_id, Cause::HttpStatus, message) }
    }

    /// Whether the same bytes might fare better a little later.
    pub fn may_pass(&self) -> bool {
        match self.cause_kind {
            Cause::Network | Cause::Timeout => true,
            Cause::HttpStatus => self.http_status.is_some_and(|status| status == 429 || status >= 500),
            Cause::MalformedResponse | Cause::ClientValidation => false,
        }
    }
}
