//! Triggers of skills: which skills run at which times and events. Cron triggers are alarms in the clock.
//!
//! - The triggers in the headers of Approved skills are stored, and follow every change of the skills.
//! - A trigger only queues a run. Whether the skill may run is decided when the run begins.
//! - The run of a time or event has one id, so a repeated alarm after a crash does not run a skill twice.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use clock::{Alarms, FireOutcome, FireTarget};
use ledger::{Arm, NewRun, NewTrigger, SkillTriggers, TriggerRecord};
use post::Caller;
use posthouse_time::Moment;
use posthouse_wire::cron::Fired;
use posthouse_wire::{ClientId, RunId, TenantId};
use skill::{CronFields, SkillHeader, Status};

use super::run_queue::RunQueue;
use super::run_settings::MissedRuns;
use super::runs::Runs;
use super::trigger_alarms::{TARGET, TriggerAlarms};
use crate::fault::Fault;
use crate::skill_filter::SkillFilter;
use crate::skill_meta::TriggerSummary;
use crate::store_refusal::{RefusalReason, StoreRefusal};

/// A scheduled run that is later than this was missed.
const GRACE: Duration = Duration::from_secs(5 * 60);
const SKILLS_PER_PAGE: usize = 1000;

/// Triggers of all tenants.
pub struct Triggers {
    pub(super) records: Arc<dyn SkillTriggers>,
    alarms: TriggerAlarms,
    pub(super) runs: Runs,
    pub(super) queue: Arc<RunQueue>,
}

/// What became of a trigger that was to be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegisterOutcome {
    Added(TriggerRecord),
    /// Its cron expression cannot be read, or no date matches it.
    NeverFires,
    /// The tenant has too many triggers or alarms.
    TooMany,
}

/// What became of a trigger that was to be switched on or off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EnableOutcome {
    Changed(TriggerRecord),
    Absent,
    /// The tenant has too many alarms. The trigger stays switched off.
    TooMany,
}

/// The caller of a run that a trigger starts.
pub fn trigger_caller(tenant: &TenantId, trigger: &str) -> Caller {
    let client = ClientId::from(format!("trigger:{trigger}"));
    Caller { client, tenant: tenant.clone(), agent: None, attested: None }
}

impl Triggers {
    /// Creates the component and registers it with the clock.
    pub fn new(
        records: Arc<dyn SkillTriggers>,
        alarms: Alarms,
        runs: Runs,
        queue: Arc<RunQueue>,
    ) -> Arc<Self> {
        let alarms = TriggerAlarms::new(alarms, Arc::clone(runs.resources()));
        let triggers = Arc::new(Self { records, alarms, runs, queue });
        triggers.alarms.register(Arc::new(TriggerTarget(Arc::downgrade(&triggers))));
        triggers
    }

    pub(super) fn now(&self) -> Moment {
        self.runs.timepiece().now()
    }

    /// Sets the alarms of all cron triggers again. The server may have crashed before one was set. What fails for one
    /// tenant ends only its own.
    pub async fn set_alarms_again(&self) -> Result<(), Fault> {
        for tenant in self.records.tenants_with_cron().await? {
            if let Err(fault) = self.set_alarms_of(&tenant).await {
                tracing::error!(%fault, %tenant, "the alarms of a tenant's cron triggers could not be set");
            }
        }
        Ok(())
    }

    async fn set_alarms_of(&self, tenant: &TenantId) -> Result<(), Fault> {
        let (triggers, _) = self.records.triggers(tenant).await?;
        for trigger in &triggers {
            self.alarms.set(tenant, trigger, self.now()).await?;
        }
        Ok(())
    }

    /// The triggers of a tenant, after they have followed its skills.
    pub async fn list(&self, tenant: &TenantId) -> Result<Result<Vec<TriggerRecord>, StoreRefusal>, Fault> {
        self.follow(tenant, self.now()).await
    }

    /// Makes the triggers of a tenant those of its skills. A time that has passed since `since` is not missed.
    pub(super) async fn follow(
        &self,
        tenant: &TenantId,
        since: Moment,
    ) -> Result<Result<Vec<TriggerRecord>, StoreRefusal>, Fault> {
        let changes = self.runs.workshop().skills().changes();
        let change = changes.unread(tenant);
        let followed = self.follow_skills(tenant, since).await?;
        if followed.is_ok() {
            changes.note_read(tenant, change);
        }
        Ok(followed)
    }

    async fn follow_skills(
        &self,
        tenant: &TenantId,
        since: Moment,
    ) -> Result<Result<Vec<TriggerRecord>, StoreRefusal>, Fault> {
        let by = trigger_caller(tenant, "list");
        let skills = self.runs.workshop().skills();
        let version = match skills.version(&by).await? {
            Ok(version) => version,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let (known, follows) = self.records.triggers(tenant).await?;
        if version.is_some() && follows == version {
            return Ok(Ok(known));
        }
        let mut declared = Vec::new();
        let mut filter = SkillFilter { status: Some(vec![Status::Approved]), ..SkillFilter::default() };
        loop {
            let page = match skills.page(&by, filter.clone(), SKILLS_PER_PAGE).await? {
                Ok(page) => page,
                Err(refusal) => return Ok(Err(refusal)),
            };
            for skill in &page.items {
                let triggers = skill.summary.triggers.iter();
                declared.extend(triggers.map(|trigger| {
                    new_trigger(&skill.name, &trigger.source, &trigger.name, &skill.summary.vars, true)
                }));
            }
            match page.next {
                Some(next) => filter.after = Some(next),
                None => break,
            }
        }
        let all = match version {
            // The store has no version, so its triggers are compared with the stored ones.
            None if is_declared(&known, &declared) => return Ok(Ok(known)),
            version => {
                let version = version.unwrap_or_default();
                self.records.follow_skills(tenant, declared, &version, self.now()).await?
            }
        };
        let numbers = |of: &[TriggerRecord]| -> HashSet<i64> { of.iter().map(|of| of.number).collect() };
        let (before, now) = (numbers(&known), numbers(&all));
        for gone in before.difference(&now) {
            self.alarms.unset(tenant, *gone).await?;
        }
        for trigger in all.iter().filter(|trigger| !before.contains(&trigger.number)) {
            self.alarms.set(tenant, trigger, since).await?;
        }
        Ok(Ok(all))
    }

    /// Adds a trigger that no header declares.
    pub async fn register(
        &self,
        tenant: &TenantId,
        skill: &str,
        source: &str,
        name: &str,
        expires: Option<Moment>,
    ) -> Result<Result<RegisterOutcome, StoreRefusal>, Fault> {
        if source == "cron" && !CronFields::read(name).is_some_and(|fields| fields.can_match()) {
            return Ok(Ok(RegisterOutcome::NeverFires));
        }
        let by = trigger_caller(tenant, "register");
        if let Err(refusal) = self.list(tenant).await? {
            return Ok(Err(refusal));
        }
        let loaded = match self.runs.workshop().skills().load(&by, skill, None).await? {
            Ok(loaded) => loaded,
            Err(refusal) => return Ok(Err(refusal)),
        };
        let vars =
            SkillHeader::parse(&loaded.source).vars.into_iter().map(|var| var.name).collect::<Vec<_>>();
        let new = NewTrigger { expires, ..new_trigger(skill, source, name, &vars, false) };
        let Some(added) = self.records.add_trigger(tenant, new, self.now()).await? else {
            return Ok(Ok(RegisterOutcome::TooMany));
        };
        if !self.alarms.set(tenant, &added, self.now()).await? {
            self.records.remove_trigger(tenant, added.number).await?;
            return Ok(Ok(RegisterOutcome::TooMany));
        }
        Ok(Ok(RegisterOutcome::Added(added)))
    }

    /// False if there is no such trigger.
    pub async fn remove(&self, tenant: &TenantId, number: i64) -> Result<bool, Fault> {
        let removed = self.records.remove_trigger(tenant, number).await?;
        if removed {
            self.alarms.unset(tenant, number).await?;
        }
        Ok(removed)
    }

    pub async fn enable(
        &self,
        tenant: &TenantId,
        number: i64,
        enabled: bool,
    ) -> Result<EnableOutcome, Fault> {
        let Some(changed) = self.records.enable_trigger(tenant, number, enabled).await? else {
            return Ok(EnableOutcome::Absent);
        };
        if !changed.enabled {
            self.alarms.unset(tenant, changed.number).await?;
        } else if !self.alarms.set(tenant, &changed, self.now()).await? {
            // Without an alarm it would count as enabled and never fire.
            self.records.enable_trigger(tenant, number, false).await?;
            return Ok(EnableOutcome::TooMany);
        }
        Ok(EnableOutcome::Changed(changed))
    }

    /// The run of a trigger, to be queued.
    pub(super) async fn run_of(
        &self,
        tenant: &TenantId,
        of: &TriggerRecord,
        id: RunId,
        fired: Moment,
    ) -> Result<NewRun, Fault> {
        let trigger_id = trigger_id(of.number);
        let by = trigger_caller(tenant, &trigger_id);
        Ok(NewRun {
            id,
            tenant: tenant.clone(),
            skill: of.trigger.skill.clone(),
            version: None,
            source: of.trigger.source.clone(),
            trigger_name: of.trigger.name.clone(),
            caller: by.client.to_string(),
            trigger_id: Some(trigger_id),
            fired,
            inputs: None,
            repeatable: self.runs.is_repeatable(&by, &of.trigger.skill).await?,
            cause: None,
        })
    }

    /// Handles a due alarm: queues the run, then sets the next alarm. Both can be repeated.
    async fn fire(&self, arm: &Arm) -> Result<bool, Fault> {
        let (tenant, due) = (&arm.tenant, Moment::from_millis(arm.fire_at.due_ms()));
        let mut job = arm.job.as_str().split('/').map(|part| part.parse::<i64>().ok());
        let number = job.next().flatten();
        // The alarm comes after the time by its jitter.
        let time = job.next().flatten().map_or(due, Moment::from_millis);
        let found = match number {
            Some(number) => self.records.trigger(tenant, number).await?,
            None => None,
        };
        let Some(found) = found.filter(|found| found.enabled) else { return Ok(true) };
        let found = &found;
        let now = self.now();
        let settings = self.runs.resources().settings(tenant).await?;
        // Times that passed during the jitter of this one are not missed.
        let jitter = i64::try_from(settings.jitter_seconds).unwrap_or_default() * 1000;
        let after = time.max(Moment::from_millis(now.millis() - jitter));
        if !self.is_still_declared(tenant, &found.trigger).await? {
            // The next alarm is set all the same, because the skill may declare it again before the change is followed.
            let is_set = self.alarms.set(tenant, found, after).await?;
            self.runs.workshop().skills().changes().note(tenant, now);
            return Ok(is_set);
        }
        let is_missed = now > Moment::from_millis(time.millis() + jitter) + GRACE;
        if is_missed && settings.missed_runs == MissedRuns::Skip {
            tracing::warn!(%tenant, skill = found.trigger.skill, "a scheduled run was missed and is skipped");
        } else {
            let run = self.run_of(tenant, found, run_id(tenant, arm.job.as_str()), time).await?;
            if !self.queue.add(run).await? {
                return Ok(false);
            }
        }
        // Without an alarm for the next time, this one stays until there is room for it.
        self.alarms.set(tenant, found, after).await
    }

    /// Whether the skill of a trigger is Approved and still has it in its header. A change that nobody has followed yet
    /// counts at once. If the skill cannot be read now, its trigger stays.
    async fn is_still_declared(&self, tenant: &TenantId, trigger: &NewTrigger) -> Result<bool, Fault> {
        if !trigger.declarative {
            return Ok(true);
        }
        let by = trigger_caller(tenant, "fire");
        Ok(match self.runs.workshop().skills().metadata(&by, &trigger.skill).await? {
            Ok(skill) => {
                let mut declared = skill.summary.triggers.iter();
                let is_it =
                    |other: &TriggerSummary| other.source == trigger.source && other.name == trigger.name;
                skill.status == Status::Approved && declared.any(is_it)
            }
            Err(refusal) => !matches!(refusal.reason, RefusalReason::SkillNotFound { .. }),
        })
    }
}

/// Whether the declarative ones of the known triggers are exactly these.
fn is_declared(known: &[TriggerRecord], declared: &[NewTrigger]) -> bool {
    let stored: HashSet<_> = known
        .iter()
        .map(|known| &known.trigger)
        .filter(|known| known.declarative)
        .map(trigger_facts)
        .collect();
    let declared: HashSet<_> = declared.iter().map(trigger_facts).collect();
    stored == declared
}

fn trigger_facts(trigger: &NewTrigger) -> (&str, &str, &str, Option<&[String]>) {
    (&trigger.skill, &trigger.source, &trigger.name, trigger.params.as_deref())
}

/// The id of a trigger as the reference runtime writes it.
pub fn trigger_id(number: i64) -> String {
    format!("trig-{number}")
}

/// The run of one alarm has always the same id.
fn run_id(tenant: &TenantId, job: &str) -> RunId {
    let hash = digest(&SHA256, format!("{tenant}/{job}").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_ref()[..16]);
    format!("run_{}", uuid::Builder::from_custom_bytes(bytes).into_uuid().simple()).into()
}

fn new_trigger(skill: &str, source: &str, name: &str, vars: &[String], declarative: bool) -> NewTrigger {
    let is_event = source == "event";
    NewTrigger {
        skill: skill.to_owned(),
        source: source.to_owned(),
        name: if is_event { name.to_lowercase() } else { name.to_owned() },
        params: is_event.then(|| vars.to_vec()),
        declarative,
        expires: None,
    }
}

/// Triggers as the clock's target. A weak reference, because they hold the clock's alarms.
struct TriggerTarget(Weak<Triggers>);

#[async_trait]
impl FireTarget for TriggerTarget {
    async fn fire(&self, arm: &Arm) -> FireOutcome {
        let Some(triggers) = self.0.upgrade() else {
            let why = "skills are not run any more".to_owned();
            return FireOutcome::NoAnswer { why, nothing_was_sent: true };
        };
        match triggers.fire(arm).await {
            Ok(true) => FireOutcome::Accepted { status: 200, fired: Fired::Accepted },
            Ok(false) => FireOutcome::Refused { status: 429, retry_after: None },
            Err(fault) => {
                tracing::error!(%fault, "a scheduled run could not be queued");
                let why = "the server could not queue the run".to_owned();
                FireOutcome::NoAnswer { why, nothing_was_sent: true }
            }
        }
    }

    fn host(&self, arm: &Arm) -> String {
        format!("{TARGET}/{}", arm.tenant)
    }
}
