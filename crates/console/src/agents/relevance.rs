//! Admin API: which messages of groups an agent wants.

use posthouse_wire::{InstanceId, Platform};
use serde::Serialize;

use crate::problem::AdminProblem;
use crate::routes::Parts;

/// Which messages of groups the agent wants on a platform, as its gateway declared it.
#[derive(Serialize)]
pub(crate) struct ShownRelevance {
    platform: Platform,
    require_address: bool,
    free_scopes: Vec<String>,
    allow_other_bots: bool,
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
}
