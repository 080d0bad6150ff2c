//! Principal policies: which unlinked authors an agent listens to in the places that it claimed.

use std::str::FromStr;

use async_trait::async_trait;
use posthouse_wire::{InstanceId, Platform, UserId};

use crate::Fault;

/// Which authors an agent listens to in the places that it claimed (relay contract section 18).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum AuthorPolicy {
    /// Only authors who are linked to it.
    #[default]
    OwnerOnly,
    /// Also authors on its list.
    AllowList,
    /// Everybody.
    Any,
}

impl AuthorPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            AuthorPolicy::OwnerOnly => "owner-only",
            AuthorPolicy::AllowList => "allow-list",
            AuthorPolicy::Any => "any",
        }
    }
}

impl FromStr for AuthorPolicy {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        [AuthorPolicy::OwnerOnly, AuthorPolicy::AllowList, AuthorPolicy::Any]
            .into_iter()
            .find(|policy| policy.as_str() == text)
            .ok_or(())
    }
}

/// The policy of an agent for one platform, or for all that have none of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentPrincipals {
    /// `None` for all platforms without a policy of their own.
    pub platform: Option<Platform>,
    pub policy: AuthorPolicy,
    /// For the policy `allow-list`.
    pub allowed: Vec<UserId>,
}

#[async_trait]
pub trait Principals: Send + Sync {
    /// Replaces the policy for a platform. Without a platform, it replaces the policies for all of them. False when
    /// there is no such agent, or when it has policies for too many platforms.
    async fn set_principals(&self, of: &InstanceId, principals: AgentPrincipals) -> Result<bool, Fault>;
    /// The policies of an agent, the general one first.
    async fn principals(&self, of: &InstanceId) -> Result<Vec<AgentPrincipals>, Fault>;
    /// Whether the policy of an agent admits this author, who is not linked to it.
    async fn admits_author(
        &self,
        of: &InstanceId,
        platform: &Platform,
        author: &UserId,
    ) -> Result<bool, Fault>;
    /// Deletes all policies of an agent. Repeating it is harmless.
    async fn clear_principals(&self, of: &InstanceId) -> Result<(), Fault>;
}
