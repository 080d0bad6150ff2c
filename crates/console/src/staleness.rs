//! Admin API: what happens to messages that waited too long for their agent.

use std::time::Duration;

use ledger::{LONGEST_STALE_AFTER, StalePolicy};
use serde::{Deserialize, Serialize};

use crate::problem::AdminProblem;

/// A staleness policy in requests and responses.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StaleSetting {
    after_seconds: u64,
    /// `deliver`, `mark` or `expire`.
    action: String,
}

impl StaleSetting {
    pub fn policy(&self) -> Result<StalePolicy, AdminProblem> {
        let after = Duration::from_secs(self.after_seconds);
        let action = self.action.parse().map_err(|()| {
            let detail = format!("`{}` is not an action: use deliver, mark or expire", self.action);
            AdminProblem::unfit("bad_staleness", detail)
        })?;
        if after.is_zero() || after > LONGEST_STALE_AFTER {
            let detail = "the time must be at least one second and at most seven days";
            return Err(AdminProblem::unfit("bad_staleness", detail));
        }
        Ok(StalePolicy { after, action })
    }
}

impl From<StalePolicy> for StaleSetting {
    fn from(policy: StalePolicy) -> Self {
        Self { after_seconds: policy.after.as_secs(), action: policy.action.as_str().to_owned() }
    }
}
