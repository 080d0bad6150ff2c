//! The values of all limits: the defaults of the server, or those of one tenant.

use ledger::{LimitName, OwnLimits};
use serde::{Deserialize, Serialize};

/// `[limits]` in the configuration: the limits of every tenant. `posthouse tenant change` sets others for one tenant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitValues {
    /// Messages per minute to all agents of one tenant, from platforms, the chat page and programs. Default 120000.
    pub messages_per_minute: u32,
    /// The same for one agent. Default 60000.
    pub agent_messages_per_minute: u32,
    /// Open sockets of all agents of one tenant. Default 10000.
    pub sockets: u32,
    /// Open sockets of one agent. Default 64.
    pub agent_sockets: u32,
    /// Actions per minute of all agents of one tenant, such as sending a message. `typing` counts as a tenth.
    /// Default 120000.
    pub actions_per_minute: u32,
    /// The same for one agent. Default 60000.
    pub agent_actions_per_minute: u32,
    /// HTTP requests per minute to `/relay` and `/manage` for all agents of one tenant. Default 12000.
    pub requests_per_minute: u32,
    /// The same for one agent. Default 1200.
    pub agent_requests_per_minute: u32,
    /// HTTP requests per minute to `/v1` of all programs of one tenant. Default 240000, twice the messages, so that a
    /// program can also ask for the receipt of each.
    pub program_requests_per_minute: u32,
    /// The same for programs with the credential of one agent. Default 120000.
    pub agent_program_requests_per_minute: u32,
}

/// High enough that what a platform kept while the server was away is not dropped when it comes all at once.
impl Default for LimitValues {
    fn default() -> Self {
        Self {
            messages_per_minute: 120_000,
            agent_messages_per_minute: 60_000,
            sockets: 10_000,
            agent_sockets: 64,
            actions_per_minute: 120_000,
            agent_actions_per_minute: 60_000,
            requests_per_minute: 12_000,
            agent_requests_per_minute: 1_200,
            program_requests_per_minute: 240_000,
            agent_program_requests_per_minute: 120_000,
        }
    }
}

impl LimitValues {
    /// One value for all limits. Tests use it that send more in one moment than the defaults allow.
    pub const fn all(value: u32) -> Self {
        Self {
            messages_per_minute: value,
            agent_messages_per_minute: value,
            sockets: value,
            agent_sockets: value,
            actions_per_minute: value,
            agent_actions_per_minute: value,
            requests_per_minute: value,
            agent_requests_per_minute: value,
            program_requests_per_minute: value,
            agent_program_requests_per_minute: value,
        }
    }

    pub fn get(&self, limit: LimitName) -> u32 {
        match limit {
            LimitName::Messages => self.messages_per_minute,
            LimitName::AgentMessages => self.agent_messages_per_minute,
            LimitName::Sockets => self.sockets,
            LimitName::AgentSockets => self.agent_sockets,
            LimitName::Actions => self.actions_per_minute,
            LimitName::AgentActions => self.agent_actions_per_minute,
            LimitName::Requests => self.requests_per_minute,
            LimitName::AgentRequests => self.agent_requests_per_minute,
            LimitName::ProgramRequests => self.program_requests_per_minute,
            LimitName::AgentProgramRequests => self.agent_program_requests_per_minute,
        }
    }

    /// These values, with those that were set for one tenant instead of the defaults.
    pub(super) fn with(mut self, own: &OwnLimits) -> Self {
        for (limit, value) in own {
            let place = match limit {
                LimitName::Messages => &mut self.messages_per_minute,
                LimitName::AgentMessages => &mut self.agent_messages_per_minute,
                LimitName::Sockets => &mut self.sockets,
                LimitName::AgentSockets => &mut self.agent_sockets,
                LimitName::Actions => &mut self.actions_per_minute,
                LimitName::AgentActions => &mut self.agent_actions_per_minute,
                LimitName::Requests => &mut self.requests_per_minute,
                LimitName::AgentRequests => &mut self.agent_requests_per_minute,
                LimitName::ProgramRequests => &mut self.program_requests_per_minute,
                LimitName::AgentProgramRequests => &mut self.agent_program_requests_per_minute,
            };
            *place = *value;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_own_limit_replaces_its_default_and_no_other() {
        for limit in LimitName::ALL {
            let defaults = LimitValues::default();
            let own = defaults.with(&OwnLimits::from([(limit, 7)]));
            for other in LimitName::ALL {
                let expected = if other == limit { 7 } else { defaults.get(other) };
                assert_eq!(own.get(other), expected, "{other:?}");
            }
        }
    }
}
