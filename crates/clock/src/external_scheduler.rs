//! Route for external schedulers (`/api/agent-cron/relay`), which report that an arm is due.
//!
//! The request only names an arm. The stored arm decides where to call and whether it is due.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_kit::sole_header;
use ledger::{Arm, ArmResult, Arms};
use moka::sync::Cache;
use posthouse_wire::cron::{SIGNATURE, TimedSignature};
use posthouse_wire::{InstanceId, JobId, ScheduleId};
use serde::Deserialize;
use serde_json::json;
use vault::Signer;

use crate::background::ClockTasks;
use crate::fire::Firing;
use crate::fire_targets::FireTargets;
use crate::held::Stage;
use crate::leases::Leases;
use crate::routes::{read_request_body, refused, unavailable, with_retry_after};
use crate::{Clock, Fault};

#[derive(Deserialize)]
struct Call {
    instance_id: InstanceId,
    job_id: JobId,
    schedule_id: ScheduleId,
}

/// Answer to the external scheduler.
enum SchedulerAnswer {
    /// The arm has ended; nothing is left to do.
    Over(&'static str),
    /// It should call again after this many seconds.
    NotYet { seconds: u32 },
    /// It should try again.
    Failed { error: &'static str, status: Option<u16> },
}

pub(crate) async fn relay(State(clock): State<Clock>, request: Request) -> Response {
    let unsigned = || {
        refused(
            StatusCode::UNAUTHORIZED,
            "invalid_signature",
            "the signature is missing, wrong, expired or already used",
        )
    };
    let (head, body) = request.into_parts();
    let stamp =
        sole_header(&head.headers, SIGNATURE).and_then(|value| TimedSignature::read(value.to_str().ok()?));
    let Some(stamp) = stamp else { return unsigned() };
    // The signature covers the body, so the body is read before the caller is authenticated.
    let body = match read_request_body(body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if !clock.0.external_schedulers.accepts(&stamp, &body) {
        return unsigned();
    }
    let Ok(call) = serde_json::from_slice::<Call>(&body) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "instance_id, job_id and schedule_id are required",
        );
    };
    match clock.0.external_schedulers.relayed(&call).await {
        Ok(SchedulerAnswer::Over(status)) => Json(json!({ "status": status })).into_response(),
        Ok(SchedulerAnswer::NotYet { seconds }) => {
            with_retry_after(refused(StatusCode::CONFLICT, "not_due", "the arm is not due yet"), seconds)
        }
        Ok(SchedulerAnswer::Failed { error, status }) => {
            (StatusCode::BAD_GATEWAY, Json(json!({ "error": error, "status": status }))).into_response()
        }
        Err(fault) => unavailable(&fault),
    }
}

/// Fires arms that external schedulers report as due.
pub(crate) struct ExternalSchedulers {
    /// Stamps that were used, kept for as long as they would be accepted.
    used_stamps: Cache<(i64, [u8; 32]), ()>,
    signer: Signer,
    arms: Arc<dyn Arms>,
    leases: Arc<Leases>,
    firing: Arc<Firing>,
    targets: Arc<FireTargets>,
    guard_us: i64,
    background: ClockTasks,
}

/// Dependencies of external schedulers.
pub(crate) struct ExternalSchedulerParts {
    pub signer: Signer,
    pub arms: Arc<dyn Arms>,
    pub leases: Arc<Leases>,
    pub firing: Arc<Firing>,
    pub targets: Arc<FireTargets>,
    pub guard_us: i64,
    pub background: ClockTasks,
}

impl ExternalSchedulers {
    pub fn new(parts: ExternalSchedulerParts) -> Self {
        let ExternalSchedulerParts { signer, arms, leases, firing, targets, guard_us, background } = parts;
        let used_stamps = Cache::builder()
            .max_capacity(1_000_000)
            .time_to_live(Duration::from_secs(3 * TimedSignature::WINDOW_SECONDS))
            .build();
        Self { used_stamps, signer, arms, leases, firing, targets, guard_us, background }
    }

    /// Checks the signature. A stamp is valid once; the same call again is a replay.
    fn accepts(&self, stamp: &TimedSignature, body: &[u8]) -> bool {
        let Some(digest) = self.signer.check_signature(stamp, body) else { return false };
        self.used_stamps.entry((stamp.at, digest)).or_insert(()).is_fresh()
    }

    async fn relayed(&self, call: &Call) -> Result<SchedulerAnswer, Fault> {
        let pending = self.arms.pending(&call.instance_id, &call.job_id).await?;
        let Some(arm) = pending.filter(|arm| arm.schedule == call.schedule_id) else {
            let ending = self.arms.ending(&call.instance_id, &call.schedule_id).await?;
            return Ok(SchedulerAnswer::Over(match ending.as_deref() {
                Some("superseded" | "missed" | "dead") => "superseded",
                Some("cancelled") => "cancelled",
                Some("delivered" | "dropped" | "duplicate" | "overlap") => "delivered",
                _ => "gone",
            }));
        };
        let early_us = arm.fire_at.due_us() + self.guard_us - self.background.now_us();
        if early_us > 0 {
            let seconds = u32::try_from(early_us / 1_000_000 + 1).unwrap_or(u32::MAX);
            return Ok(SchedulerAnswer::NotYet { seconds });
        }
        let claiming = self.leases.claiming();
        let claimed = self.leases.claim(vec![arm.key]).await?;
        match claimed.into_iter().next() {
            Some(arm) if self.leases.hold(&arm, Stage::Calling) => {
                drop(claiming);
                self.fire_for_external_scheduler(arm).await
            }
            // The main loop already holds it, or it was cancelled during the claim.
            _ => Ok(SchedulerAnswer::Failed { error: "agent_unreachable", status: None }),
        }
    }

    async fn fire_for_external_scheduler(&self, arm: Arm) -> Result<SchedulerAnswer, Fault> {
        let settled = match self.targets.of(&arm) {
            Some(target) => self.firing.attempt(&*target, &arm).await,
            None => ArmResult::PutBack { next_us: None },
        };
        let heard = match &settled {
            ArmResult::Ended { fate, .. } if fate.is_taken() => SchedulerAnswer::Over(match fate {
                ledger::ArmFate::Gone => "gone",
                _ => "delivered",
            }),
            ArmResult::Postponed { attempt, .. }
            | ArmResult::Dead { attempt }
            | ArmResult::Ended { attempt, .. } => SchedulerAnswer::Failed {
                error: if attempt.status.is_some() { "agent_status" } else { "agent_unreachable" },
                status: attempt.status,
            },
            ArmResult::PutBack { .. } => SchedulerAnswer::Failed { error: "agent_unreachable", status: None },
        };
        self.leases.settle_with_retries(&arm, settled).await;
        Ok(heard)
    }
}

#[cfg(test)]
mod tests {
    use posthouse_wire::cron::Fired;

    use crate::target::FireOutcome;
    use crate::tests::{CronRecords, FixedAnswerTarget};

    use super::*;

    #[tokio::test]
    async fn a_stamp_is_valid_once_and_an_arm_fires_only_when_it_is_due() {
        let records = CronRecords::open().await;
        let (leases, revivals) = (records.leases(), records.revivals());
        let accepted = FireOutcome::Accepted { status: 202, fired: Fired::Accepted };
        let target = FixedAnswerTarget::answering(accepted);
        let schedulers = ExternalSchedulers::new(ExternalSchedulerParts {
            signer: records.signer.clone(),
            arms: records.ledger.arms(),
            firing: records.firing(&leases, &revivals),
            targets: target.everywhere(),
            guard_us: 0,
            background: records.background.clone(),
            leases: Arc::clone(&leases),
        });
        let secret = records.signer.rotate_scheduler_secret().await.unwrap();
        let stamp = TimedSignature::make(&secret, records.background.timepiece.now().seconds(), b"body");
        assert!(!schedulers.accepts(&stamp, b"another body"));
        assert!(schedulers.accepts(&stamp, b"body"));
        assert!(!schedulers.accepts(&stamp, b"body"), "the same call again is a replay");
        let arm = records.arm(&leases, "report", 2000).await;
        let call = Call { instance_id: records.heron.clone(), job_id: arm.job, schedule_id: arm.schedule };
        let answer = schedulers.relayed(&call).await.unwrap();
        assert!(matches!(answer, SchedulerAnswer::NotYet { .. }));
        records.background.timepiece.wind(Duration::from_secs(2));
        let answer = schedulers.relayed(&call).await.unwrap();
        assert!(matches!(answer, SchedulerAnswer::Over("delivered")));
        assert_eq!(target.fired.lock().len(), 1);
    }
}
