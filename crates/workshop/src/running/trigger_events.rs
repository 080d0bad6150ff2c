//! Events: a program names one, and the run of the skill that has a trigger for it is queued.

use ledger::{NewRun, TriggerRecord};
use posthouse_wire::{DispatchId, RunId, TenantId};
use serde_json::{Map, Value};

use super::triggers::Triggers;
use crate::fault::Fault;
use crate::store_refusal::StoreRefusal;

/// Largest parameters of an event, as JSON.
const PARAMS_BYTES: usize = 256 * 1024;

/// What became of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    Queued(RunId),
    /// No skill of the tenant has a trigger for it.
    Unknown,
    /// The parameters are not exactly the variables of the skill.
    Mismatch {
        declared: Vec<String>,
        missing: Vec<String>,
        extra: Vec<String>,
    },
    TooLarge,
    /// The tenant has too many runs that wait.
    QueueFull,
}

impl Triggers {
    /// Queues the run of the skill that waits for an event. `cause` is the message that led to the event.
    pub async fn event(
        &self,
        tenant: &TenantId,
        name: &str,
        params: Map<String, Value>,
        cause: Option<DispatchId>,
    ) -> Result<Result<EventOutcome, StoreRefusal>, Fault> {
        let triggers = match self.for_events(tenant).await? {
            Ok(triggers) => triggers,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (name, now) = (name.to_lowercase(), self.now());
        let found = triggers.into_iter().find(|found| {
            found.enabled
                && found.trigger.source == "event"
                && found.trigger.name == name
                && found.trigger.expires.is_none_or(|expires| now < expires)
        });
        let Some(found) = found else { return Ok(Ok(EventOutcome::Unknown)) };
        let declared = found.trigger.params.clone().unwrap_or_default();
        let missing: Vec<String> =
            declared.iter().filter(|name| !params.contains_key(*name)).cloned().collect();
        let extra: Vec<String> = params.keys().filter(|name| !declared.contains(name)).cloned().collect();
        if !missing.is_empty() || !extra.is_empty() {
            return Ok(Ok(EventOutcome::Mismatch { declared, missing, extra }));
        }
        let inputs = Value::Object(params).to_string();
        if inputs.len() > PARAMS_BYTES {
            return Ok(Ok(EventOutcome::TooLarge));
        }
        let id = RunId::mint(now.millis());
        let run = self.run_of(tenant, &found, id.clone(), now).await?;
        let run = NewRun { inputs: Some(inputs), cause, ..run };
        Ok(Ok(match self.queue.add(run).await? {
            true => EventOutcome::Queued(id),
            false => EventOutcome::QueueFull,
        }))
    }

    /// The triggers that an event can have. A store outside of the server would be read for each event, so the
    /// triggers of its skills are the stored ones, unless this server has changed its skills since they were read.
    async fn for_events(&self, tenant: &TenantId) -> Result<Result<Vec<TriggerRecord>, StoreRefusal>, Fault> {
        let skills = self.runs.workshop().skills();
        if skills.changes().unread(tenant).is_none() && skills.is_foreign(tenant).await? {
            return Ok(Ok(self.records.triggers(tenant).await?.0));
        }
        self.list(tenant).await
    }
}
