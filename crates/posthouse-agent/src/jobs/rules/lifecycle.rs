//! Rules for create, update, pause, resume and run now.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::cron::schedule::{Schedule, ScheduleKind, iso};
use crate::jobs::{Fault, Job, JobChange, JobStoreSettings, NewJob};

/// Fields that only the verbs write. Others refer to the id, and the claims belong to their owners.
const FIXED: [&str; 4] = ["id", "fire_claim", "run_claim", "posthouse"];
/// Characters of a prompt that make a default name.
const NAME: usize = 50;

pub(in crate::jobs) fn create(
    new: &NewJob,
    id: &str,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> Result<Job, Fault> {
    let schedule = Schedule::parse(&new.schedule, store_settings.dialect, now, &store_settings.zone)?;
    let next = first_run(&schedule, now, store_settings)?;
    let once = matches!(schedule.kind(), ScheduleKind::Once { .. });
    let times = new.repeat.filter(|times| *times > 0).or(once.then_some(1));
    let name = new.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| name_from(&new.prompt));
    // Every field that the stock agent writes, so that it can run the job too.
    let record = json!({
        "id": id,
        "name": name,
        "prompt": new.prompt,
        "skills": [],
        "skill": null,
        "model": null,
        "provider": null,
        "provider_snapshot": null,
        "model_snapshot": null,
        "base_url": null,
        "script": null,
        "no_agent": false,
        "context_from": null,
        "schedule": schedule.to_record(&store_settings.zone),
        "schedule_display": schedule.display(),
        "repeat": { "times": times, "completed": 0 },
        "enabled": true,
        "state": "scheduled",
        "paused_at": null,
        "paused_reason": null,
        "created_at": iso(now, &store_settings.zone),
        "next_run_at": iso(next, &store_settings.zone),
        "last_run_at": null,
        "last_status": null,
        "last_error": null,
        "last_delivery_error": null,
        "deliver": "local",
        "origin": null,
        "enabled_toolsets": null,
        "workdir": null,
    });
    let Value::Object(mut fields) = record else { unreachable!("the literal above is an object") };
    add(&mut fields, &new.fields)?;
    let mut job = Job { fields };
    job.set_policy(&new.policy);
    Ok(job)
}

pub(in crate::jobs) fn update(
    job: &Job,
    change: &JobChange,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> Result<Job, Fault> {
    let mut job = job.clone();
    add(&mut job.fields, &change.fields)?;
    if let Some(policy) = &change.policy {
        job.set_policy(policy);
    }
    if let Some(text) = &change.schedule {
        let schedule = Schedule::parse(text, store_settings.dialect, now, &store_settings.zone)?;
        job.set("schedule", schedule.to_record(&store_settings.zone));
        job.set("schedule_display", schedule.display());
        if job.text("state") != Some("paused") {
            let next = first_run(&schedule, now, store_settings)?;
            job.set_time("next_run_at", Some(next), &store_settings.zone);
        }
    }
    // A live job without a next run would never run again.
    if job.is_live()
        && job.text("next_run_at").is_none()
        && let Some(schedule) = job.schedule(&store_settings.zone)
    {
        let next = first_run(&schedule, now, store_settings)?;
        job.set_time("next_run_at", Some(next), &store_settings.zone);
    }
    Ok(job)
}

pub(in crate::jobs) fn pause(
    job: &Job,
    reason: Option<&str>,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> Job {
    let mut job = job.clone();
    job.set("enabled", false);
    job.set("state", "paused");
    job.set_time("paused_at", Some(now), &store_settings.zone);
    job.set("paused_reason", reason);
    job
}

pub(in crate::jobs) fn resume(
    job: &Job,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> Result<Job, Fault> {
    let next = job
        .schedule(&store_settings.zone)
        .map(|schedule| first_run(&schedule, now, store_settings))
        .transpose()?;
    Ok(awake(job, next, store_settings))
}

pub(in crate::jobs) fn run_now(job: &Job, now: Timestamp, store_settings: &JobStoreSettings) -> Job {
    awake(job, Some(now), store_settings)
}

fn awake(job: &Job, next: Option<Timestamp>, store_settings: &JobStoreSettings) -> Job {
    let mut job = job.clone();
    job.set("enabled", true);
    job.set("state", "scheduled");
    job.set("paused_at", Value::Null);
    job.set("paused_reason", Value::Null);
    job.set_time("next_run_at", next, &store_settings.zone);
    job
}

/// A one-shot too far in the past would be stored and never run, so it is refused.
fn first_run(
    schedule: &Schedule,
    now: Timestamp,
    store_settings: &JobStoreSettings,
) -> Result<Timestamp, Fault> {
    schedule.next(None, now, &store_settings.zone)?.ok_or_else(|| match schedule.kind() {
        ScheduleKind::Once { run_at } => Fault::Past(iso(*run_at, &store_settings.zone)),
        ScheduleKind::Interval { .. } | ScheduleKind::Cron { .. } => {
            Fault::Past(schedule.display().to_owned())
        }
    })
}

fn add(fields: &mut Map<String, Value>, more: &Map<String, Value>) -> Result<(), Fault> {
    if let Some(fixed) = FIXED.iter().find(|name| more.contains_key(**name)) {
        return Err(Fault::Fixed((*fixed).to_owned()));
    }
    fields.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
    Ok(())
}

fn name_from(prompt: &str) -> String {
    let name: String = prompt.chars().take(NAME).collect();
    let name = name.trim();
    if name.is_empty() { "cron job".to_owned() } else { name.to_owned() }
}
