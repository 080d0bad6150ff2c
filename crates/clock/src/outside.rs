//! The relay route: an outside scheduler says that an arm is due. Whatever it says, our own row decides
//! where to call and whether it is time.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use ledger::{Arm, Settled};
use posthouse_wire::cron::{SIGNATURE, Stamp};
use posthouse_wire::{InstanceId, JobId, ScheduleId};
use serde::Deserialize;
use serde_json::json;

use crate::clock::Stage;
use crate::routes::{later, refused, taken, unavailable};
use crate::{Clock, Fault};

#[derive(Deserialize)]
struct Call {
    instance_id: InstanceId,
    job_id: JobId,
    schedule_id: ScheduleId,
}

/// What the caller hears.
enum Relayed {
    /// Nothing more is to be done.
    Over(&'static str),
    /// It should come again after this many seconds.
    NotYet { seconds: u32 },
    /// It should try again.
    Failed { error: &'static str, status: Option<u16> },
}

pub(crate) async fn relay(State(clock): State<Clock>, request: Request) -> Response {
    let (headers, body) = match taken(request).await {
        Ok(taken) => taken,
        Err(refusal) => return refusal,
    };
    let stamp = headers.get(SIGNATURE).and_then(|value| Stamp::read(value.to_str().ok()?));
    if !stamp.is_some_and(|stamp| clock.vouched(&stamp, &body)) {
        return refused(
            StatusCode::UNAUTHORIZED,
            "invalid_signature",
            "the call is not signed, or was made before",
        );
    }
    let Ok(call) = serde_json::from_slice::<Call>(&body) else {
        return refused(
            StatusCode::BAD_REQUEST,
            "invalid_request",
            "instance_id, job_id and schedule_id are needed",
        );
    };
    match clock.relayed(&call).await {
        Ok(Relayed::Over(status)) => Json(json!({ "status": status })).into_response(),
        Ok(Relayed::NotYet { seconds }) => {
            later(refused(StatusCode::CONFLICT, "not_due", "the arm is not due yet"), seconds)
        }
        Ok(Relayed::Failed { error, status }) => {
            (StatusCode::BAD_GATEWAY, Json(json!({ "error": error, "status": status }))).into_response()
        }
        Err(fault) => unavailable(&fault),
    }
}

impl Clock {
    /// A stamp is good once: the same call again is a replay.
    fn vouched(&self, stamp: &Stamp, body: &[u8]) -> bool {
        let Some(digest) = self.0.signer.vouches(stamp, body) else { return false };
        self.0.used_stamps.entry((stamp.at, digest)).or_insert(()).is_fresh()
    }

    async fn relayed(&self, call: &Call) -> Result<Relayed, Fault> {
        let pending = self.0.arms.pending(&call.instance_id, &call.job_id).await?;
        let Some(arm) = pending.filter(|arm| arm.schedule == call.schedule_id) else {
            let ending = self.0.arms.ending(&call.instance_id, &call.schedule_id).await?;
            return Ok(Relayed::Over(match ending.as_deref() {
                Some("superseded" | "missed" | "dead") => "superseded",
                Some("cancelled") => "cancelled",
                Some("delivered" | "dropped" | "duplicate" | "overlap") => "delivered",
                _ => "gone",
            }));
        };
        let early_us = arm.fire_at.due_us() + self.0.config.guard_us() - self.now_us();
        if early_us > 0 {
            let seconds = u32::try_from(early_us / 1_000_000 + 1).unwrap_or(u32::MAX);
            return Ok(Relayed::NotYet { seconds });
        }
        let claiming = self.0.withdrawn.claiming();
        let claimed = self.0.arms.claim(vec![arm.key], &self.0.owner, self.lease_until()).await?;
        match claimed.into_iter().next() {
            Some(arm) if self.holds(&arm) => {
                drop(claiming);
                self.ring_for_outside(arm).await
            }
            // Our own loop has it in hand, or it was withdrawn this moment.
            _ => Ok(Relayed::Failed { error: "agent_unreachable", status: None }),
        }
    }

    /// Holds an arm that was just claimed, unless it was withdrawn meanwhile.
    fn holds(&self, arm: &Arm) -> bool {
        self.0.held.insert(arm.key, Stage::Ringing);
        let is_ours = !self.0.withdrawn.has(arm.key);
        if !is_ours {
            self.0.held.remove(&arm.key);
        }
        is_ours
    }

    async fn ring_for_outside(&self, arm: Arm) -> Result<Relayed, Fault> {
        let settled = match self.bell_of(&arm) {
            Some(bell) => self.attempt(&*bell, &arm).await,
            None => Settled::PutBack { next_us: arm.next_us },
        };
        let heard = match &settled {
            Settled::Ended { fate, .. } if fate.is_taken() => Relayed::Over(match fate {
                ledger::Fate::Gone => "gone",
                _ => "delivered",
            }),
            Settled::Postponed { attempt, .. }
            | Settled::Dead { attempt }
            | Settled::Ended { attempt, .. } => Relayed::Failed {
                error: if attempt.status.is_some() { "agent_status" } else { "agent_unreachable" },
                status: attempt.status,
            },
            Settled::PutBack { .. } => Relayed::Failed { error: "agent_unreachable", status: None },
        };
        self.settle_at_last(&arm, settled).await;
        Ok(heard)
    }
}
