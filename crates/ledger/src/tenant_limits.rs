//! Limits that the operator set for single tenants. All others have the server's defaults.

use std::collections::BTreeMap;
use std::str::FromStr;

use async_trait::async_trait;
use posthouse_wire::TenantId;

use crate::Fault;

/// The name of a limit of a tenant, or of each of its agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitName {
    /// Messages to all agents of the tenant.
    Messages,
    /// Messages to one agent.
    AgentMessages,
    /// Open sockets of all agents.
    Sockets,
    AgentSockets,
    /// Actions of all agents.
    Actions,
    AgentActions,
    /// HTTP requests of all gateways.
    Requests,
    /// HTTP requests of the gateways of one agent.
    AgentRequests,
    /// HTTP requests of all programs.
    ProgramRequests,
    /// HTTP requests of programs with the credential of one agent.
    AgentProgramRequests,
}

impl LimitName {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Messages,
        Self::AgentMessages,
        Self::Sockets,
        Self::AgentSockets,
        Self::Actions,
        Self::AgentActions,
        Self::Requests,
        Self::AgentRequests,
        Self::ProgramRequests,
        Self::AgentProgramRequests,
    ];

    /// The name in the ledger, in the configuration and in the admin API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages_per_minute",
            Self::AgentMessages => "agent_messages_per_minute",
            Self::Sockets => "sockets",
            Self::AgentSockets => "agent_sockets",
            Self::Actions => "actions_per_minute",
            Self::AgentActions => "agent_actions_per_minute",
            Self::Requests => "requests_per_minute",
            Self::AgentRequests => "agent_requests_per_minute",
            Self::ProgramRequests => "program_requests_per_minute",
            Self::AgentProgramRequests => "agent_program_requests_per_minute",
        }
    }
}

impl FromStr for LimitName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|limit| limit.as_str() == text).ok_or(())
    }
}

/// The limits that were set for one tenant.
pub type OwnLimits = BTreeMap<LimitName, u32>;

#[async_trait]
pub trait TenantLimits: Send + Sync {
    async fn tenant_limits(&self, of: &TenantId) -> Result<OwnLimits, Fault>;
    /// Sets these limits, and restores the server's default where the value is `None`. The tenant's other limits stay.
    /// False when there is no such tenant. Repeating it is harmless.
    async fn set_tenant_limits(
        &self,
        of: &TenantId,
        changes: BTreeMap<LimitName, Option<u32>>,
    ) -> Result<bool, Fault>;
}
