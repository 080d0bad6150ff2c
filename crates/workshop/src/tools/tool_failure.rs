//! Failures of tools, and how each surface reports them.

use http_kit::Problem;
use serde_json::{Value, json};

use super::json_rpc::{INTERNAL_ERROR, INVALID_PARAMS, RpcError};
use super::tool_list::ToolSurface;

/// A tool that was called and did not do what was asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFailure {
    kind: FailureKind,
    message: String,
    data: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailureKind {
    /// The arguments cannot be used.
    Arguments,
    /// The arguments were understood, and the answer is no.
    Refused,
}

impl ToolFailure {
    pub fn arguments(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Arguments, message: message.into(), data: None }
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self { kind: FailureKind::Refused, message: message.into(), data: None }
    }

    /// A refusal with its class in the contract of the stores.
    pub fn classed(class: &str, message: impl Into<String>) -> Self {
        Self { data: Some(json!({ "class": class })), ..Self::refused(message) }
    }

    /// The server itself cannot do this now. The log has the reason.
    pub fn fault(fault: &dyn std::error::Error) -> Self {
        tracing::error!(%fault, "a tool failed");
        Self::refused("the server cannot do this now")
    }

    #[must_use]
    pub fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The error of the protocol. The reference runtime has one code for everything that a tool refuses.
    pub fn into_error(self, surface: ToolSurface) -> RpcError {
        let code = match (surface, self.kind) {
            (ToolSurface::Mcp, FailureKind::Arguments) => INVALID_PARAMS,
            _ => INTERNAL_ERROR,
        };
        RpcError { code, message: self.message.into(), data: self.data }
    }
}

impl From<Problem> for ToolFailure {
    fn from(problem: Problem) -> Self {
        let is_request = problem.status().as_u16() == 400;
        let data = serde_json::to_value(&problem).unwrap_or_default();
        let message = data["detail"].as_str().unwrap_or_default().to_owned();
        let kind = if is_request { FailureKind::Arguments } else { FailureKind::Refused };
        Self { kind, message, data: Some(data) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_surface_has_one_code_and_mcp_tells_wrong_arguments_apart() {
        let wrong = ToolFailure::arguments("`name` is missing");
        assert_eq!(wrong.clone().into_error(ToolSurface::Rpc).code, -32603);
        assert_eq!(wrong.into_error(ToolSurface::Mcp).code, -32602);
        let refused = ToolFailure::classed("SkillNotFoundError", "Skill not found: 'x'");
        let error = refused.into_error(ToolSurface::Mcp);
        assert_eq!((error.code, &*error.message), (-32603, "Skill not found: 'x'"));
        assert_eq!(error.data.unwrap()["class"], "SkillNotFoundError");
    }

    #[test]
    fn a_problem_keeps_its_code_and_its_detail() {
        let failure = ToolFailure::from(Problem::not_found("no_such_agent", "there is no agent `heron`"));
        let error = failure.into_error(ToolSurface::Mcp);
        assert_eq!((error.code, &*error.message), (-32603, "there is no agent `heron`"));
        assert_eq!(error.data.unwrap()["code"], "no_such_agent");
    }
}
