//! The standard host: the environment in which the recorded programs ran, as a `SkillHost`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use skill::{
    AgentDelivery, ApprovalMode, ApprovalPublicKey, ApprovalVerdict, CommandRequest, DeliveryOrigin,
    ErrorClass, ExchangeAnswer, FileEncoding, FileFault, HostFault, LoadedSkill, SecretText, SkillHost,
    SkillObject, SkillValue, ToolConnector, ToolRequest, VarRequirement, check_approval,
};

use crate::agents::AgentsPlayed;
use crate::data_shelf::DataShelf;
use crate::hand_clock::HandClock;
use crate::skill_shelf::SkillShelf;
use crate::tools::{self, PlayedCall};
use crate::{commands, files};

/// The time at which the recordings begin: 2026-01-01.
const START: i64 = 1_767_225_600_000;
/// Names under which the tools can be called without a connector.
const BARE_TOOLS: &[&str] = &["echo", "items", "text", "fail"];
const DECLARED_TOOLS: &[&str] = &["echo", "text"];

/// What differs between recorded programs.
#[derive(Default)]
pub struct StandardSettings {
    /// Tools that the operator allows on the connector `tools`.
    pub allowed_tools: Option<Vec<String>>,
    /// Whether there is no tool connector at all.
    pub has_no_connectors: bool,
    /// Whether `data_read` and `data_write` exist.
    pub has_data: bool,
    /// The only folder in which files can be read and written.
    pub file_root: Option<PathBuf>,
    pub secrets: BTreeMap<String, String>,
    /// In secured mode, the keys whose signatures count.
    pub approval_keys: Option<Vec<ApprovalPublicKey>>,
}

/// The outside world of the recorded programs.
pub struct StandardHost {
    pub settings: StandardSettings,
    pub clock: HandClock,
    pub agents: AgentsPlayed,
    pub skills: SkillShelf,
    pub data: DataShelf,
    calls: Mutex<Vec<PlayedCall>>,
    clean_ups: Mutex<Vec<(String, Duration)>>,
    ids: AtomicU64,
}

impl StandardHost {
    pub fn new(settings: StandardSettings, agents: AgentsPlayed) -> Self {
        Self {
            settings,
            clock: HandClock::default(),
            agents,
            skills: SkillShelf::default(),
            data: DataShelf::default(),
            calls: Mutex::default(),
            clean_ups: Mutex::default(),
            ids: AtomicU64::new(0),
        }
    }

    /// Calls of the tools, without those of the model and the shelves.
    pub fn tool_calls(&self) -> Vec<PlayedCall> {
        self.calls.lock().clone()
    }

    /// Connectors whose calls were cut off and had to be cleaned up, and the time that they got for it.
    pub fn clean_ups(&self) -> Vec<(String, Duration)> {
        self.clean_ups.lock().clone()
    }

    fn next_id(&self) -> String {
        format!("00000000-0000-4000-8000-{:012}", self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    #[expect(clippy::cast_precision_loss, reason = "seconds of dates are below 2^53")]
    pub fn write_data(&self, arguments: &SkillObject) -> Result<SkillValue, HostFault> {
        self.data.write_tool(self.next_id(), self.unix_millis().div_euclid(1000) as f64, arguments)
    }
}

#[async_trait]
impl SkillHost for StandardHost {
    fn unix_millis(&self) -> i64 {
        START + i64::try_from(self.clock.now().as_millis()).unwrap_or(i64::MAX)
    }

    fn elapsed(&self) -> Duration {
        self.clock.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.clock.sleep(duration).await;
    }

    fn dispatch_id(&self) -> String {
        self.next_id()
    }

    fn tool_connector(&self, name: &str) -> Option<ToolConnector> {
        let settings = &self.settings;
        let is_data = matches!(name, "data_read" | "data_write");
        if settings.has_no_connectors || (is_data && !settings.has_data) {
            return None;
        }
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        match name {
            "tools" => Some(ToolConnector {
                allowed_tools: settings.allowed_tools.clone(),
                ..ToolConnector::default()
            }),
            "fixed" => Some(ToolConnector {
                declared_tools: Some(names(DECLARED_TOOLS)),
                ..ToolConnector::default()
            }),
            // Not in the recordings: a call of this connector goes on after it is dropped.
            "outliving" => Some(ToolConnector { outlives_call: true, ..ToolConnector::default() }),
            "typed" | "llm" | "skill_read" | "skill_write" | "data_read" | "data_write" => {
                Some(ToolConnector::default())
            }
            bare => BARE_TOOLS.contains(&bare).then(ToolConnector::default),
        }
    }

    async fn call_tool(&self, request: ToolRequest) -> Result<SkillValue, HostFault> {
        let arguments = request.arguments;
        match &*request.connector {
            "llm" => return tools::model_answer(&arguments),
            "skill_read" => return self.skills.read_tool(&arguments),
            "skill_write" => return self.skills.write_tool(&arguments),
            "data_read" => return self.data.read_tool(&arguments),
            "data_write" => return self.write_data(&arguments),
            _ => {}
        }
        self.calls.lock().push(PlayedCall {
            connector: request.connector.to_string(),
            tool: request.tool.to_string(),
            arguments: arguments.clone().into(),
            owner: request.owner.map(|owner| owner.to_string()),
        });
        tools::answer(&self.clock, &request.tool, arguments).await
    }

    async fn clean_up_tool(&self, connector: &str, within: Duration) {
        self.clean_ups.lock().push((connector.to_owned(), within));
    }

    async fn run_command(&self, command: CommandRequest) -> Result<String, HostFault> {
        commands::run(&self.clock, &command).await
    }

    async fn read_file(&self, path: &str, encoding: FileEncoding) -> Result<String, FileFault> {
        files::read(self.settings.file_root.as_deref(), path, encoding)
    }

    async fn write_file(&self, path: &str, content: &str) -> Result<(), FileFault> {
        files::write(self.settings.file_root.as_deref(), path, content)
    }

    fn agent_connectors(&self) -> Vec<Arc<str>> {
        self.agents.names()
    }

    async fn list_agents(&self, connector: &str) -> Result<Vec<String>, HostFault> {
        self.agents.list(connector)
    }

    async fn deliver(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
    ) -> Result<SkillObject, HostFault> {
        self.agents.deliver(connector, agent, message)
    }

    async fn wake(
        &self,
        connector: &str,
        agent: &str,
        context: Option<&str>,
        _origin: &DeliveryOrigin,
    ) -> Result<SkillObject, HostFault> {
        self.agents.wake(connector, agent, context)
    }

    fn can_exchange(&self, connector: &str) -> bool {
        self.agents.can_exchange(connector)
    }

    async fn exchange(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
        _timeout: Duration,
    ) -> Result<ExchangeAnswer, HostFault> {
        match self.agents.exchange(connector, agent, message)? {
            Some(content) => {
                Ok(ExchangeAnswer { content, sent_at: self.unix_millis(), agent_id: agent.to_owned() })
            }
            None => std::future::pending().await,
        }
    }

    async fn load_skill(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault> {
        Ok(self.skills.get(name))
    }

    fn check_approval(&self, source: &str) -> ApprovalVerdict {
        let mode = self.settings.approval_keys.as_deref().map_or(ApprovalMode::Open, ApprovalMode::Signed);
        check_approval(source, mode)
    }

    async fn required_variable(&self, _requirement: &VarRequirement) -> Option<String> {
        None
    }

    async fn secret(&self, name: &str) -> Result<SecretText, HostFault> {
        match self.settings.secrets.get(name).filter(|value| !value.is_empty()) {
            Some(value) => Ok(SecretText::new(value.clone())),
            None => {
                let message = format!("the secret '{name}' has no value");
                Err(HostFault::new(ErrorClass::SecretNotProvisioned, message))
            }
        }
    }
}
