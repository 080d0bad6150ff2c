//! The outside world of one run: time, tools, commands, files, agents, stored skills and secrets.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use ledger::SkillRuns;
use posthouse_time::Instant;
use posthouse_wire::{DispatchId, RunId, TenantId};
use skill::{
    AgentDelivery, ApprovalVerdict, CommandRequest, DeliveryOrigin, ErrorClass, ExchangeAnswer, FileEncoding,
    FileFault, HostFault, LoadedSkill, RunMemory, SecretText, SkillHost, SkillObject, SkillValue,
    ToolConnector, ToolRequest, VarRequirement,
};
use tokio::sync::OnceCell;

use super::agent_messages::AgentMessages;
use super::first_effect::FirstEffect;
use super::repeatable::READING_TOOLS;
use super::run_resources::RunResources;
use super::run_skills::RunSkills;
use crate::data_stores::DataBridge;

/// What a run can reach. Without a server it has no agents.
pub struct RunHost {
    pub(super) resources: Arc<RunResources>,
    pub(super) skills: RunSkills,
    pub(super) data: Option<DataBridge>,
    agents: Option<AgentMessages>,
    /// The budget in which answers of tools count. A check has none.
    pub(super) memory: OnceLock<Arc<dyn RunMemory>>,
    /// Only in a run that may be begun again after a crash.
    first_effect: OnceLock<FirstEffect>,
    started: Instant,
}

impl RunHost {
    pub fn new(
        resources: Arc<RunResources>,
        skills: RunSkills,
        data: Option<DataBridge>,
        agents: Option<AgentMessages>,
    ) -> Self {
        let started = resources.timepiece.instant();
        let (memory, first_effect) = Default::default();
        Self { resources, skills, data, agents, memory, first_effect, started }
    }

    pub fn skills(&self) -> &RunSkills {
        &self.skills
    }

    pub fn resources(&self) -> &Arc<RunResources> {
        &self.resources
    }

    pub fn has_agents(&self) -> bool {
        self.agents.is_some()
    }

    /// Names of the built-in tools that are there.
    pub fn bridges(&self) -> Vec<&'static str> {
        super::bridges::BRIDGES.into_iter().filter(|name| self.has_bridge(name)).collect()
    }

    /// Names the run, before it sends anything.
    pub(super) fn begins(&self, run: &RunId, records: &Arc<dyn SkillRuns>) {
        if let Some(agents) = &self.agents {
            agents.belong_to(run, records);
        }
    }

    /// Counts the answers of tools in this budget from now on.
    pub(super) fn count_answers_in(&self, memory: &Arc<dyn RunMemory>) {
        // A host serves one run.
        let _ = self.memory.set(Arc::clone(memory));
    }

    /// Notes the first effect of this run before it happens. Until then the run may be begun again after a crash.
    pub(super) fn note_first_effect_of(&self, tenant: &TenantId, run: &RunId, records: &Arc<dyn SkillRuns>) {
        let (tenant, run, records) = (tenant.clone(), run.clone(), Arc::clone(records));
        // A host serves one run.
        let _ = self.first_effect.set(FirstEffect { tenant, run, records, noted: OnceCell::new() });
    }

    /// Called before everything that changes something outside of the run.
    async fn before_effect(&self) -> Result<(), HostFault> {
        match self.first_effect.get() {
            Some(first) => first.note().await,
            None => Ok(()),
        }
    }

    /// Ids of the messages that the run sent.
    pub fn sent(&self) -> Vec<DispatchId> {
        self.agents.as_ref().map(AgentMessages::sent).unwrap_or_default()
    }

    fn agents(&self) -> Result<&AgentMessages, HostFault> {
        self.agents.as_ref().ok_or_else(|| HostFault::plain("no connector to agents is configured"))
    }
}

#[async_trait]
impl SkillHost for RunHost {
    fn unix_millis(&self) -> i64 {
        self.resources.timepiece.now().millis()
    }

    fn elapsed(&self) -> Duration {
        self.resources.timepiece.instant().since(self.started)
    }

    async fn sleep(&self, duration: Duration) {
        self.resources.timepiece.after(duration).await;
    }

    fn dispatch_id(&self) -> String {
        fresh_id(self.unix_millis())
    }

    fn tool_connector(&self, name: &str) -> Option<ToolConnector> {
        // A connector of the operator takes the place of a built-in tool with its name.
        let configured = self.resources.tools.connector(name);
        configured.or_else(|| self.has_bridge(name).then(ToolConnector::default))
    }

    async fn call_tool(&self, request: ToolRequest) -> Result<SkillValue, HostFault> {
        if self.resources.tools.connector(&request.connector).is_some() {
            self.before_effect().await?;
            return self.resources.tools.call(&request, self.memory.get().cloned()).await;
        }
        if !READING_TOOLS.contains(&&*request.connector) {
            self.before_effect().await?;
        }
        match self.call_bridge(&request).await {
            Some(result) => result,
            None => {
                let message = format!("there is no tool connector '{}'", request.connector);
                Err(HostFault::new(ErrorClass::ConnectorNotFound, message))
            }
        }
    }

    async fn clean_up_tool(&self, _connector: &str, _within: Duration) {}

    async fn run_command(&self, command: CommandRequest) -> Result<String, HostFault> {
        self.before_effect().await?;
        self.resources.commands.run(command).await
    }

    async fn read_file(&self, path: &str, encoding: FileEncoding) -> Result<String, FileFault> {
        self.resources.files.read(path, encoding).await
    }

    async fn write_file(&self, path: &str, content: &str) -> Result<(), FileFault> {
        self.before_effect().await.map_err(|fault| FileFault::Failed(fault.message))?;
        self.resources.files.write(path, content).await
    }

    fn agent_connectors(&self) -> Vec<Arc<str>> {
        self.agents.as_ref().map(AgentMessages::names).unwrap_or_default()
    }

    fn output_connector(&self) -> Option<Arc<str>> {
        self.agents.as_ref().map(AgentMessages::for_outputs)
    }

    async fn list_agents(&self, connector: &str) -> Result<Vec<String>, HostFault> {
        self.agents()?.list(connector).await
    }

    async fn reaches(&self, connector: &str, address: &str) -> bool {
        match &self.agents {
            Some(agents) => agents.reaches(connector, address).await,
            None => false,
        }
    }

    async fn deliver(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
    ) -> Result<SkillObject, HostFault> {
        self.before_effect().await?;
        self.agents()?.deliver(connector, agent, message).await
    }

    async fn wake(
        &self,
        connector: &str,
        agent: &str,
        context: Option<&str>,
        origin: &DeliveryOrigin,
    ) -> Result<SkillObject, HostFault> {
        self.before_effect().await?;
        self.agents()?.wake(connector, agent, context, origin).await
    }

    fn can_exchange(&self, connector: &str) -> bool {
        self.agents.as_ref().is_some_and(|agents| agents.can_exchange(connector))
    }

    async fn exchange(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
        timeout: Duration,
    ) -> Result<ExchangeAnswer, HostFault> {
        self.before_effect().await?;
        self.agents()?.exchange(connector, agent, message, timeout).await
    }

    async fn load_skill(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault> {
        self.skills.load(name).await
    }

    fn check_approval(&self, source: &str) -> ApprovalVerdict {
        self.skills.check(source)
    }

    async fn required_variable(&self, _requirement: &VarRequirement) -> Option<String> {
        // Neither people nor the server have variables for skills.
        None
    }

    async fn secret(&self, name: &str) -> Result<SecretText, HostFault> {
        self.resources.secrets.read(name).await
    }
}

/// A new id: a UUIDv7, so that ids of the same time are neighbours in the database.
pub fn fresh_id(unix_millis: i64) -> String {
    let mut random = [0; 10];
    aws_lc_rs::rand::fill(&mut random)
        .expect("the generator fails only when the system has no entropy at all");
    let millis = u64::try_from(unix_millis).unwrap_or(0);
    uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid().to_string()
}
