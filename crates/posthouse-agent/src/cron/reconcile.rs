//! Reconciliation: makes the portal's arms match the jobs.

use std::collections::HashSet;

use futures_util::StreamExt;
use futures_util::stream;
use jiff::Timestamp;
use parking_lot::Mutex;
use posthouse_wire::JobId;
use posthouse_wire::cron::{FireProof, Provision};

use super::arm_request::{ArmRequest, WantedArm, arm_request};
use super::{Chronos, Cron, PortalError};

/// Parallel calls to the portal.
const AT_A_TIME: usize = 8;

/// Result of one reconciliation.
#[derive(Debug, Default)]
pub(super) struct ReconcileResult {
    /// The first failure, and the number of failures.
    pub first_error: Option<String>,
    pub errors: usize,
    /// The portal refuses this identity.
    pub refused: Option<String>,
    /// Time of the next round even if nothing has changed: a claim may have lapsed by then.
    pub again: Option<Timestamp>,
}

/// One call to the portal.
enum PortalCall {
    Arm { job: JobId, arm: Box<WantedArm> },
    Cancel(JobId),
}

/// Reads the jobs and makes the calls that the portal needs. A failed call does not stop the others.
pub(super) async fn reconcile(cron: &Cron, chronos: &Chronos) -> ReconcileResult {
    let round = Mutex::new(ReconcileResult::default());
    let wants_listing = cron.0.known_arms.lock().wants_listing();
    if wants_listing {
        match chronos.portal.list().await {
            Ok(listing) => cron.0.known_arms.lock().learn(listing),
            Err(error) => round.lock().note("list", None, error),
        }
    }
    cron.0.known_arms.lock().before_reading();
    // Read after the listing, so that a job created meanwhile does not count as an orphan.
    let jobs = match cron.0.store.list().await {
        Ok(jobs) => jobs,
        Err(fault) => {
            round.lock().note("read the jobs", None, PortalError::Passing(fault.to_string()));
            return round.into_inner();
        }
    };
    let mut requests = Vec::with_capacity(jobs.len());
    for job in &jobs {
        let request = arm_request(job, cron.now(), &cron.0.store_settings.zone);
        if let ArmRequest::Leave { until } = &request {
            let mut round = round.lock();
            round.again = Some(round.again.map_or(*until, |again| again.min(*until)));
        }
        requests.push((job.id(), request));
    }
    let calls = calls_to_make(cron, chronos, requests);
    let round = &round;
    stream::iter(calls)
        .for_each_concurrent(AT_A_TIME, |call| async move {
            // One such refusal ends the round.
            let over = round.lock().refused.is_some();
            if over {
                return;
            }
            let (what, job) = match &call {
                PortalCall::Arm { job, .. } => ("arm", job),
                PortalCall::Cancel(job) => ("cancel", job),
            };
            if let Err(error) = make_call(cron, chronos, &call).await {
                round.lock().note(what, Some(job), error);
            }
        })
        .await;
    std::mem::take(&mut *round.lock())
}

/// The calls to make: missing arms, the soonest first, then arms that no job wants.
fn calls_to_make(cron: &Cron, chronos: &Chronos, requests: Vec<(JobId, ArmRequest)>) -> Vec<PortalCall> {
    let known_arms = cron.0.known_arms.lock();
    let mut orphans = known_arms.jobs();
    let wanted: HashSet<&JobId> =
        requests.iter().filter(|(_, request)| *request != ArmRequest::Nothing).map(|(job, _)| job).collect();
    orphans.retain(|armed| !wanted.contains(armed) && !known_arms.is_moving(armed));
    let mut arms = Vec::new();
    for (job, request) in requests {
        let ArmRequest::Arm(arm) = request else { continue };
        if known_arms.is_moving(&job) {
            continue;
        }
        let keyless = chronos.proof == FireProof::PerJobKey && !chronos.keys.holds(&job);
        if keyless || known_arms.lacks(&job, &arm, cron.now()) {
            arms.push((job, arm));
        }
    }
    arms.sort_by_key(|(_, arm)| arm.fire_at.due_us());
    let arms = arms.into_iter().map(|(job, arm)| PortalCall::Arm { job, arm });
    arms.chain(orphans.into_iter().map(PortalCall::Cancel)).collect()
}

async fn make_call(cron: &Cron, chronos: &Chronos, call: &PortalCall) -> Result<(), PortalError> {
    match call {
        PortalCall::Cancel(job) => {
            chronos.portal.cancel(job).await?;
            cron.0.known_arms.lock().cancelled(job);
            chronos.keys.forget(job);
        }
        PortalCall::Arm { job, arm } => {
            if arm.abandoned {
                chronos.portal.cancel(job).await?;
            }
            let request = Provision {
                job: job.clone(),
                fire_at: arm.fire_at.clone(),
                callback: chronos.callback.clone(),
                dedup: Provision::dedup_key(job, &arm.fire_at),
                proof: chronos.proof,
                policy: arm.policy.clone(),
                then: arm.then.clone(),
            };
            // Recorded before the call: a due job fires before the answer arrives, and its fire must find
            // this record.
            let before = cron.0.known_arms.lock().arming(&request);
            match chronos.portal.provision(&request).await {
                Ok(provisioned) => {
                    if let Some(key) = provisioned.cron_key {
                        chronos.keys.keep(job, key);
                    }
                }
                Err(error) => {
                    cron.0.known_arms.lock().not_armed(&request, before);
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

impl ReconcileResult {
    pub(super) fn went_well(&self) -> bool {
        self.errors == 0
    }

    fn note(&mut self, what: &str, job: Option<&JobId>, error: PortalError) {
        self.errors += 1;
        let job = job.map(|job| format!(" {job}")).unwrap_or_default();
        tracing::debug!("cannot {what}{job}: {error}");
        match error {
            PortalError::Identity(why) => {
                self.refused.get_or_insert(why);
            }
            PortalError::Passing(why) => {
                self.first_error.get_or_insert(format!("cannot {what}{job}: {why}"));
            }
        }
    }
}
