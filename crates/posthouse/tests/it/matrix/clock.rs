//! Permission matrix of the clock's HTTP operations: the cron jobs of an agent.

use std::time::Duration;

use serde_json::{Value, json};

use super::actors::{Actors, RecordedResponse};
use super::doors::{self, DoorRequest, DoorRow, Probe, WrongCaller, asks, callers};
use super::{Cells, Name};
use crate::cron::{Armer, Callback, ahead};

/// Heron's jobs: one that has fired, and one that is due much later.
struct ClockThings {
    armer: Armer,
    callback: Callback,
    fired: Name,
    armed: Name,
    schedule: String,
}

impl ClockThings {
    async fn make(actors: &Actors) -> Self {
        let callback = Callback::open().await;
        let armer = Armer::new(&actors.server, &actors.heron, callback.of("heron")).await;
        let (fired, armed) =
            (Name::new("fired-heron", "fired-robin"), Name::new("armed-heron", "armed-robin"));
        armer.arms(&armer.provision(&fired.there, &ahead(Duration::ZERO))).await;
        callback.called(1).await;
        let later = armer.provision(&armed.there, &ahead(Duration::from_secs(3_600)));
        let schedule = armer.arms(&later).await["schedule_id"].as_str().unwrap().to_owned();
        Self { armer, callback, fired, armed, schedule }
    }
}

/// Whether nothing of heron's is in a response. Agents get an answer about their own jobs, everybody else is refused.
fn is_nothing_of_herons(heard: &RecordedResponse) -> bool {
    let is_known = heard.status == 200 && !heard.body.contains("heron");
    is_known || matches!(heard.status, 401 | 403)
}

fn about_job(at: &'static str) -> impl Fn(&str) -> DoorRequest {
    move |job| DoorRequest::to(at).json(&json!({ "job_id": job }))
}

fn row(actors: &Actors, things: &ClockThings, method: &str, at: &'static str) -> Option<DoorRow> {
    let all = actors.other_tenants.iter().chain(&actors.other_instances).chain(&actors.revoked);
    let all = callers(all.chain(&actors.unknown));
    let heron = WrongCaller::from(&actors.ours[2]);
    let probe = |name: &Name, request: Box<dyn Fn(&str) -> DoorRequest>| {
        Probe::new(name, request).refused_to(&all, is_nothing_of_herons)
    };
    match (method, at) {
        ("POST", "/api/agent-cron/provision") => {
            let (armer, later) = (things.armer.clone(), ahead(Duration::from_secs(7_200)));
            let arms = move |job: &str| DoorRequest::to(at).json(&armer.provision(job, &later).body());
            asks([probe(&things.armed, Box::new(arms)).varying("schedule_id")])
        }
        ("POST", "/api/agent-cron/cancel" | "/api/agent-cron/redrive") => asks([
            probe(&things.armed, Box::new(about_job(at))),
            probe(&things.fired, Box::new(about_job(at))),
        ]),
        ("GET", "/api/agent-cron/list") => {
            // The list names nothing; it must only not contain another's jobs.
            let mut others = all.clone();
            others.retain(|by| by.who.contains("umbrella"));
            let lists = Probe::new(&Name::new("", ""), move |_| DoorRequest::to(at));
            asks([lists.refused_to(&others, |heard| !heard.body.contains(r#"-heron""#))])
        }
        ("GET", "/api/agent-cron/history") => {
            let reads = move |job: &str| DoorRequest::to(&format!("{at}?job_id={job}"));
            asks([probe(&things.fired, Box::new(reads)).exists_for(&heron)])
        }
        ("POST", "/api/agent-cron/relay") => {
            let (instance, schedule) = (actors.instance.there.clone(), things.schedule.clone());
            let calls = move |job: &str| {
                let body = json!({ "instance_id": instance, "job_id": job, "schedule_id": schedule });
                DoorRequest::to(at).json(&body)
            };
            let signed = format!("t={},v1={}", i64::from(u32::MAX), "0".repeat(64));
            let mut all = all.clone();
            all.extend(callers(&actors.ours));
            all.push(WrongCaller::new("a wrong signature", &[("x-posthouse-signature", &signed)]));
            let probe = Probe::new(&things.armed, calls);
            asks([probe.refused_to(&all, |heard| heard.status == 401)])
        }
        ("GET", "/.well-known/jwks.json") => Some(DoorRow::Public),
        _ => None,
    }
}

pub async fn fill(actors: &Actors, cells: &mut Cells) {
    let things = ClockThings::make(actors).await;
    doors::fill(actors, cells, "clock", clock::OPERATIONS, |method, at| row(actors, &things, method, at))
        .await;
    is_undisturbed(&things).await;
}

/// Heron's job is armed as it was, and a job that heron arms last is the only further fire.
async fn is_undisturbed(things: &ClockThings) {
    let listed = things.armer.listed().await;
    let armed: Vec<&Value> = listed.iter().map(|arm| &arm["job_id"]).collect();
    assert_eq!(armed, [&json!(things.armed.there)], "{listed:?}");
    things.armer.arms(&things.armer.provision("marker", &ahead(Duration::ZERO))).await;
    let calls = things.callback.called(2).await;
    let jobs: Vec<&str> = calls.iter().map(|call| call.job.as_str()).collect();
    assert_eq!(jobs, [things.fired.there.as_str(), "marker"], "somebody fired a job of heron");
}
