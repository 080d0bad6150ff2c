//! Rate at which this disk stores arms from 64 callers, their size in the file, the time to fill the clock's
//! heap from it, and the rate of claiming and settling them.
//!
//! `cargo run --profile fast -p ledger --example arm_rate [ARMS] [JOBS_AN_INSTANCE]`

use std::sync::Arc;

use ledger::{
    ArmFate, ArmKey, ArmResult, Armed, Arms, Due, Fault, FireAttempt, Generation, Instance, Ledger, Location,
    NewArm, Tenant,
};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{FireAt, FireProof, Policy, Provision};
use posthouse_wire::{InstanceId, JobId, ScheduleId};

const CALLERS: usize = 64;
const QUOTA: u32 = 1_000;
const PAGE: u32 = 10_000;
/// Arms per claim.
const CLAIM: usize = 512;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut given = std::env::args().skip(1);
    let arms: usize = given.next().map_or(Ok(100_000), |count| count.parse())?;
    let jobs: usize = given.next().map_or(Ok(100), |count| count.parse())?;
    let folder = tempfile::tempdir_in(".")?;
    let clock = Timepiece::wall();
    let ledger = Ledger::open(Location::Folder(folder.path().to_owned()), clock.clone()).await?;
    let instances = enrol(&ledger, arms.div_ceil(jobs), clock.now()).await?;

    let start = clock.now();
    let callers: Vec<_> = (0..CALLERS)
        .map(|caller| {
            let mine: Vec<_> = instances.iter().skip(caller).step_by(CALLERS).cloned().collect();
            tokio::spawn(arm(ledger.arms(), mine, jobs, clock.clone()))
        })
        .collect();
    let mut took = Vec::with_capacity(arms);
    for caller in callers {
        took.extend(caller.await??);
    }
    let seconds = clock.now().since(start).as_secs_f64();
    took.sort_unstable();
    println!("{:.0} arms/s, p99 {} ms", took.len() as f64 / seconds, took[took.len() * 99 / 100]);
    println!("{:.1} arms a commit", took.len() as f64 / ledger.commits() as f64);

    let start = clock.now();
    let due = fill(&*ledger.arms()).await?;
    println!("{} due in {:.2} s", due.len(), clock.now().since(start).as_secs_f64());

    let start = clock.now();
    let lists = 200;
    for instance in instances.iter().cycle().take(lists) {
        ledger.arms().listing(instance, 10_000).await?;
    }
    println!("{:.2} ms a listing", clock.now().since(start).as_secs_f64() * 1000.0 / lists as f64);

    let copy = folder.path().join("copy.db");
    ledger.facts().backup(&copy).await?;
    println!("{:.0} bytes an arm in the file", std::fs::metadata(&copy)?.len() as f64 / due.len() as f64);
    std::fs::remove_file(copy)?;

    let start = clock.now();
    let fired: Vec<_> = due.iter().take(50_000).map(|due| due.key).collect();
    for keys in fired.chunks(CLAIM) {
        fire(&ledger, keys, &clock).await?;
    }
    let seconds = clock.now().since(start).as_secs_f64();
    println!("{:.0} fires/s claimed and settled", fired.len() as f64 / seconds);
    Ok(())
}

async fn enrol(ledger: &Ledger, count: usize, now: Moment) -> Result<Vec<InstanceId>, Fault> {
    let roster = ledger.roster();
    roster.create_tenant(Tenant { id: "ten_1".into(), name: "acme".to_owned(), created: now }).await?;
    let mut joining = tokio::task::JoinSet::new();
    let instances: Vec<_> = (0..count).map(|_| InstanceId::mint(now.millis())).collect();
    for id in &instances {
        let (roster, id) = (Arc::clone(&roster), id.clone());
        joining.spawn(async move {
            let instance = Instance {
                name: id.to_string(),
                id,
                tenant: "ten_1".into(),
                wake_url: None,
                callback_url: None,
                generation: Generation::Auto,
                idle: false,
                created: now,
            };
            roster.create_instance(instance).await
        });
    }
    while let Some(joined) = joining.join_next().await {
        joined.map_err(|_| Fault::Closed)??;
    }
    Ok(instances)
}

/// Milliseconds of each call.
async fn arm(
    arms: Arc<dyn Arms>,
    instances: Vec<InstanceId>,
    jobs: usize,
    clock: Timepiece,
) -> Result<Vec<u128>, Fault> {
    let mut took = Vec::with_capacity(instances.len() * jobs);
    for (which, instance) in instances.iter().enumerate() {
        for number in 0..jobs {
            let now = clock.now();
            let job = JobId::new(format!("ab12cd34{number:04}"));
            let spread = (which * jobs + number) as i64 * 7_919 % 900_000_000;
            let fire_at = FireAt::from_micros(now.millis() * 1000 + spread);
            let new = NewArm {
                instance: instance.clone(),
                schedule: ScheduleId::mint(now.millis()),
                dedup: Provision::dedup_key(&job, &fire_at),
                job,
                next_us: fire_at.due_us(),
                fire_at,
                callback: Some("https://agent.example".to_owned()),
                proof: FireProof::PortalJwt,
                policy: Policy::default(),
                then: Vec::new(),
            };
            match arms.arm(new, QUOTA, now).await? {
                Armed::New { .. } => took.push(clock.now().since(now).as_millis()),
                other => return Err(Fault::Storage(format!("{other:?}"))),
            }
        }
    }
    Ok(took)
}

async fn fill(arms: &dyn Arms) -> Result<Vec<Due>, Fault> {
    let (mut all, mut last) = (Vec::new(), Due { next_us: i64::MIN, key: ArmKey(0) });
    loop {
        let page = arms.due(last, i64::MAX, PAGE).await?;
        let Some(end) = page.last() else { return Ok(all) };
        last = *end;
        all.extend(page);
    }
}

async fn fire(ledger: &Ledger, keys: &[ArmKey], clock: &Timepiece) -> Result<(), Fault> {
    let now = clock.now();
    let held = ledger.arms().claim(keys.to_vec(), "server", now).await?;
    let mut settling = tokio::task::JoinSet::new();
    for arm in held {
        let arms = ledger.arms();
        settling.spawn(async move {
            let attempt = FireAttempt { status: Some(202), late_ms: 3, ..FireAttempt::default() };
            let ended =
                ArmResult::Ended { fate: ArmFate::Delivered, attempt, missed: Vec::new(), successor: None };
            arms.settle(arm.key, "server", ended, now).await
        });
    }
    while let Some(settled) = settling.join_next().await {
        settled.map_err(|_| Fault::Closed)??;
    }
    Ok(())
}
