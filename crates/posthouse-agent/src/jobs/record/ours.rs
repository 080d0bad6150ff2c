//! What we keep in a record beyond the stock agent's fields: who holds a fire, which fire times are
//! settled, and the job's policy. A stock agent carries all of it along unread.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use posthouse_wire::cron::Policy;
use serde_json::{Map, Value, json};

use super::Job;
use crate::cron::schedule::{iso, read_iso};

/// How long a claim lasts without being renewed.
pub(in crate::jobs) const LEASE: Duration = Duration::from_secs(60);
/// How long a claim lasts that says nothing about itself: the stock agent's.
const STOCK_LEASE: SignedDuration = SignedDuration::from_secs(300);
/// Settled fire times kept in full. What is earlier than all of them counts as settled, too.
const SETTLED: usize = 64;
/// Skipped fires kept to be shown.
const SKIPPED: usize = 16;
const OURS: &str = "posthouse";

/// A fire that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    pub fire_at: Timestamp,
    /// When it came.
    pub at: Timestamp,
}

/// Who holds a fire. `at` and `by` are what a stock agent reads and writes.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::jobs) struct FireClaim {
    pub at: Timestamp,
    pub by: String,
    /// Nothing in a stock agent's claim.
    pub token: Option<String>,
    pub fire_at: Option<Timestamp>,
    pub until: Timestamp,
    /// The run was counted by `dispatch`.
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

    /// A claim of ours says until when, and a clock that lags a little behind its owner's still honours it;
    /// an end that lies further ahead than any lease was written before a clock was set back. A stock claim
    /// is fresh for 300 s, and one dated in the future is stale.
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
    /// Whether this fire time has had its run, or was let go.
    pub(in crate::jobs) fn is_settled(&self, fire_at: Timestamp) -> bool {
        let fire_at = fire_at.as_microsecond();
        let settled = self.settled();
        // The list is in order and only its earliest are ever dropped, so what is earlier than a full list
        // may have been on it.
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

    /// The contract's own policy is what an absent field means.
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
        // Somebody may have edited the file by hand.
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
