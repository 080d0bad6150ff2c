//! HTTP control API of a stand-in, under `/_stand-in/`.

use std::{sync::Arc, time::Duration};

use axum::{body::Body, extract::Query};
use bytes::Bytes;
use http::{Method, Response, request::Parts};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    faults::CallFault,
    platform::{StandInPlatform, json_response, respond},
    transcript::RowFilter,
};

const PAGE: &str = include_str!("page.html");

/// A control request to a path that only this platform has.
pub struct Control<'a> {
    pub(crate) method: &'a Method,
    /// What follows `/_stand-in/`.
    pub(crate) path: &'a str,
    pub(crate) body: &'a Bytes,
    head: &'a Parts,
}

/// Answer to such a request: JSON, or an error text.
pub(crate) type ControlAnswer = Result<Value, String>;

impl Control<'_> {
    /// The body as JSON.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(self.body).map_err(|error| error.to_string())
    }

    /// The query.
    pub(crate) fn query<T: DeserializeOwned>(&self) -> Result<T, String> {
        query(self.head)
    }
}

#[derive(Deserialize)]
#[serde(default)]
struct WaitQuery {
    count: usize,
    timeout: f64,
}

impl Default for WaitQuery {
    fn default() -> WaitQuery {
        WaitQuery { count: 1, timeout: 10.0 }
    }
}

#[derive(Deserialize)]
struct ClockAdvance {
    advance_ms: u64,
}

/// Answers every request that is not for the API of the platform.
pub(super) async fn handle<P: StandInPlatform>(
    platform: &Arc<P>,
    head: &Parts,
    body: &Bytes,
) -> Response<Body> {
    if head.uri.path() == "/" {
        let page = PAGE.replace("NAME", P::NAME).replace("EXAMPLE", P::EXAMPLE);
        return respond(200, "text/html; charset=utf-8", page);
    }
    let path = head.uri.path().strip_prefix("/_stand-in/").unwrap_or_default();
    if (&head.method, path) == (&Method::GET, "wait") {
        return wait(platform, head).await;
    }
    let control = Control { method: &head.method, path, body, head };
    let answer = match (&head.method, path) {
        (&Method::POST, "inject") => {
            control.read::<P::Injection>().and_then(|injection| platform.inject(injection))
        }
        (&Method::GET, "transcript") => {
            control.query().map(|filter| json!({"rows": platform.harness().transcript(&filter)}))
        }
        (&Method::GET, "refusals") => {
            control.query().map(|filter| json!({"rows": platform.harness().refusals(&filter)}))
        }
        (&Method::GET, "deliveries") => Ok(json!({"attempts": *platform.harness().attempts.lock()})),
        (&Method::GET, "faults") => Ok(json!({
            "faults": platform.harness().faults(),
            "hanging": platform.harness().hanging(),
        })),
        (&Method::POST, "faults") => {
            control.read::<CallFault>().map(|fault| json!({"id": platform.harness().add_fault(fault)}))
        }
        (&Method::DELETE, "faults") => {
            platform.harness().clear_faults();
            Ok(json!({}))
        }
        (&Method::POST, "release") => {
            platform.harness().release();
            Ok(json!({}))
        }
        (&Method::POST, "clock") => control.read::<ClockAdvance>().map(|clock| {
            platform.harness().advance(Duration::from_millis(clock.advance_ms));
            json!({"now_ms": platform.harness().now_ms()})
        }),
        (&Method::POST, "reset") => {
            platform.reset();
            platform.harness().reset();
            Ok(json!({}))
        }
        _ => match platform.control(&control) {
            Some(answer) => answer,
            None => return json_response(404, &json!({"ok": false, "description": "no such path; see /"})),
        },
    };
    match answer {
        Ok(mut body) => {
            body["ok"] = Value::Bool(true);
            json_response(200, &body)
        }
        Err(description) => json_response(400, &json!({"ok": false, "description": description})),
    }
}

async fn wait<P: StandInPlatform>(platform: &Arc<P>, head: &Parts) -> Response<Body> {
    let (filter, wait) = match (query::<RowFilter>(head), query::<WaitQuery>(head)) {
        (Ok(filter), Ok(wait)) => (filter, wait),
        (Err(error), _) | (_, Err(error)) => {
            return json_response(400, &json!({"ok": false, "description": error}));
        }
    };
    let filter = match filter.kind {
        None => RowFilter { kind: Some("sent".to_owned()), ..filter },
        Some(_) => filter,
    };
    let patience = Duration::try_from_secs_f64(wait.timeout.min(600.0)).unwrap_or_default();
    match platform.harness().wait(&filter, wait.count, patience).await {
        Ok(rows) => json_response(200, &json!({"ok": true, "rows": rows})),
        Err(rows) => json_response(408, &json!({"ok": false, "description": "timed out", "rows": rows})),
    }
}

fn query<T: DeserializeOwned>(head: &Parts) -> Result<T, String> {
    Query::<T>::try_from_uri(&head.uri).map(|Query(query)| query).map_err(|error| error.to_string())
}
