//! `Workshop`: the handle that holds the components and builds them from their dependencies.

use std::sync::Arc;

use errand::Errand;
use http_kit::Problem;
use identity::RosterView;
use ledger::{DataEntries, SkillApproval, TenantFileThreads, Usage};
use post::Callers;
use posthouse_time::Timepiece;
use posthouse_wire::TenantId;
use vault::WebhookSigner;

use crate::Config;
use crate::approval_keys::ApprovalKeys;
use crate::approval_log::ApprovalLog;
use crate::catalogue::Catalogue;
use crate::custom_stores::CustomStores;
use crate::data_stores::{DataParts, DataStores};
use crate::large_answers::{AnswerTurn, LargeAnswers};
use crate::metrics::Metrics;
use crate::remote_stores::RemoteStores;
use crate::running::SkillThreads;
use crate::skill_changes::SkillChanges;
use crate::skills::TenantSkills;
use crate::tenant_stores::{StoreParts, TenantStores};

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
    /// Calls remote stores.
    pub errand: Errand,
    /// Signs the requests to remote stores.
    pub webhook_signer: WebhookSigner,
    /// Stores that this build adds.
    pub custom_stores: CustomStores,
    pub timepiece: Timepiece,
}

/// The workshop: skills and data that are kept for agents. A cheap handle to clone.
#[derive(Clone)]
pub struct Workshop(pub(crate) Arc<WorkshopComponents>);

/// The components. Each owns its state, and holds only the components that it calls.
pub(crate) struct WorkshopComponents {
    pub callers: Callers,
    pub metrics: Arc<Metrics>,
    pub skills: Arc<TenantSkills>,
    pub catalogue: Arc<Catalogue>,
    pub answers: Arc<LargeAnswers>,
    pub threads: Arc<SkillThreads>,
    pub approval_keys: ApprovalKeys,
    pub data: DataStores,
}

impl Workshop {
    pub fn new(parts: Parts) -> Self {
        let Parts { config, skills, approval, usage, data, roster, callers, timepiece, .. } = parts;
        let metrics = Arc::<Metrics>::default();
        let changes = Arc::<SkillChanges>::default();
        let (errand, signer, custom) = (parts.errand, parts.webhook_signer, parts.custom_stores);
        let remote = RemoteStores::new(errand, signer, Arc::clone(&metrics), timepiece.clone());
        let remote = Arc::new(remote);
        let files = TenantFileThreads::default();
        let (answers, threads) = (Arc::<LargeAnswers>::default(), Arc::<SkillThreads>::default());
        let data = DataStores::new(DataParts {
            config: config.clone(),
            entries: data,
            settings: Arc::clone(&approval),
            roster: roster.clone(),
            remote: Arc::clone(&remote),
            custom: custom.clone(),
            files: files.clone(),
            answers: Arc::clone(&answers),
            threads: Arc::clone(&threads),
            timepiece: timepiece.clone(),
        });
        let stores = Arc::new(TenantStores::new(StoreParts {
            config,
            skills,
            usage,
            approval: Arc::clone(&approval),
            roster: roster.clone(),
            remote: Arc::clone(&remote),
            custom,
            files,
            timepiece: timepiece.clone(),
        }));
        let log = Arc::new(ApprovalLog::new(Arc::clone(&approval), Arc::clone(&metrics), timepiece));
        Self(Arc::new(WorkshopComponents {
            callers,
            metrics,
            skills: Arc::new(TenantSkills::new(Arc::clone(&stores), log, Arc::clone(&changes))),
            catalogue: Arc::new(Catalogue::new(Arc::clone(&stores), Arc::clone(&threads))),
            answers,
            threads,
            approval_keys: ApprovalKeys::new(approval, roster, stores, data.clone(), remote, changes),
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
    pub fn skills(&self) -> &Arc<TenantSkills> {
        &self.0.skills
    }

    /// The catalogue of skills for agents.
    pub fn catalogue(&self) -> &Arc<Catalogue> {
        &self.0.catalogue
    }

    /// Threads for work on the texts of skills.
    pub(crate) fn threads(&self) -> &Arc<SkillThreads> {
        &self.0.threads
    }

    /// Waits until a large answer may be built for a tenant.
    pub async fn answer_turn(&self, tenant: &TenantId) -> Result<AnswerTurn, Problem> {
        self.0.answers.turn(tenant).await
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
