//! `Workshop`: the handle that holds the components and builds them from their dependencies.

use std::sync::Arc;

use identity::RosterView;
use ledger::{SkillApproval, Usage};
use post::Callers;
use posthouse_time::Timepiece;

use crate::Config;
use crate::approval_keys::ApprovalKeys;
use crate::approval_log::ApprovalLog;
use crate::catalogue::Catalogue;
use crate::metrics::Metrics;
use crate::skills::TenantSkills;
use crate::tenant_stores::TenantStores;

/// The dependencies of the workshop.
pub struct Parts {
    pub config: Config,
    pub skills: Arc<dyn ledger::Skills>,
    pub approval: Arc<dyn SkillApproval>,
    pub usage: Arc<dyn Usage>,
    pub roster: RosterView,
    /// Who calls, as for every API below `/v1`.
    pub callers: Callers,
    pub timepiece: Timepiece,
}

/// The workshop: skills that are kept for agents. A cheap handle to clone.
#[derive(Clone)]
pub struct Workshop(pub(crate) Arc<WorkshopComponents>);

/// The components. Each owns its state, and holds only the components that it calls.
pub(crate) struct WorkshopComponents {
    pub callers: Callers,
    pub metrics: Arc<Metrics>,
    pub skills: TenantSkills,
    pub catalogue: Catalogue,
    pub approval_keys: ApprovalKeys,
}

impl Workshop {
    pub fn new(parts: Parts) -> Self {
        let Parts { config, skills, approval, usage, roster, callers, timepiece } = parts;
        let metrics = Arc::<Metrics>::default();
        let stores = Arc::new(TenantStores::new(
            config,
            skills,
            usage,
            Arc::clone(&approval),
            roster.clone(),
            timepiece.clone(),
        ));
        let log = ApprovalLog::new(Arc::clone(&approval), Arc::clone(&metrics), timepiece);
        Self(Arc::new(WorkshopComponents {
            callers,
            metrics,
            skills: TenantSkills::new(Arc::clone(&stores), log),
            catalogue: Catalogue::new(Arc::clone(&stores)),
            approval_keys: ApprovalKeys::new(approval, roster, stores),
        }))
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Who calls.
    pub fn callers(&self) -> &Callers {
        &self.0.callers
    }

    /// Skills of tenants: reading, writing, approving, deleting.
    pub fn skills(&self) -> &TenantSkills {
        &self.0.skills
    }

    /// The catalogue of skills for agents.
    pub fn catalogue(&self) -> &Catalogue {
        &self.0.catalogue
    }

    /// Approval keys and settings of tenants, as the operator changes them.
    pub fn approval_keys(&self) -> &ApprovalKeys {
        &self.0.approval_keys
    }
}
