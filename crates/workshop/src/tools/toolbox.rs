//! The tools themselves, over the same components as the HTTP API under `/v1`.

use async_trait::async_trait;
use post::{Caller, Post, ProgramCall};
use serde_json::{Map, Value};

use super::tool_calls::ToolRunner;
use super::tool_failure::ToolFailure;
use super::tool_list::ToolSurface;
use super::{capabilities, data_tools, help, skill_tools};
use crate::catalogue::{CatalogueAnswer, CatalogueQuery};
use crate::data_stores::DataStores;
use crate::workshop::Workshop;

/// All tools.
pub struct Toolbox {
    pub workshop: Workshop,
    pub data: DataStores,
    pub post: Post,
}

#[async_trait]
impl ToolRunner for Toolbox {
    async fn run(
        &self,
        surface: ToolSurface,
        by: &Caller,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, ToolFailure> {
        let skills = self.workshop.skills();
        let data = self.data.bridge(&by.tenant);
        let result = match (tool, surface) {
            ("skill_list", _) => {
                return skill_tools::list(self.workshop.catalogue(), by, &arguments, surface).await;
            }
            ("skill_read", _) => skill_tools::read(skills, by, &arguments, surface).await?,
            ("skill_write", _) => skill_tools::write(skills, by, &arguments, surface).await?,
            ("skill_status", _) => skill_tools::set_status(skills, by, &arguments, surface).await?,
            ("data_read", ToolSurface::Rpc) => data_tools::look_up(&data, &arguments).await?,
            ("data_read", ToolSurface::Mcp) => data_tools::read(&data, arguments).await?,
            ("data_write", ToolSurface::Mcp) => data_tools::write(&data, by, arguments).await?,
            ("runtime_capabilities", ToolSurface::Rpc) => capabilities::show(self, by, &arguments).await?,
            ("help", _) => help::help(arguments.get("topic").and_then(Value::as_str)),
            ("agent_list", ToolSurface::Mcp) => self.agents(by, ProgramCall::ListAgents, arguments).await?,
            ("notify", ToolSurface::Mcp) => self.agents(by, ProgramCall::Notify, arguments).await?,
            ("wake", ToolSurface::Mcp) => self.agents(by, ProgramCall::Wake, arguments).await?,
            ("ask", ToolSurface::Mcp) => self.agents(by, ProgramCall::Ask, arguments).await?,
            // Only listed tools are run, and a test calls each of them.
            _ => return Err(ToolFailure::refused("not available in this build")),
        };
        Ok(result.to_string())
    }

    async fn skills_token(&self, by: &Caller) -> Option<String> {
        // Nobody has this version, so the answer always has one. Nothing is listed after the last possible name.
        let nothing = CatalogueQuery { limit: Some(0), ..CatalogueQuery::default() };
        match self.workshop.catalogue().list(by, &nothing).await {
            Ok(Ok(CatalogueAnswer::Listed(listing))) => listing.version,
            Ok(Ok(CatalogueAnswer::NotModified { version })) => Some(version),
            Ok(Err(_)) => None,
            Err(fault) => {
                tracing::warn!(%fault, "the version of the skills is not known");
                None
            }
        }
    }
}

impl Toolbox {
    async fn agents(
        &self,
        by: &Caller,
        call: ProgramCall,
        arguments: Map<String, Value>,
    ) -> Result<Value, ToolFailure> {
        Ok(self.post.call(by.clone(), call, arguments).await?)
    }
}
