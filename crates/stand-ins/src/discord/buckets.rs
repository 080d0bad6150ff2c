//! Rate limits of Discord: buckets per route and channel, and a global one.

use std::{collections::HashMap, time::Duration};

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Body;
use http::{HeaderMap, HeaderValue, Response};
use serde_json::json;

use super::settings::DiscordLimits;
use crate::harness::{SlidingWindow, json_response};

/// The most buckets that are remembered.
const MOST: usize = 10_000;

/// Buckets of all bots.
#[derive(Default)]
pub(super) struct Buckets {
    routes: HashMap<String, SlidingWindow>,
    global: HashMap<String, SlidingWindow>,
    identifies: HashMap<String, SlidingWindow>,
}

/// State of a bucket after a call.
pub(super) struct BucketState {
    bucket: String,
    limit: u32,
    remaining: u32,
    reset_after_ms: i64,
    now_ms: i64,
}

impl Buckets {
    /// Counts a call. `Err` is the answer to a call over a limit.
    pub fn admit(
        &mut self,
        limits: &DiscordLimits,
        bot: Option<&str>,
        route: &str,
        major: &str,
        now_ms: i64,
    ) -> Result<BucketState, Box<Response<Body>>> {
        if self.routes.len() > MOST {
            self.routes.clear();
        }
        // Calls with an interaction token belong to no bot and are not in the global limit.
        if let Some(bot) = bot
            && let Err(wait) =
                self.global.entry(bot.to_owned()).or_default().admit(limits.global_per_second, 1_000, now_ms)
        {
            return Err(Box::new(too_many(wait_of(wait), true, None)));
        }
        let (limit, window_ms) = match route {
            "POST /channels/{channel}/messages"
            | "PATCH /channels/{channel}/messages/{message}"
            | "POST /channels/{channel}/typing"
            | "POST /webhooks/{application}/{token}" => (limits.messages_per_5_seconds, 5_000),
            _ => (limits.other_per_second, 1_000),
        };
        let window = self.routes.entry(format!("{}/{route}/{major}", bot.unwrap_or(""))).or_default();
        let admitted = window.admit(limit, window_ms, now_ms);
        let state = BucketState {
            bucket: hex::encode(&digest(&SHA256, route.as_bytes()).as_ref()[..16]),
            limit,
            remaining: *admitted.as_ref().unwrap_or(&0),
            reset_after_ms: window.reset_after_ms(window_ms, now_ms),
            now_ms,
        };
        match admitted {
            Ok(_) => Ok(state),
            Err(wait) => Err(Box::new(too_many(wait_of(wait), false, Some(&state)))),
        }
    }

    /// Counts an identify. False if there were too many.
    pub fn identify(&mut self, limits: &DiscordLimits, bot: &str, now_ms: i64) -> bool {
        let window = self.identifies.entry(bot.to_owned()).or_default();
        window.admit(limits.identifies_per_5_seconds, 5_000, now_ms).is_ok()
    }
}

impl BucketState {
    pub fn write(&self, headers: &mut HeaderMap) {
        let seconds = |ms: i64| format!("{}.{:03}", ms / 1000, ms % 1000);
        for (name, value) in [
            ("x-ratelimit-bucket", self.bucket.clone()),
            ("x-ratelimit-limit", self.limit.to_string()),
            ("x-ratelimit-remaining", self.remaining.to_string()),
            ("x-ratelimit-reset", seconds(self.now_ms + self.reset_after_ms)),
            ("x-ratelimit-reset-after", seconds(self.reset_after_ms)),
        ] {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(name, value);
            }
        }
    }
}

fn wait_of(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// The 429 response of Discord, with body and headers.
pub(super) fn too_many(retry_after: Duration, global: bool, state: Option<&BucketState>) -> Response<Body> {
    let seconds = retry_after.as_secs_f64();
    let body = json!({"message": "You are being rate limited.", "retry_after": seconds, "global": global});
    let mut response = json_response(429, &body);
    let headers = response.headers_mut();
    if let Some(state) = state {
        state.write(headers);
    }
    headers.insert("retry-after", HeaderValue::from(retry_after.as_millis().div_ceil(1000) as u64));
    let scope = if global { "global" } else { "user" };
    headers.insert("x-ratelimit-scope", HeaderValue::from_static(scope));
    if global {
        headers.insert("x-ratelimit-global", HeaderValue::from_static("true"));
    }
    // Without this header, discord.py treats a 429 as an answer of the proxy in front of the API.
    headers.insert("via", HeaderValue::from_static("1.1 stand-in"));
    response
}
