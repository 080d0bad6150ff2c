//! The first effect of a run: before it happens, the record of the run says that the run must not be begun again.
//!
//! Whether a skill has effects is looked at when its run is queued. Until the run begins, and while it runs, the skill
//! and those that it calls can be rewritten. So the record follows what the run does, not only what its text said.

use std::sync::Arc;

use ledger::SkillRuns;
use posthouse_wire::{RunId, TenantId};
use skill::HostFault;
use tokio::sync::OnceCell;

/// A run that is begun again after a crash, as long as it had no effect.
pub struct FirstEffect {
    pub tenant: TenantId,
    pub run: RunId,
    pub records: Arc<dyn SkillRuns>,
    pub noted: OnceCell<()>,
}

impl FirstEffect {
    /// Called before every effect. The effect must not happen if this fails.
    pub async fn note(&self) -> Result<(), HostFault> {
        let noted = self.noted.get_or_try_init(|| self.records.note_effect(&self.tenant, &self.run)).await;
        noted.copied().map_err(|fault| {
            tracing::error!(%fault, run = %self.run, "the first effect of a run could not be noted");
            HostFault::plain("the server cannot do this now")
        })
    }
}
