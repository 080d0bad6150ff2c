//! Policies of agents about who reaches them and with what, and their use of shared bots.

use ledger::UseBotResult;
use posthouse_wire::{InstanceId, Platform, UserId};
use serde::Serialize;

use super::{AgentChange, parse_bot_ref};
use crate::problem::AdminProblem;
use crate::routes::Parts;

/// Longest profile name, in bytes.
const LONGEST_PROFILE: usize = 64;

/// Which messages of groups the agent wants on a platform, as its gateway declared it.
#[derive(Serialize)]
pub(super) struct ShownRelevance {
    platform: Platform,
    require_address: bool,
    free_scopes: Vec<String>,
    allow_other_bots: bool,
}

/// Which authors without a link reach the agent in the places that it claimed.
#[derive(Serialize)]
pub(super) struct ShownPrincipals {
    /// Null for all platforms without a policy of their own.
    platform: Option<Platform>,
    policy: &'static str,
    allowed: Vec<UserId>,
}

impl Parts {
    pub(super) async fn relevance(&self, of: &InstanceId) -> Result<Vec<ShownRelevance>, AdminProblem> {
        let policies = self.identity.gate.relevance().of(of).await?;
        let shown = policies.into_iter().map(|(platform, policy)| ShownRelevance {
            platform,
            require_address: policy.require_address,
            free_scopes: policy.free_scopes,
            allow_other_bots: policy.allow_other_bots,
        });
        Ok(shown.collect())
    }

    pub(super) async fn principals(&self, of: &InstanceId) -> Result<Vec<ShownPrincipals>, AdminProblem> {
        let policies = self.identity.gate.policies().of(of).await?;
        let shown = policies.into_iter().map(|principals| ShownPrincipals {
            platform: principals.platform,
            policy: principals.policy.as_str(),
            allowed: principals.allowed,
        });
        Ok(shown.collect())
    }

    /// The profile that an agent has on all its routes without one of their own.
    pub(super) async fn profile(&self, of: &InstanceId) -> Result<Option<String>, AdminProblem> {
        Ok(self.identity.gate.claims().shared_bots().profile(of).await?)
    }

    /// Carries out the parts of a change that concern policies, profile and shared bots.
    pub(super) async fn change_policies(
        &self,
        of: &InstanceId,
        change: &AgentChange,
    ) -> Result<(), AdminProblem> {
        let gate = &self.identity.gate;
        let bots = change.use_bots.iter().map(|bot| parse_bot_ref(bot)).collect::<Result<Vec<_>, _>>()?;
        if let Some(Some(profile)) = &change.profile {
            check_profile(profile)?;
        }
        for on in &bots {
            if gate.claims().use_bot(of, on).await? == UseBotResult::Refused {
                let detail = format!(
                    "{}:{} is not a shared bot that the agent's tenant may use: see `posthouse bot change --tenant`",
                    on.platform, on.bot
                );
                return Err(AdminProblem::unfit("bad_bot", detail));
            }
        }
        if let Some(profile) = &change.profile {
            gate.claims().shared_bots().set_profile(of, profile.as_deref()).await?;
            self.identity.roster.agent_changed(of);
        }
        if change.clear_relevance {
            gate.relevance().clear(of).await?;
        }
        if change.clear_principals {
            gate.policies().clear(of).await?;
        }
        Ok(())
    }
}

/// A profile is a part of session keys, so it is a plain name.
pub(crate) fn check_profile(profile: &str) -> Result<(), AdminProblem> {
    let is_name = profile.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if profile.is_empty() || profile.len() > LONGEST_PROFILE || !is_name {
        let detail = format!(
            "`{profile}` is not a profile: use up to 64 letters, digits, dots, dashes and underscores"
        );
        return Err(AdminProblem::unfit("bad_profile", detail));
    }
    Ok(())
}
