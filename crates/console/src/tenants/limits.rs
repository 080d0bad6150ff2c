//! The limits of a tenant in the admin API: what they are, where they come from, and what is used of them.

use std::collections::BTreeMap;

use identity::{LimitValues, QuotaUse};
use ledger::{LimitName, OwnLimits};
use serde::{Deserialize, Serialize};

use super::{DefaultWord, LimitFrom};
use crate::problem::AdminProblem;

/// Limits to change. Absent ones stay as they are.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitChanges {
    messages_per_minute: Option<NewLimit>,
    agent_messages_per_minute: Option<NewLimit>,
    sockets: Option<NewLimit>,
    agent_sockets: Option<NewLimit>,
    actions_per_minute: Option<NewLimit>,
    agent_actions_per_minute: Option<NewLimit>,
    requests_per_minute: Option<NewLimit>,
    agent_requests_per_minute: Option<NewLimit>,
    program_requests_per_minute: Option<NewLimit>,
    agent_program_requests_per_minute: Option<NewLimit>,
}

/// A number, or the server's default.
#[derive(Clone, Copy, Deserialize)]
#[serde(untagged)]
enum NewLimit {
    Own(i64),
    Word(DefaultWord),
}

impl LimitChanges {
    /// The changes by limit. `None` stands for the server's default.
    pub fn read(&self) -> Result<BTreeMap<LimitName, Option<u32>>, AdminProblem> {
        let mut changes = BTreeMap::new();
        for limit in LimitName::ALL {
            let value = match self.get(limit) {
                None => continue,
                Some(NewLimit::Word(DefaultWord::Default)) => None,
                Some(NewLimit::Own(value)) => Some(u32::try_from(value).map_err(|_| {
                    let why = format!("`{}` must be a number from 0 to {}", limit.as_str(), u32::MAX);
                    AdminProblem::unfit("bad_limit", why)
                })?),
            };
            changes.insert(limit, value);
        }
        Ok(changes)
    }

    fn get(&self, limit: LimitName) -> Option<NewLimit> {
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
}

/// One limit as the operator sees it.
#[derive(Serialize)]
pub(crate) struct ShownLimit {
    limit: u32,
    from: LimitFrom,
    /// What is used of it now, for limits of the whole tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    used: Option<u32>,
}

/// All limits of a tenant by name.
pub(crate) fn shown(
    values: &LimitValues,
    own: &OwnLimits,
    used: QuotaUse,
) -> BTreeMap<&'static str, ShownLimit> {
    let shown = LimitName::ALL.into_iter().map(|limit| {
        let from = if own.contains_key(&limit) { LimitFrom::Tenant } else { LimitFrom::Default };
        let used = match limit {
            LimitName::Messages => Some(used.messages),
            LimitName::Sockets => Some(used.sockets),
            LimitName::Actions => Some(used.actions),
            LimitName::Requests => Some(used.requests),
            LimitName::ProgramRequests => Some(used.program_requests),
            LimitName::AgentMessages
            | LimitName::AgentSockets
            | LimitName::AgentActions
            | LimitName::AgentRequests
            | LimitName::AgentProgramRequests => None,
        };
        (limit.as_str(), ShownLimit { limit: values.get(limit), from, used })
    });
    shown.collect()
}
