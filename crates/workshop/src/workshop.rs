//! `Workshop`: the handle that holds the components and builds them from their dependencies.

use std::sync::Arc;

use identity::RosterView;
use ledger::{DataEntries, SkillApproval, Usage};
use post::Callers;
use posthouse_time::Timepiece;

use crate::Config;
use crate::approval_keys::ApprovalKeys;
use crate::approval_log::ApprovalLog;
use crate::catalogue::Catalogue;
use crate::data_stores::DataStores;
use crate::metrics::Metrics;
use crate::skills::TenantSkills;
use crate::tenant_stores::TenantStores;

/// The dependencies of the workshop.
pub struct Parts {
    pub config: Config,
    pub skills: Arc<dyn ledger::Skills>,
    pub approval: Arc<dyn SkillApproval>,
    pub usage: Arc<dyn Usage>,
    pub data: Arc<dyn DataEntries>,
    pub roster: RosterView,
    /// Who calls, as for every API below `/v1`.
    pub callers: Callers,
    pub timepiece: Timepiece,
}

/// The workshop: skills and data that are kept for agents. A cheap handle to clone.
#[derive(Clone)]
pub struct Workshop(pub(crate) Arc<WorkshopComponents>);

/// The components. Each owns its state, and holds only the components that it calls.
pub(crate) struct WorkshopComponents {
    pub callers: Callers,
    pub metrics: Arc<Metrics>,
    pub skills: TenantSkills,
    pub catalogue: Catalogue,
    pub approval_keys: ApprovalKeys,
    pub data: DataStores,
}

impl Workshop {
    pub fn new(parts: Parts) -> Self {
        let Parts { config, skills, approval, usage, data, roster, callers, timepiece } = parts;
        let metrics = Arc::<Metrics>::default();
        let data = DataStores::new(data, timepiece.clone());
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
            data,
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

    /// Data of tenants: writing and searching.
    pub fn data(&self) -> &DataStores {
        &self.0.data
    }

    /// Approval keys and settings of tenants, as the operator changes them.
    pub fn approval_keys(&self) -> &ApprovalKeys {
        &self.0.approval_keys
    }
}
