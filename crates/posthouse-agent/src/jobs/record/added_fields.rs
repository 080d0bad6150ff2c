//! Additional fields of a job record: the claim, the settled fire times and the policy. A stock agent keeps
//! them without reading them.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use posthouse_wire::cron::Policy;
use serde_json::{Map, Value, json};

use super::Job;
use crate::cron::schedule::{iso, read_iso};

/// Lifetime of a claim that is not renewed.
pub(in crate::jobs) const LEASE: Duration = Duration::from_secs(60);
/// Lifetime of a claim without an end of its own, as the stock agent writes it.
const STOCK_LEASE: SignedDuration = SignedDuration::from_secs(300);
/// Number of settled fire times that are stored. Times earlier than all of them count as settled, too.
const SETTLED: usize = 64;
/// Number of skipped fires that are stored for display.
const SKIPPED: usize = 16;
const OURS: &str = "posthouse";

/// A fire that was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub fire_at: Timestamp,
    /// When it arrived.
    pub at: Timestamp,
}

/// Claim of a fire. A stock agent reads and writes `at` and `by`.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::jobs) struct FireClaim {
    pub at: Timestamp,
    pub by: String,
    /// `None` in a stock agent's claim.
    pub token: Option<String>,
    pub fire_at: Option<Timestamp>,
    pub until: Timestamp,
    /// `dispatch` has counted the run.
    pub dispatched: bool,
}

impl FireClaim {
    pub(in crate::jobs) fn of(job: &Job) -> Option<Self> {
        let claim = job.fields.get("fire_claim")?.as_object()?;
        let text = |name: &str| claim.get(name).and_then(Value::as_str);
        let at = read_iso(text("at")?, &TimeZone::system())?;
        let micros = |name: &str| Timestamp::from_microsecond(claim.get(name)?.as_i64()?).ok();
        Some(Self {
            at,
            by: text("by").unwrap_or_default().to_owned(),
            token: text("token").map(str::to_owned),
            fire_at: micros("fire_at"),
            until: micros("until").unwrap_or(at),
            dispatched: claim.get("dispatched").and_then(Value::as_bool).unwrap_or(false),
        })
    }

    /// Our own claim has an end, and a clock that lags a little still respects it. An end further ahead
    /// than any lease was written before a clock was set back, so it does not count. A stock claim is valid
    /// for 300 s, and one dated in the future is stale.
    pub(in crate::jobs) fn is_held(&self, now: Timestamp) -> bool {
        if self.token.is_some() {
            return now < self.until && self.until.duration_since(now).unsigned_abs() <= 2 * LEASE;
        }
        let age = now.duration_since(self.at);
        !age.is_negative() && age < STOCK_LEASE
    }

    pub(in crate::jobs) fn is_of(&self, token: &str) -> bool {
        self.token.as_deref() == Some(token)
    }

    pub(in crate::jobs) fn put(&self, job: &mut Job, zone: &TimeZone) {
        let mut claim = Map::from_iter([
            ("at".to_owned(), json!(iso(self.at, zone))),
            ("by".to_owned(), json!(self.by)),
            ("until".to_owned(), json!(self.until.as_microsecond())),
        ]);
        if let Some(token) = &self.token {
            claim.insert("token".to_owned(), json!(token));
        }
        if let Some(fire_at) = self.fire_at {
            claim.insert("fire_at".to_owned(), json!(fire_at.as_microsecond()));
        }
        if self.dispatched {
            claim.insert("dispatched".to_owned(), json!(true));
        }
        job.set("fire_claim", claim);
    }
}

impl Job {
    /// Whether this fire time has run or was skipped.
    pub(in crate::jobs) fn is_settled(&self, fire_at: Timestamp) -> bool {
        let fire_at = fire_at.as_microsecond();
        let settled = self.settled();
        // The list is sorted, and only its earliest times are ever dropped. So a time earlier than a full
        // list may have been in it.
        settled.binary_search(&fire_at).is_ok()
            || (settled.len() >= SETTLED && settled.first().is_some_and(|earliest| fire_at < *earliest))
    }

    pub(in crate::jobs) fn settle(&mut self, fire_at: Timestamp) {
        let fire_at = fire_at.as_microsecond();
        let mut settled = self.settled();
        if let Err(place) = settled.binary_search(&fire_at) {
            settled.insert(place, fire_at);
        }
        let settled = &settled[settled.len().saturating_sub(SETTLED)..];
        self.ours().insert("settled".to_owned(), json!(settled));
    }

    pub(in crate::jobs) fn note_skipped(&mut self, skip: Skipped) {
        let mut all = skipped(self);
        all.push(skip);
        let rows: Vec<Value> = all[all.len().saturating_sub(SKIPPED)..]
            .iter()
            .map(|skip| json!([skip.fire_at.as_microsecond(), skip.at.as_microsecond()]))
            .collect();
        self.ours().insert("skipped".to_owned(), Value::Array(rows));
    }

    /// An absent field means the contract's default policy.
    pub(in crate::jobs) fn set_policy(&mut self, policy: &Policy) {
        if *policy == Policy::default() {
            if let Some(Value::Object(ours)) = self.fields.get_mut(OURS) {
                ours.remove("policy");
            }
        } else {
            self.ours().insert("policy".to_owned(), json!(policy));
        }
    }

    fn settled(&self) -> Vec<i64> {
        let times = self.fields.get(OURS).and_then(|ours| ours.get("settled")).and_then(Value::as_array);
        let mut times: Vec<i64> = times.into_iter().flatten().filter_map(Value::as_i64).collect();
        // A manual edit may have changed the order.
        times.sort_unstable();
        times
    }

    fn ours(&mut self) -> &mut Map<String, Value> {
        let ours = self.fields.entry(OURS).or_insert_with(|| Value::Object(Map::new()));
        if !ours.is_object() {
            *ours = Value::Object(Map::new());
        }
        ours.as_object_mut().expect("it was made an object on the line above")
    }
}

pub(super) fn policy(job: &Job) -> Policy {
    let policy = job.fields.get(OURS).and_then(|ours| ours.get("policy"));
    policy.and_then(|policy| serde_json::from_value(policy.clone()).ok()).unwrap_or_default()
}

pub(super) fn skipped(job: &Job) -> Vec<Skipped> {
    let rows = job.fields.get(OURS).and_then(|ours| ours.get("skipped")).and_then(Value::as_array);
    let time = |row: &Value, at: usize| Timestamp::from_microsecond(row.get(at)?.as_i64()?).ok();
    rows.into_iter()
        .flatten()
        .filter_map(|row| Some(Skipped { fire_at: time(row, 0)?, at: time(row, 1)? }))
        .collect()
}
