//! Delivery path: one connector by which one agent can be reached.

use std::sync::Arc;

use ledger::Instance;

use crate::connector::{AgentConnector, MessageStorage};

/// A path to one agent.
#[derive(Clone)]
pub(crate) struct DeliveryPath {
    /// The name of the connector in its tenant.
    pub name: String,
    pub connector: Arc<dyn AgentConnector>,
    /// The agent's name at this connector. An address with a session is passed on whole: the connector splits it.
    pub agent: String,
    /// The session in the address. `None` if the whole address is the name of an agent at this connector.
    pub session: Option<String>,
    /// The agent's record, at a connector that stores messages for it.
    pub instance: Option<Arc<Instance>>,
}

impl DeliveryPath {
    /// The storage of a connector that stores messages with their receipts, and the agent that it stores them for.
    pub fn storage(&self) -> Option<(&dyn MessageStorage, &Instance)> {
        self.connector.storage().zip(self.instance.as_deref())
    }
}
