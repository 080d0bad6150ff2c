//! Agents in the settings of a connector, looked up by name or address.

use std::collections::BTreeMap;

use posthouse_wire::delivery::{AgentDescriptor, DeliveryFailed};

use super::ConnectorError;
use crate::Address;

/// Agents with their settings, sorted by name.
#[derive(Clone, Debug)]
pub(super) struct ConfiguredAgents<T>(pub BTreeMap<String, T>);

/// The agent and session of an address.
#[derive(Debug)]
pub(super) struct AddressedAgent<'a, T> {
    pub agent: &'a str,
    pub session: Option<&'a str>,
    pub at: &'a T,
}

impl<T> ConfiguredAgents<T> {
    pub fn descriptors(&self) -> Vec<AgentDescriptor> {
        self.0.keys().map(AgentDescriptor::new).collect()
    }

    pub fn claims(&self, agent: &str) -> bool {
        self.0.contains_key(agent)
    }

    /// The agent with exactly this name. Deliveries have no sessions.
    pub fn exactly(&self, agent: &str) -> Result<&T, ConnectorError> {
        self.0.get(agent).ok_or_else(|| self.unknown(agent))
    }

    /// The agent with exactly this name, which may contain an `@`. Otherwise the agent before the first `@`.
    pub fn addressed<'a>(
        &'a self,
        address: &'a str,
        session: Option<&'a str>,
    ) -> Result<AddressedAgent<'a, T>, ConnectorError> {
        if let Some((agent, at)) = self.0.get_key_value(address) {
            return Ok(AddressedAgent { agent, session: session.filter(|session| !session.is_empty()), at });
        }
        let read = Address::read(address);
        let (agent, at) = self.0.get_key_value(read.agent).ok_or_else(|| self.unknown(address))?;
        Ok(AddressedAgent { agent, session: read.session_meant(session), at })
    }

    fn unknown(&self, agent: &str) -> ConnectorError {
        let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        let message = format!("Agent '{agent}' is not configured. Wired agents: {names}.");
        DeliveryFailed::client_validation(agent, message).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_name_goes_before_the_part_ahead_of_the_at_sign() {
        let agents = ConfiguredAgents(BTreeMap::from([("desk".to_owned(), 1), ("desk@home".to_owned(), 2)]));
        let meant = |address, session| {
            let AddressedAgent { agent, session, at } = agents.addressed(address, session).unwrap();
            (agent.to_owned(), session.map(str::to_owned), *at)
        };
        assert_eq!(meant("desk@home", None), ("desk@home".to_owned(), None, 2));
        assert_eq!(meant("desk@pane", None), ("desk".to_owned(), Some("pane".to_owned()), 1));
        assert_eq!(meant("desk@pane", Some("attic")), ("desk".to_owned(), Some("attic".to_owned()), 1));
        assert_eq!(meant("desk@", Some("")), ("desk".to_owned(), None, 1));
        assert!(agents.addressed("nobody@pane", None).is_err());
        assert!(agents.exactly("desk@pane").is_err());
    }
}
