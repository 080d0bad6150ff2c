//! Alarms of cron triggers: a trigger that can fire has one in the clock, for its next time.

use std::sync::Arc;

use clock::{Alarm, Alarms, FireTarget};
use ledger::TriggerRecord;
use posthouse_time::Moment;
use posthouse_wire::TenantId;
use skill::CronFields;

use super::cron_times::{jitter_of, next_minute};
use super::tenant_resources::TenantResources;
use crate::fault::Fault;

/// The name under which triggers are registered in the clock.
pub const TARGET: &str = "skill_triggers";

/// Sets and removes the alarms of triggers.
pub struct TriggerAlarms {
    alarms: Alarms,
    resources: Arc<TenantResources>,
}

impl TriggerAlarms {
    pub fn new(alarms: Alarms, resources: Arc<TenantResources>) -> Self {
        Self { alarms, resources }
    }

    /// What is called at the times of triggers.
    pub fn register(&self, target: Arc<dyn FireTarget>) {
        self.alarms.register(TARGET, target);
    }

    /// Sets the alarm of a trigger for its next time after `after`, if it has one. False if the tenant has too many
    /// alarms.
    pub async fn set(&self, tenant: &TenantId, of: &TriggerRecord, after: Moment) -> Result<bool, Fault> {
        if of.trigger.source != "cron" || !of.enabled {
            return Ok(true);
        }
        let next = CronFields::read(&of.trigger.name).and_then(|fields| next_minute(&fields, after));
        let Some(at) = next.filter(|at| of.trigger.expires.is_none_or(|expires| *at < expires)) else {
            return Ok(true);
        };
        // Each time has an alarm of its own, so that the next one can be set while this one is handled.
        let job = format!("{}{}", jobs_of(of.number), at.millis());
        let jitter = self.resources.settings(tenant).await?.jitter_seconds;
        let at = at + jitter_of(tenant, &job, jitter);
        let alarm = Alarm { target: TARGET, tenant: tenant.clone(), job: job.into(), at };
        let is_set = self.alarms.set(alarm).await.map_err(|fault| Fault::Io(fault.to_string()))?;
        if !is_set {
            let skill = &of.trigger.skill;
            tracing::warn!(%tenant, skill, "a tenant has too many alarms: a cron trigger is not set");
        }
        Ok(is_set)
    }

    /// Removes the alarms of a trigger, so that they take no place of others.
    pub async fn unset(&self, tenant: &TenantId, number: i64) -> Result<(), Fault> {
        let unset = self.alarms.unset_all(TARGET, tenant, &jobs_of(number)).await;
        unset.map_err(|fault| Fault::Io(fault.to_string()))
    }
}

/// The beginning of the jobs of all alarms of a trigger. Its time stands behind it.
fn jobs_of(number: i64) -> String {
    format!("{number}/")
}
