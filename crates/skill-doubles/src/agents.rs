//! Test doubles of agents: they record the messages they get.

use std::sync::Arc;

use parking_lot::Mutex;
use skill::{AgentDelivery, HostFault, SkillObject, SkillValue};

/// Times of an agent's own clock: when it gets a message, and when it is woken.
const DELIVERED_AT: f64 = 1_767_225_600_005.0;
const WOKEN_AT: f64 = 1_767_225_600_006.0;

/// A connector to agents.
#[derive(Clone, Debug)]
pub struct AgentDouble {
    pub name: Arc<str>,
    pub agents: Vec<String>,
    pub flags: AgentFlags,
}

/// How a connector misbehaves.
#[derive(Clone, Copy, Debug, Default)]
pub struct AgentFlags {
    pub deliver_fails: bool,
    pub wake_fails: bool,
    pub list_fails: bool,
    pub skips: bool,
    pub warns: bool,
    /// Whether its agents answer questions. The recordings have no questions to agents.
    pub answers: bool,
    /// Whether its agents accept a question and never answer it.
    pub stays_silent: bool,
}

/// All connectors to agents, and the calls that they got.
#[derive(Default)]
pub struct AgentsPlayed {
    connectors: Vec<AgentDouble>,
    calls: Mutex<Vec<SkillValue>>,
}

impl AgentsPlayed {
    pub fn new(connectors: Vec<AgentDouble>) -> Self {
        Self { connectors, calls: Mutex::default() }
    }

    /// `primary` reaches `desk` and `lamp`, `beta` reaches `desk` and `scout`.
    pub fn standard() -> Self {
        let connector = |name: &str, agents: [&str; 2]| AgentDouble {
            name: name.into(),
            agents: agents.map(str::to_owned).into(),
            flags: AgentFlags::default(),
        };
        Self::new(vec![connector("primary", ["desk", "lamp"]), connector("beta", ["desk", "scout"])])
    }

    /// The calls in the form of the recordings.
    pub fn calls(&self) -> Vec<SkillValue> {
        self.calls.lock().clone()
    }

    pub fn names(&self) -> Vec<Arc<str>> {
        self.connectors.iter().map(|connector| Arc::clone(&connector.name)).collect()
    }

    fn find(&self, name: &str) -> Result<&AgentDouble, HostFault> {
        let found = self.connectors.iter().find(|connector| *connector.name == *name);
        found.ok_or_else(|| HostFault::plain(format!("no agent connector '{name}'")))
    }

    pub fn list(&self, connector: &str) -> Result<Vec<String>, HostFault> {
        let connector = self.find(connector)?;
        if connector.flags.list_fails {
            Err(HostFault::plain("cannot list"))
        } else {
            Ok(connector.agents.clone())
        }
    }

    pub fn deliver(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
    ) -> Result<SkillObject, HostFault> {
        let connector = self.find(connector)?;
        let number = self.record(&connector.name, "deliver", agent, ("payload", message.to_value()));
        if connector.flags.deliver_fails {
            return Err(HostFault::plain("substrate down"));
        }
        let mut receipt = SkillObject::default();
        receipt.set("delivered_at", DELIVERED_AT);
        receipt.set("delivery_id", format!("{}-d{number}", connector.name));
        receipt.set_some("delivery_skipped", connector.flags.skips.then_some(true));
        receipt.set_some("warnings", connector.flags.warns.then(|| SkillValue::list(["slow lane".into()])));
        Ok(receipt)
    }

    pub fn wake(
        &self,
        connector: &str,
        agent: &str,
        context: Option<&str>,
    ) -> Result<SkillObject, HostFault> {
        let connector = self.find(connector)?;
        let options: SkillObject = context.map(|context| ("context", context)).into_iter().collect();
        self.record(&connector.name, "wake", agent, ("opts", options.into()));
        if connector.flags.wake_fails {
            return Err(HostFault::plain("cannot ring"));
        }
        let mut receipt = SkillObject::default();
        receipt.set("woken_at", WOKEN_AT);
        receipt.set("woken", true);
        receipt.set_some("session_id", agent.split_once('@').map(|(_, session)| session));
        receipt.set_some("warnings", connector.flags.warns.then(|| SkillValue::list(["slow lane".into()])));
        Ok(receipt)
    }

    pub fn can_exchange(&self, connector: &str) -> bool {
        self.find(connector).is_ok_and(|connector| connector.flags.answers)
    }

    /// The answer of an agent: its own name and the question, as JSON. `None` if it stays silent.
    pub fn exchange(
        &self,
        connector: &str,
        agent: &str,
        message: &AgentDelivery,
    ) -> Result<Option<String>, HostFault> {
        let connector = self.find(connector)?;
        self.record(&connector.name, "exchange", agent, ("payload", message.to_value()));
        let answer: SkillObject = [("agent", agent), ("heard", message.text.as_str())].into_iter().collect();
        Ok((!connector.flags.stays_silent).then(|| SkillValue::from(answer).json()))
    }

    /// Records a call and returns its number.
    fn record(&self, connector: &str, method: &str, agent: &str, (name, value): (&str, SkillValue)) -> usize {
        let mut call = SkillObject::default();
        call.set("connector", connector);
        call.set("method", method);
        call.set("agent_id", agent);
        call.set(name, value);
        let mut calls = self.calls.lock();
        calls.push(call.into());
        calls.len()
    }
}
