//! Toolbox: the tools for skills and data, over the same components as the HTTP API under `/v1`.

use async_trait::async_trait;
use http_kit::Problem;
use post::{Caller, Post, ProgramCall};
use serde_json::{Map, Value};

use super::tool_calls::ToolRunner;
use super::tool_failure::ToolFailure;
use super::tool_list::ToolSurface;
use super::{capabilities, check_tools, data_tools, help, run_tools, skill_tools, trigger_tools};
use crate::data_stores::{DataBridge, DataStores};
use crate::large_answers::AnswerTurn;
use crate::running::SkillRunner;
use crate::workshop::Workshop;

/// All tools.
pub struct Toolbox {
    pub workshop: Workshop,
    pub data: DataStores,
    pub post: Post,
    pub runner: SkillRunner,
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
        let (skills, runner) = (self.workshop.skills(), &self.runner);
        let result = match (tool, surface) {
            ("skill_list", _) => {
                return skill_tools::list(self.workshop.catalogue(), by, &arguments, surface).await;
            }
            ("skill_read", _) => skill_tools::read(skills, by, &arguments, surface).await?,
            ("skill_write", _) => skill_tools::write(skills, by, &arguments, surface).await?,
            ("skill_status", _) => skill_tools::set_status(skills, by, &arguments, surface).await?,
            ("data_read", _) => {
                let data = self.data(by).await?;
                let found = match surface {
                    ToolSurface::Rpc => data_tools::look_up(&data, &arguments).await?,
                    ToolSurface::Mcp => data_tools::read(&data, arguments).await?,
                };
                let length = found.length();
                return Ok(self.data.written(&by.tenant, found, length).await?);
            }
            ("data_write", ToolSurface::Mcp) => {
                data_tools::write(&self.data(by).await?, by, arguments).await?
            }
            ("runtime_capabilities", ToolSurface::Rpc) => capabilities::show(self, by, &arguments).await?,
            ("help", _) => help::help(arguments.get("topic").and_then(Value::as_str)),
            ("agent_list", ToolSurface::Mcp) => self.agents(by, ProgramCall::ListAgents, arguments).await?,
            ("notify", ToolSurface::Mcp) => self.agents(by, ProgramCall::Notify, arguments).await?,
            ("wake", ToolSurface::Mcp) => self.agents(by, ProgramCall::Wake, arguments).await?,
            ("ask", ToolSurface::Mcp) => self.agents(by, ProgramCall::Ask, arguments).await?,
            ("execute_skill", _) => run_tools::execute(runner, by, &arguments, surface).await?,
            (
                "lint_skill"
                | "compile_skill"
                | "skill_preflight"
                | "health_metrics"
                | "blocked_shell_attempts",
                _,
            ) => check_tools::in_turn(runner, by, tool, arguments).await?,
            ("list_triggers", _) => trigger_tools::list(runner, by, &arguments).await?,
            ("register_trigger", _) => trigger_tools::register(runner, by, &arguments).await?,
            ("unregister_trigger", _) => trigger_tools::unregister(runner, by, &arguments).await?,
            ("set_trigger_enabled", _) => trigger_tools::set_enabled(runner, by, &arguments).await?,
            // Only listed tools are run, and a test calls each of them.
            _ => return Err(ToolFailure::refused("not available in this build")),
        };
        Ok(result.to_string())
    }

    async fn answer_turn(&self, by: &Caller, tool: &str) -> Result<Option<AnswerTurn>, Problem> {
        match tool {
            "skill_list" | "data_read" => self.workshop.answer_turn(&by.tenant).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn skills_token(&self, by: &Caller) -> Option<String> {
        match self.workshop.catalogue().version(by).await {
            Ok(Ok(version)) => version,
            Ok(Err(_)) => None,
            Err(fault) => {
                tracing::warn!(%fault, "could not read the version of the skills");
                None
            }
        }
    }
}

impl Toolbox {
    async fn data(&self, by: &Caller) -> Result<DataBridge, ToolFailure> {
        data_tools::answered(self.data.bridge(&by.tenant).await)
    }

    async fn agents(
        &self,
        by: &Caller,
        call: ProgramCall,
        arguments: Map<String, Value>,
    ) -> Result<Value, ToolFailure> {
        Ok(self.post.call(by.clone(), call, arguments).await?)
    }
}
