//! Turns of work on skills: places among the running skills, and checks that take the place of a run.

use std::sync::Arc;

use post::Caller;
use posthouse_wire::TenantId;

use super::repeatable::is_repeatable;
use super::run_report::{RefusedName, RunRefusal};
use super::run_slots::{RunSlot, RunSlots};
use super::runs::Runs;
use super::skill_threads::NoTurn;
use super::tenant_resources::TenantRunSetup;
use crate::fault::Fault;

/// The class of the refusal of a run for which there is no place.
pub(super) const TOO_MANY_RUNS: &str = "TooManyRunsError";

impl Runs {
    /// Does other work on skill texts, such as a check, in the place and the turns of a run.
    pub async fn in_turn<T: Send + 'static>(
        &self,
        tenant: &TenantId,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<Result<T, RunRefusal>, Fault> {
        let setup = self.resources().of(tenant).await?;
        let Some(slot) = self.slot(tenant, &setup) else { return Ok(Err(too_many_runs())) };
        let work = async move {
            let _slot = slot;
            work.await
        };
        match self.0.threads.run(tenant, work).await {
            Ok(done) => Ok(Ok(done)),
            Err(NoTurn::Full) => Ok(Err(too_many_runs())),
            Err(NoTurn::Broken) => Err(Fault::Io("work on a skill broke off".to_owned())),
        }
    }

    /// Whether a stored skill may be run again after a crash. One that cannot be read now may not.
    pub async fn is_repeatable(&self, by: &Caller, skill: &str) -> Result<bool, Fault> {
        let setup = self.resources().of(&by.tenant).await?;
        let (skills, by, skill) = (Arc::clone(self.workshop().skills()), by.clone(), skill.to_owned());
        let tenant = by.tenant.clone();
        let look = async move { is_repeatable(&skills, &setup.resources, &by, &skill).await };
        self.0.threads.run(&tenant, look).await.unwrap_or(Ok(false))
    }

    /// The places of running skills.
    pub(super) fn slots(&self) -> &RunSlots {
        &self.0.slots
    }

    pub(super) fn slot(&self, tenant: &TenantId, setup: &TenantRunSetup) -> Option<RunSlot> {
        self.0.slots.take(tenant, runs_at_once(setup))
    }
}

pub(super) fn runs_at_once(setup: &TenantRunSetup) -> usize {
    usize::try_from(setup.settings.runs_at_once).unwrap_or(usize::MAX)
}

pub(super) fn too_many_runs() -> RunRefusal {
    RunRefusal {
        class: TOO_MANY_RUNS.into(),
        message: "the tenant runs too many skills at once; try again later".to_owned(),
        skill_name: RefusedName::Absent,
    }
}
