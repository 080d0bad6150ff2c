//! Triggers of skills: which skill runs at which times or events.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::TenantId;

use crate::Fault;

/// Triggers that a tenant can have.
pub const TRIGGERS_OF_A_TENANT: usize = 10_000;

/// What a trigger says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTrigger {
    pub skill: String,
    /// `cron` or `event`.
    pub source: String,
    /// A cron expression, or the name of an event in lower case.
    pub name: String,
    /// The declared variables of the skill, for an event.
    pub params: Option<Vec<String>>,
    /// Whether it stands in the header of the skill.
    pub declarative: bool,
    pub expires: Option<Moment>,
}

/// A stored trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerRecord {
    /// Unique in its tenant, and never used again.
    pub number: i64,
    pub trigger: NewTrigger,
    pub enabled: bool,
    pub registered: Moment,
}

#[async_trait]
pub trait SkillTriggers: Send + Sync {
    /// The triggers of a tenant in the order of their numbers, and the version of the skills that they follow.
    async fn triggers(&self, of: &TenantId) -> Result<(Vec<TriggerRecord>, Option<String>), Fault>;
    async fn trigger(&self, of: &TenantId, number: i64) -> Result<Option<TriggerRecord>, Fault>;
    /// Makes the declarative triggers of a tenant these ones. Those that exist keep their number and whether they are
    /// enabled. An event name belongs to the trigger that was registered last. Returns all triggers.
    async fn follow_skills(
        &self,
        of: &TenantId,
        declared: Vec<NewTrigger>,
        version: &str,
        now: Moment,
    ) -> Result<Vec<TriggerRecord>, Fault>;
    /// Adds a trigger. An event name is taken away from the trigger that had it. `None` if there are too many.
    async fn add_trigger(
        &self,
        of: &TenantId,
        new: NewTrigger,
        now: Moment,
    ) -> Result<Option<TriggerRecord>, Fault>;
    /// False if there is no such trigger.
    async fn remove_trigger(&self, of: &TenantId, number: i64) -> Result<bool, Fault>;
    async fn enable_trigger(
        &self,
        of: &TenantId,
        number: i64,
        enabled: bool,
    ) -> Result<Option<TriggerRecord>, Fault>;
    /// Tenants that have cron triggers.
    async fn tenants_with_cron(&self) -> Result<Vec<TenantId>, Fault>;
}
