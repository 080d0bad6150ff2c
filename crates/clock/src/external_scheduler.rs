//! Route for external schedulers (`/api/agent-cron/relay`), which report that an arm is due.
//!
//! The request only names an arm. The stored arm decides where to call and whether it is due.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ledger::{Arm, ArmResult};
use posthouse_wire::cron::{SIGNATURE, Stamp};
use posthouse_wire::{InstanceId, JobId, ScheduleId};
use serde::Deserialize;
use serde_json::json;

use crate::held::Stage;
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
    let stamp = head.headers.get(SIGNATURE).and_then(|value| Stamp::read(value.to_str().ok()?));
    let Some(stamp) = stamp else { return unsigned() };
    // The signature covers the body, so the body is read before the caller is authenticated.
    let body = match read_request_body(body).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if !clock.vouched(&stamp, &body) {
        return unsigned();
    }
    let Ok(call) = serde_json::from_slice::<Call>(&body) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "instance_id, job_id and schedule_id are required",
        );
    };
    match clock.relayed(&call).await {
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

impl Clock {
    /// Checks the signature. A stamp is valid once; the same call again is a replay.
    fn vouched(&self, stamp: &Stamp, body: &[u8]) -> bool {
        let Some(digest) = self.0.signer.vouches(stamp, body) else { return false };
        self.0.used_stamps.entry((stamp.at, digest)).or_insert(()).is_fresh()
    }

    async fn relayed(&self, call: &Call) -> Result<SchedulerAnswer, Fault> {
        let pending = self.0.arms.pending(&call.instance_id, &call.job_id).await?;
        let Some(arm) = pending.filter(|arm| arm.schedule == call.schedule_id) else {
            let ending = self.0.arms.ending(&call.instance_id, &call.schedule_id).await?;
            return Ok(SchedulerAnswer::Over(match ending.as_deref() {
                Some("superseded" | "missed" | "dead") => "superseded",
                Some("cancelled") => "cancelled",
                Some("delivered" | "dropped" | "duplicate" | "overlap") => "delivered",
                _ => "gone",
            }));
        };
        let early_us = arm.fire_at.due_us() + self.0.config.guard_us() - self.now_us();
        if early_us > 0 {
            let seconds = u32::try_from(early_us / 1_000_000 + 1).unwrap_or(u32::MAX);
            return Ok(SchedulerAnswer::NotYet { seconds });
        }
        let claiming = self.0.cancelled.claiming();
        let claimed = self.0.arms.claim(vec![arm.key], &self.0.owner, self.lease_until()).await?;
        match claimed.into_iter().next() {
            Some(arm) if self.holds(&arm) => {
                drop(claiming);
                self.fire_for_external_scheduler(arm).await
            }
            // The main loop already holds it, or it was cancelled during the claim.
            _ => Ok(SchedulerAnswer::Failed { error: "agent_unreachable", status: None }),
        }
    }

    /// Holds a claimed arm, unless it was cancelled during the claim.
    fn holds(&self, arm: &Arm) -> bool {
        self.0.held.insert(arm.key, &arm.tenant, Stage::Calling);
        let is_ours = !self.0.cancelled.has(arm.key);
        if !is_ours {
            self.0.held.remove(arm.key);
        }
        is_ours
    }

    async fn fire_for_external_scheduler(&self, arm: Arm) -> Result<SchedulerAnswer, Fault> {
        let settled = match self.target_of(&arm) {
            Some(target) => self.attempt(&*target, &arm).await,
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
        self.settle_at_last(&arm, settled).await;
        Ok(heard)
    }
}
