//! Tools for agents and programs, over JSON-RPC: `/rpc` as the reference runtime serves it, and `/mcp` for MCP clients.
//!
//! Both surfaces call the same components as the HTTP API under `/v1`. Where a name means something different at the two
//! surfaces, `/rpc` follows the reference runtime, and `/mcp` the stricter rule.

mod capabilities;
mod check_tools;
mod data_tools;
mod help;
mod json_rpc;
mod mcp;
mod routes;
mod rpc;
mod run_tools;
mod skill_flow;
mod skill_tools;
mod tool_calls;
mod tool_failure;
mod tool_list;
mod toolbox;
mod trigger_tools;

pub(crate) use rpc::json_response;

pub use json_rpc::{RpcError, RpcMessage, RpcRequest, UnreadMessage, response as rpc_response};
pub use routes::{TOOL_OPENAPI, TOOL_OPERATIONS, ToolParts, tool_routes};
pub use tool_calls::ToolRunner;
pub use tool_failure::ToolFailure;
pub use tool_list::{ToolList, ToolSurface};
pub use toolbox::Toolbox;
