//! `Principal`: who made a request, according to the stored record of the credential.

use std::sync::Arc;

use http::Extensions;
use http_kit::{OverLimit, RequestControl};
use ledger::{Instance, Invitation, Owner};
use posthouse_wire::{ClientId, GatewayId, InstanceId, LoginId, TenantId};
use vault::GatewayOwner;

/// Who made a request. Requests that are proved by their body or by a capability have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Principal {
    /// The operator of the server, by the admin token.
    Operator,
    /// A program of a tenant, by the tenant's client credential. The operator who acts for a tenant is one too, with a
    /// client id that nobody else can have.
    Tenant { tenant: TenantId, client: ClientId },
    /// An agent, by one of its credentials.
    Agent { agent: Arc<Instance>, by: AgentCredential },
    /// An invited person on the chat page.
    Person(Arc<Invitation>),
    /// A token of a foreign issuer that the operator trusts. It may only enrol and provision gateways.
    Issued { tenant: TenantId, issuer: String },
}

/// The credential by which an agent made a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentCredential {
    Gateway(GatewayId),
    Client(ClientId),
    Login(LoginId),
    /// A token of this foreign issuer, for managing the one agent that it names.
    Issuer(String),
}

impl Principal {
    /// The tenant that the principal belongs to. Only the operator has none.
    pub fn tenant(&self) -> Option<&TenantId> {
        match self {
            Principal::Operator => None,
            Principal::Tenant { tenant, .. } | Principal::Issued { tenant, .. } => Some(tenant),
            Principal::Agent { agent, .. } => Some(&agent.tenant),
            Principal::Person(invitation) => Some(&invitation.tenant),
        }
    }

    /// The agent that made the request, if it was one.
    pub fn agent(&self) -> Option<&InstanceId> {
        match self {
            Principal::Agent { agent, .. } => Some(&agent.id),
            _ => None,
        }
    }

    /// The client id that receipts and limits name. All credentials of one agent share the client id of the agent.
    pub fn client(&self) -> Option<ClientId> {
        match self {
            Principal::Tenant { client, .. } => Some(client.clone()),
            Principal::Agent { agent, .. } => Some(Owner::Instance(agent.id.clone()).client()),
            Principal::Operator | Principal::Person(_) | Principal::Issued { .. } => None,
        }
    }

    /// The gateway credential and its owner, for an agent that connects to the relay.
    pub fn gateway(&self) -> Option<GatewayOwner> {
        match self {
            Principal::Agent { agent, by: AgentCredential::Gateway(gateway) } => Some(GatewayOwner {
                gateway: gateway.clone(),
                instance: agent.id.clone(),
                tenant: agent.tenant.clone(),
            }),
            _ => None,
        }
    }

    /// Reports to the listener that this principal made the request with these extensions. Its connection and unread
    /// bytes count against the principal from now on.
    pub fn within_limits(&self, extensions: &Extensions) -> Result<(), OverLimit> {
        RequestControl::proven(extensions, &self.limit_key(), self.tenant().map(TenantId::as_str))
    }

    /// The name under which connections and unread bytes of the principal are counted.
    pub fn limit_key(&self) -> String {
        match self {
            Principal::Operator => "admin".to_owned(),
            Principal::Tenant { client, .. } => client.to_string(),
            Principal::Agent { agent, .. } => Self::agent_limit_key(&agent.id),
            Principal::Person(invitation) => format!("invitation:{}", invitation.id),
            Principal::Issued { tenant, issuer } => format!("issued:{tenant}:{issuer}"),
        }
    }

    /// As [`Principal::limit_key`], for an agent that is known only by its id.
    pub fn agent_limit_key(agent: &InstanceId) -> String {
        format!("agent:{agent}")
    }
}
