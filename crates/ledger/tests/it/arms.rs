//! Arms, tested sentence by sentence of the contract.

mod alarm;
mod history;
mod hold;
mod requests;
mod revive;

use std::time::Duration;

use ledger::{ArmFate, ArmKey, ArmResult, Armed, Due, FireAttempt, NewArm, Successor};
use posthouse_wire::cron::{FireAt, FireProof, Policy};
use posthouse_wire::{InstanceId, ScheduleId};

use crate::book::{Book, START};

const SERVER: &str = "server-1";
const QUOTA: u32 = 1000;

/// That many seconds after the start of the test, in microseconds.
fn at(seconds: i64) -> i64 {
    (START.millis() + seconds * 1000) * 1000
}

/// A request to arm `daily`, due that many seconds after the start of the test.
fn arm_request(instance: &InstanceId, seconds: i64) -> NewArm {
    let fire_at = FireAt::from_micros(at(seconds));
    NewArm {
        instance: instance.clone(),
        job: "daily".into(),
        schedule: ScheduleId::mint(START.millis()),
        dedup: format!("daily:{fire_at}"),
        next_us: fire_at.due_us(),
        fire_at,
        callback: Some("https://heron.example".to_owned()),
        proof: FireProof::PortalJwt,
        policy: Policy::default(),
        then: Vec::new(),
    }
}

fn about(instance: &InstanceId, job: &str, seconds: i64) -> NewArm {
    let new = arm_request(instance, seconds);
    NewArm { job: job.into(), dedup: format!("{job}:{}", new.fire_at), ..new }
}

fn delivered() -> ArmResult {
    ended(ArmFate::Delivered)
}

fn ended(fate: ArmFate) -> ArmResult {
    let attempt = FireAttempt { status: Some(202), late_ms: 7, ..FireAttempt::default() };
    ArmResult::Ended { fate, attempt, missed: Vec::new(), successor: None }
}

fn postponed(seconds: i64) -> ArmResult {
    ArmResult::Postponed { attempt: refused(), next_us: at(seconds), pause: Duration::ZERO, poked: false }
}

fn refused() -> FireAttempt {
    FireAttempt { status: Some(503), error: Some("draining".to_owned()), late_ms: 12, unsure: false }
}

fn followed_by(fate: ArmFate, seconds: i64) -> ArmResult {
    let ArmResult::Ended { attempt, missed, .. } = ended(fate) else { unreachable!() };
    let fire_at = FireAt::from_micros(at(seconds));
    let successor = Successor {
        schedule: ScheduleId::mint(START.millis()),
        dedup: format!("daily:{fire_at}"),
        next_us: fire_at.due_us(),
        fire_at,
        then: Vec::new(),
    };
    ArmResult::Ended { fate, attempt, missed, successor: Some(successor) }
}

impl Book {
    async fn requests(&self, new: NewArm) -> Armed {
        self.ledger.arms().arm(new, QUOTA, self.clock.now()).await.unwrap()
    }

    async fn arms(&self, new: NewArm) -> ArmKey {
        match self.requests(new).await {
            Armed::New { key, .. } => key,
            other => panic!("it should be new: {other:?}"),
        }
    }

    async fn cancels(&self, instance: &InstanceId) -> Option<ArmKey> {
        self.ledger.arms().cancel(instance, &"daily".into(), self.clock.now()).await.unwrap()
    }

    /// The arms that could be claimed.
    async fn claims(&self, keys: &[ArmKey], owner: &str) -> Vec<ArmKey> {
        let lease_until = self.clock.now() + std::time::Duration::from_secs(30);
        let held = self.ledger.arms().claim(keys.to_vec(), owner, lease_until).await.unwrap();
        held.iter().map(|arm| arm.key).collect()
    }

    async fn settles(&self, key: ArmKey, owner: &str, mut settled: ArmResult) -> Option<Due> {
        // The tests say when it is tried next.
        if let ArmResult::Postponed { next_us, pause, .. } = &mut settled {
            let now_us = self.clock.now().millis() * 1000;
            *pause = Duration::from_micros(u64::try_from(*next_us - now_us).unwrap_or(0));
        }
        self.ledger.arms().settle(key, owner, settled, self.clock.now()).await.unwrap()
    }

    /// Claimed and settled by the only server.
    async fn fires(&self, key: ArmKey, settled: ArmResult) -> Option<Due> {
        assert_eq!(self.claims(&[key], SERVER).await, [key]);
        self.settles(key, SERVER, settled).await
    }

    async fn pending(&self, instance: &InstanceId) -> ledger::Arm {
        self.ledger.arms().pending(instance, &"daily".into()).await.unwrap().expect("one is pending")
    }

    /// The arms that are due next, in order.
    async fn due(&self) -> Vec<ArmKey> {
        let first = Due { next_us: i64::MIN, key: ArmKey(0) };
        let due = self.ledger.arms().due(first, i64::MAX, 10_000).await.unwrap();
        due.iter().map(|due| due.key).collect()
    }

    async fn lines(&self, instance: &InstanceId) -> Vec<ledger::FireLine> {
        self.ledger.arms().history(instance, None, None, 1000).await.unwrap()
    }

    /// The words of the history, newest first.
    async fn words(&self, instance: &InstanceId) -> Vec<String> {
        self.lines(instance).await.into_iter().map(|line| line.what).collect()
    }
}
