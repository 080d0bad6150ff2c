//! The `SkillHost` trait: time, tools, commands, files, agents, stored skills and secrets for a run.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use zeroize::Zeroizing;

use super::object::SkillObject;
use super::run_error::{ErrorClass, RunError};
use super::value::SkillValue;
use crate::approval::ApprovalVerdict;
use crate::syntax::VarRequirement;

/// The outside world of a run.
///
/// A future of a host is dropped when its time is over or the run is cancelled. It must then stop what it does: kill the
/// process group of a command, close the request of a tool. Lists in values must not be shared with other runs, because
/// a skill can append to them.
#[async_trait]
pub trait SkillHost: Send + Sync {
    /// Milliseconds since 1970.
    fn unix_millis(&self) -> i64;

    /// Monotonic time since an arbitrary start.
    fn elapsed(&self) -> Duration;

    async fn sleep(&self, duration: Duration);

    /// A fresh id for a message to agents.
    fn dispatch_id(&self) -> String;

    /// The tool connector of this name, if there is one.
    fn tool_connector(&self, name: &str) -> Option<ToolConnector>;

    async fn call_tool(&self, request: ToolRequest) -> Result<SkillValue, HostFault>;

    /// Ends effects that go on after the deadline of the run has cut off their call.
    async fn clean_up_tool(&self, connector: &str, within: Duration);

    async fn run_command(&self, command: CommandRequest) -> Result<String, HostFault>;

    async fn read_file(&self, path: &str, encoding: FileEncoding) -> Result<String, FileFault>;

    /// Writes a file and creates the folders above it.
    async fn write_file(&self, path: &str, content: &str) -> Result<(), FileFault>;

    /// Names of the connectors to agents, in the order of their registration.
    fn agent_connectors(&self) -> Vec<Arc<str>>;

    /// The connector that delivers the outputs of skills.
    fn output_connector(&self) -> Option<Arc<str>> {
        self.agent_connectors().into_iter().find(|name| &**name == "primary")
    }

    /// Ids of the agents that a connector reaches.
    async fn list_agents(&self, connector: &str) -> Result<Vec<String>, HostFault>;

    /// Whether a connector reaches the agent of an address. One that cannot say is left out.
    async fn reaches(&self, connector: &str, address: &str) -> bool {
        let agents = self.list_agents(connector).await.unwrap_or_default();
        let agent = address.split('@').next().unwrap_or(address);
        agents.iter().any(|known| known == address || known == agent)
    }

    /// Hands a message to an agent and returns the receipt.
    async fn deliver(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
    ) -> Result<SkillObject, HostFault>;

    /// Wakes a session of an agent and returns the receipt. The session gets `context`; `origin` names the sender.
    async fn wake(
        &self,
        connector: &str,
        agent: &str,
        context: Option<&str>,
        origin: &DeliveryOrigin,
    ) -> Result<SkillObject, HostFault>;

    /// Whether agents can answer through this connector.
    fn can_exchange(&self, connector: &str) -> bool;

    /// Asks an agent and waits for its answer. `message` carries the correlation id.
    async fn exchange(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
        timeout: Duration,
    ) -> Result<ExchangeAnswer, HostFault>;

    async fn load_skill(&self, name: &str) -> Result<Option<LoadedSkill>, HostFault>;

    /// Whether a stored body may run.
    fn check_approval(&self, source: &str) -> ApprovalVerdict;

    /// The value of a variable that a skill requires from its user or the system.
    async fn required_variable(&self, requirement: &VarRequirement) -> Option<String>;

    async fn secret(&self, name: &str) -> Result<SecretText, HostFault>;
}

/// Facts about a tool connector that the executor needs before a call.
#[derive(Clone, Debug, Default)]
pub struct ToolConnector {
    /// Tools that the operator allows. `None` allows all.
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that the connector declares. `None` if it declares nothing.
    pub declared_tools: Option<Vec<String>>,
    /// Whether a call can have effects that go on when it is dropped.
    pub outlives_call: bool,
}

/// A call of a tool. It may hold secrets, so it cannot be printed.
pub struct ToolRequest {
    pub connector: Arc<str>,
    pub tool: Arc<str>,
    pub arguments: SkillObject,
    /// The owner of the skill.
    pub owner: Option<Arc<str>>,
    /// When the executor drops the call.
    pub timeout: Duration,
}

/// A program with its arguments. It may hold secrets, so it cannot be printed.
pub struct CommandRequest {
    pub program: String,
    pub arguments: Vec<String>,
    /// When the executor drops the command.
    pub timeout: Duration,
    /// Bytes of standard output that are kept. More of it is a fault.
    pub output_limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileEncoding {
    Utf8,
    Base64,
}

/// Why a file was not read or written.
#[derive(Clone, Debug)]
pub enum FileFault {
    /// The path is outside of the folders that the operator allows.
    NotAllowed,
    Failed(String),
}

/// An error of the outside world, with the class that an error record names.
#[derive(Clone, Debug)]
pub struct HostFault {
    pub class: ErrorClass,
    pub message: String,
}

impl HostFault {
    pub fn new(class: ErrorClass, message: impl Into<String>) -> Self {
        Self { class, message: message.into() }
    }

    pub fn plain(message: impl Into<String>) -> Self {
        Self::new(ErrorClass::Plain, message)
    }
}

impl From<HostFault> for RunError {
    fn from(fault: HostFault) -> Self {
        RunError::new(fault.class, fault.message)
    }
}

/// A skill as a store keeps it.
#[derive(Clone, Debug)]
pub struct LoadedSkill {
    pub source: Arc<str>,
    /// The owner in whose name it runs.
    pub author: Option<Arc<str>>,
}

/// A secret. It is wiped from memory when it is dropped, and cannot be printed.
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    pub fn new(text: String) -> Self {
        Self(Zeroizing::new(text))
    }

    pub(super) fn expose(&self) -> &str {
        &self.0
    }
}

/// What an agent should do with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveredKind {
    /// Context to absorb.
    Augment,
    /// A playbook to carry out.
    Template,
}

/// A message to an agent.
#[derive(Clone, Debug)]
pub struct AgentDelivery {
    pub kind: DeliveredKind,
    pub text: Arc<String>,
    pub meta: DeliveryOrigin,
}

/// Where a message to an agent comes from.
#[derive(Clone, Debug)]
pub struct DeliveryOrigin {
    /// One id for all connectors that a message reaches.
    pub dispatch_id: String,
    /// Milliseconds since 1970.
    pub sent_at: i64,
    pub skill_name: Arc<str>,
    /// The skill with which the run began, if it is another one.
    pub entry_skill_name: Option<Arc<str>>,
    pub trigger_kind: Arc<str>,
    pub caller: Option<Arc<str>>,
    pub event_type: Option<Arc<String>>,
    pub correlation_id: Option<Arc<String>>,
}

impl AgentDelivery {
    /// The payload as connectors send it.
    pub fn to_value(&self) -> SkillValue {
        let meta = &self.meta;
        let mut origin = SkillObject::default();
        origin.set("skill_name", &*meta.skill_name);
        origin.set_some("entry_skill_name", meta.entry_skill_name.as_deref());
        origin.set("trigger_kind", &*meta.trigger_kind);
        origin.set_some("caller_agent_id", meta.caller.as_deref());
        let mut envelope = SkillObject::default();
        envelope.set("dispatch_id", meta.dispatch_id.as_str());
        envelope.set("sent_at", millis(meta.sent_at));
        envelope.set("origin", origin);
        envelope.set_some("event_type", meta.event_type.clone());
        envelope.set_some("correlation_id", meta.correlation_id.clone());
        let (kind, field) = match self.kind {
            DeliveredKind::Augment => ("augment", "content"),
            DeliveredKind::Template => ("template", "prompt"),
        };
        let mut payload = SkillObject::default();
        payload.set("kind", kind);
        payload.set(field, Arc::clone(&self.text));
        payload.set("meta", envelope);
        payload.into()
    }
}

/// The answer of an agent.
#[derive(Clone, Debug)]
pub struct ExchangeAnswer {
    pub content: String,
    /// Milliseconds since 1970, by the clock of the agent.
    pub sent_at: i64,
    pub agent_id: String,
}

/// A time as a number of the language.
pub fn millis(time: i64) -> SkillValue {
    #[expect(clippy::cast_precision_loss, reason = "milliseconds of dates are below 2^53")]
    SkillValue::Number(time as f64)
}
