//! `tools/list` and `tools/call`, as both surfaces serve them.

use std::sync::Arc;

use async_trait::async_trait;
use http_kit::{Problem, ShuttingDown, completed};
use post::Caller;
use serde_json::{Map, Value, json};
use tokio_util::task::TaskTracker;

use super::json_rpc::{INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, RpcRequest};
use super::tool_failure::ToolFailure;
use super::tool_list::{ToolList, ToolSurface};
use crate::large_answers::AnswerTurn;

/// Largest result at `/mcp`, in bytes: the official Python client takes events of less than 1 MiB.
pub const LARGEST_RESULT: usize = 1024 * 1024 - 4096;

/// The tools themselves. Tests of the protocols have tools of their own.
#[async_trait]
pub trait ToolRunner: Send + Sync {
    /// Runs a tool that is in the list of this surface. The result is a JSON text.
    async fn run(
        &self,
        surface: ToolSurface,
        caller: &Caller,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, ToolFailure>;

    /// Waits for the caller's turn if the answer of this tool can be large.
    async fn answer_turn(&self, _caller: &Caller, _tool: &str) -> Result<Option<AnswerTurn>, Problem> {
        Ok(None)
    }

    /// A token that changes with the skills that the caller can see. None if it is not known now.
    async fn skills_token(&self, caller: &Caller) -> Option<String>;
}

/// Calls of tools at one surface.
#[derive(Clone)]
pub struct ToolCalls {
    surface: ToolSurface,
    list: Arc<ToolList>,
    runner: Arc<dyn ToolRunner>,
    /// Shutdown waits for these.
    tasks: TaskTracker,
}

impl ToolCalls {
    pub fn new(
        surface: ToolSurface,
        list: ToolList,
        runner: Arc<dyn ToolRunner>,
        tasks: TaskTracker,
    ) -> Self {
        Self { surface, list: Arc::new(list), runner, tasks }
    }

    pub fn runner(&self) -> &Arc<dyn ToolRunner> {
        &self.runner
    }

    /// The result of `tools/list`.
    pub fn listed(&self) -> Value {
        json!({ "tools": self.list.to_value() })
    }

    /// Waits until the answer of a request may be built. The turn is held until the response exists.
    pub async fn answer_turn(
        &self,
        caller: &Caller,
        request: &RpcRequest,
    ) -> Result<Option<AnswerTurn>, Problem> {
        match request.params.get("name").and_then(Value::as_str) {
            Some(tool) if request.method == "tools/call" => self.runner.answer_turn(caller, tool).await,
            _ => Ok(None),
        }
    }

    /// Serves a `tools/call`. The tool runs to its end even if the client disconnects, unless it has a turn: such a tool
    /// only reads, and its answer is of no use then.
    pub async fn call(
        &self,
        caller: &Caller,
        mut request: RpcRequest,
        turn: Option<&AnswerTurn>,
    ) -> Result<Value, RpcError> {
        let Some((tool, arguments)) = request.take_tool_call() else {
            let message = "Invalid params: tools/call requires { name, arguments? }";
            return Err(RpcError::new(INVALID_PARAMS, message));
        };
        if !self.list.contains(&tool) {
            return Err(match self.surface {
                ToolSurface::Rpc => RpcError::new(METHOD_NOT_FOUND, format!("Tool '{tool}' not found")),
                ToolSurface::Mcp => RpcError::new(INVALID_PARAMS, format!("Unknown tool: {tool}")),
            });
        }
        let (runner, surface, caller) = (Arc::clone(&self.runner), self.surface, caller.clone());
        let running = async move { runner.run(surface, &caller, &tool, arguments).await };
        let ended = match turn {
            Some(_) => Ok(running.await),
            None => completed(self.tasks.spawn(running)).await,
        };
        let outcome = match ended {
            Ok(outcome) => outcome.map_err(|failure| failure.into_error(surface))?,
            Err(ShuttingDown) => {
                return Err(RpcError::new(INTERNAL_ERROR, "the server is shutting down"));
            }
        };
        let (is_long, is_too_long) = (outcome.len() > LARGEST_RESULT / 4, outcome.len() > LARGEST_RESULT);
        let mut result = json!({ "content": [{ "type": "text" }] });
        // The macro would copy the text.
        result["content"][0]["text"] = Value::String(outcome);
        match self.surface {
            // A text inside a JSON text can become larger, but a small one never that large.
            ToolSurface::Mcp if is_too_long || is_long && result.to_string().len() > LARGEST_RESULT => {
                Err(RpcError::new(
                    INTERNAL_ERROR,
                    "the result is larger than 1 MiB: ask for less with `limit`, or use the HTTP API under /v1",
                )
                .with(json!({ "code": "result_too_large" })))
            }
            _ => Ok(result),
        }
    }
}
