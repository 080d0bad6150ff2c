//! Arming and cancelling jobs: one pending arm per job, which a newer one replaces.

use std::sync::Arc;

use errand::{Errand, UrlRefusal};
use ledger::{Armed, Arms, Due, Instance, NewArm};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::cron::{BadField, FireAt, FireProof, Policy, Provision, Provisioned};
use posthouse_wire::{InstanceId, JobId, ScheduleId};
use vault::Signer;

use crate::heap::Heap;
use crate::leases::Leases;
use crate::metrics::ArmLabel;
use crate::prewake::Prewake;
use crate::{Fault, Metrics, retry};

/// Largest distance of a due time from now: ten years.
const FURTHEST_MS: i64 = 10 * 366 * 24 * 3600 * 1000;
/// Largest jitter, in seconds. A larger one would amount to another schedule.
const LARGEST_JITTER: u32 = 3600;
/// Arming a fire again is suspicious if the fire was accepted at most this long after its due time: the
/// agent's clock may run behind ours (contract section 3.2).
const SUSPICIOUS_MS: i64 = 2_000;

/// Answer to an arm request.
pub(crate) enum ArmAnswer {
    Scheduled(Provisioned),
    Malformed(BadField),
    /// The callback URL is not allowed; the text says why.
    NotAllowed(String),
    OverQuota,
}

/// Arms and cancels the jobs of agents.
pub(crate) struct Arming {
    arms: Arc<dyn Arms>,
    heap: Arc<Heap>,
    leases: Arc<Leases>,
    prewake: Arc<Prewake>,
    signer: Signer,
    errand: Errand,
    /// Jobs that one agent may have armed.
    per_agent: u32,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

/// Dependencies of arming.
pub(crate) struct ArmingParts {
    pub arms: Arc<dyn Arms>,
    pub heap: Arc<Heap>,
    pub leases: Arc<Leases>,
    pub prewake: Arc<Prewake>,
    pub signer: Signer,
    pub errand: Errand,
    pub per_agent: u32,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
}

impl Arming {
    pub fn new(parts: ArmingParts) -> Self {
        let ArmingParts { arms, heap, leases, prewake, signer, errand, per_agent, metrics, timepiece } =
            parts;
        Self { arms, heap, leases, prewake, signer, errand, per_agent, metrics, timepiece }
    }

    pub async fn provision(&self, of: &Instance, request: Provision) -> Result<ArmAnswer, Fault> {
        let now = self.timepiece.now();
        if let Err(answer) = self.check(of, &request, now) {
            return Ok(answer);
        }
        let cron_key = match request.proof {
            FireProof::PerJobKey => Some(self.signer.cron_key(&of.id, &request.job)),
            FireProof::PortalJwt => None,
        };
        let (schedule, due_ms) = (ScheduleId::mint(now.millis()), request.fire_at.due_ms());
        let next_us = next_us(&of.id, &request.job, &request.fire_at, &request.policy);
        let new = NewArm {
            instance: of.id.clone(),
            job: request.job,
            schedule: schedule.clone(),
            fire_at: request.fire_at,
            callback: request.callback,
            dedup: request.dedup,
            proof: request.proof,
            policy: request.policy,
            then: request.then,
            next_us,
        };
        let armed = self.arms.arm(new, self.per_agent, now).await?;
        let count = |why| self.metrics.arms.get_or_create(&ArmLabel { why }).inc();
        let schedule = match armed {
            Armed::New { key, superseded } => {
                count(if superseded.is_some() { "replaced" } else { "new" });
                superseded.into_iter().for_each(|old| self.leases.drop_cancelled(old));
                self.heap.push(Due { next_us, key });
                self.prewake.plan_check(&of.id, next_us);
                schedule
            }
            Armed::Same { schedule, due } => {
                count("same");
                self.heap.push(due);
                schedule
            }
            Armed::Delivered { schedule, at } => {
                count("delivered");
                if due_ms >= at.millis() - SUSPICIOUS_MS {
                    self.metrics.dedup_suspect.inc();
                    tracing::warn!(instance.id = %of.id,
                        "an agent armed a fire again that it has just accepted; its clock may run behind the server's");
                }
                schedule
            }
            Armed::OverQuota => {
                count("over_quota");
                return Ok(ArmAnswer::OverQuota);
            }
        };
        Ok(ArmAnswer::Scheduled(Provisioned { schedule, cron_key }))
    }

    pub async fn cancel(&self, instance: &InstanceId, job: &JobId) -> Result<(), Fault> {
        // Drop it before answering: after the answer no attempt may begin.
        if let Some(key) = self.arms.cancel(instance, job, self.timepiece.now()).await? {
            self.leases.drop_cancelled(key);
        }
        Ok(())
    }

    fn check(&self, of: &Instance, request: &Provision, now: Moment) -> Result<(), ArmAnswer> {
        let malformed = |field, why: &str| Err(ArmAnswer::Malformed(BadField::new(field, why)));
        let last = request.then.last().unwrap_or(&request.fire_at);
        if last.due_ms().max(request.fire_at.due_ms()) > now.millis().saturating_add(FURTHEST_MS) {
            return malformed("fire_at", "is more than ten years ahead");
        }
        if request.then.first().is_some_and(|next| next.due_us() <= request.fire_at.due_us()) {
            return malformed("then", "must be later than `fire_at`");
        }
        if request.policy.jitter > LARGEST_JITTER {
            return malformed("policy", "has a `jitter` of more than one hour");
        }
        let Some(callback) = &request.callback else { return Ok(()) };
        let url = match self.errand.check_base(callback) {
            Ok(url) => url,
            Err(refusal @ (UrlRefusal::NotAUrl | UrlRefusal::TooLong)) => {
                return malformed("agent_callback_url", &refusal.to_string());
            }
            Err(refusal) => return Err(ArmAnswer::NotAllowed(refusal.to_string())),
        };
        let pinned = of.callback_url.as_deref().and_then(|pinned| self.errand.check_base(pinned).ok());
        match (&of.callback_url, pinned) {
            (None, _) => Ok(()),
            (Some(_), Some(pinned)) if pinned.origin() == url.origin() => Ok(()),
            (Some(_), _) => Err(ArmAnswer::NotAllowed(
                "the callback URL of this agent is pinned to another origin".to_owned(),
            )),
        }
    }
}

/// Due time of an arm plus the job's share of its jitter. The share is derived from the job's name and
/// never changes, so that a job keeps its period.
pub(crate) fn next_us(instance: &InstanceId, job: &JobId, fire_at: &FireAt, policy: &Policy) -> i64 {
    let span_us = u64::from(policy.jitter) * 1_000_000;
    if span_us == 0 {
        return fire_at.due_us();
    }
    let name = instance.as_str().bytes().chain(*b"/").chain(job.as_str().bytes());
    let seed = name.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let share = i64::try_from(retry::mixed(seed) % span_us).unwrap_or(0);
    fire_at.due_us().saturating_add(share)
}

#[cfg(test)]
mod tests {
    use crate::held::Stage;
    use crate::tests::CronRecords;

    #[tokio::test]
    async fn after_a_newer_arm_or_a_cancel_no_attempt_of_the_older_arm_begins() {
        let records = CronRecords::open().await;
        let leases = records.leases();
        let older = records.arm(&leases, "report", 1000).await;
        let claimed = leases.claim(vec![older.key]).await.unwrap();
        assert!(leases.hold(&claimed[0], Stage::Waiting));
        let newer = records.arm(&leases, "report", 2000).await;
        assert!(!leases.begin(&older), "it was replaced");
        records.arming(&leases).cancel(&records.heron, &"report".into()).await.unwrap();
        assert!(leases.claim(vec![newer.key]).await.unwrap().is_empty(), "it was cancelled");
        assert_eq!(records.heap.len(), 2, "entries of ended arms stay in the heap and find nothing");
    }
}
