//! HTTP control API of the stand-in, under `/_stand-in/`.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response, request::Parts};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Shared,
    answer::{json_text, respond},
    params::Params,
    transcript::{Filter, RowKind},
    wait::WaitCondition,
};

const PAGE: &str = include_str!("page.html");

type ControlResult = Result<Response<Body>, ControlProblem>;

/// A request that cannot be served: status and JSON body.
struct ControlProblem(u16, Value);

impl From<ControlProblem> for Response<Body> {
    fn from(ControlProblem(status, body): ControlProblem) -> Response<Body> {
        json_text(status, body.to_string())
    }
}

/// Answers every request that is not for the Bot API.
pub(super) async fn handle(shared: &Arc<Shared>, head: &Parts, body: Bytes) -> Response<Body> {
    let Ok(params) = Params::query(&head.uri) else { return wrong(400, "cannot read the query").into() };
    let outcome = match (&head.method, head.uri.path()) {
        (&Method::GET, "/") => Ok(respond(200, "text/html; charset=utf-8", PAGE)),
        (&Method::POST, "/_stand-in/inject") => inject(shared, &body),
        (&Method::GET, "/_stand-in/transcript") => {
            filter(shared, &params).map(|filter| ok(&json!({"rows": shared.transcript(&filter)})))
        }
        (&Method::GET, "/_stand-in/refusals") => {
            filter(shared, &params).map(|filter| ok(&json!({"rows": shared.refusals(&filter)})))
        }
        (&Method::GET, "/_stand-in/deliveries") => {
            bot(shared, &params).map(|bot| ok(&shared.world.lock().deliveries(bot)))
        }
        (&Method::GET, "/_stand-in/faults") => Ok(ok(&json!({
            "faults": shared.world.lock().faults.list(),
            "hanging": shared.hanging(),
        }))),
        (&Method::POST, "/_stand-in/faults") => read(&body).map(|fault| {
            let id = shared.world.lock().faults.add(fault);
            ok(&json!({"id": id}))
        }),
        (&Method::DELETE, "/_stand-in/faults") => {
            shared.clear_faults();
            Ok(ok(&json!({})))
        }
        (&Method::POST, "/_stand-in/release") => {
            shared.release();
            Ok(ok(&json!({})))
        }
        (&Method::POST, "/_stand-in/files") => {
            let id = shared.world.lock().files.add(params.text("name").unwrap_or("file.bin"), body);
            Ok(ok(&json!({"file_id": id})))
        }
        (&Method::POST, "/_stand-in/reset") => {
            shared.reset();
            Ok(ok(&json!({})))
        }
        (&Method::GET, "/_stand-in/wait") => wait(shared, &params).await,
        _ => Err(wrong(404, "no such path; see / for the list")),
    };
    outcome.unwrap_or_else(ControlProblem::into)
}

fn inject(shared: &Shared, body: &[u8]) -> ControlResult {
    shared.inject(read(body)?).map(|injected| ok(&injected)).map_err(|error| wrong(400, &error))
}

async fn wait(shared: &Shared, params: &Params) -> ControlResult {
    let positive = |name: &str| params.integer(name).and_then(|number| u64::try_from(number).ok());
    let mut wait = WaitCondition {
        filter: filter(shared, params)?,
        count: positive("count").or(positive("n")),
        confirmed: positive("confirmed"),
    };
    if wait.filter.kinds.is_empty() {
        wait.filter.kinds = vec![RowKind::Sent];
        if wait.filter.text.is_some() {
            wait.filter.kinds.push(RowKind::Edited);
        }
    }
    let seconds = params.text("timeout").and_then(|text| text.parse().ok()).unwrap_or(10.0_f64);
    let patience = Duration::try_from_secs_f64(seconds.min(600.0)).unwrap_or_default();
    match shared.wait(&wait, patience).await {
        Ok(rows) => Ok(ok(&json!({"rows": rows}))),
        Err(rows) => Err(ControlProblem(408, json!({"ok": false, "description": "timed out", "rows": rows}))),
    }
}

fn filter(shared: &Shared, params: &Params) -> Result<Filter, ControlProblem> {
    let mut kinds = Vec::new();
    for name in params.text("kind").unwrap_or("").split(',').filter(|name| !name.is_empty()) {
        kinds.push(serde_json::from_value::<RowKind>(json!(name)).map_err(|_| wrong(400, "no such kind"))?);
    }
    Ok(Filter {
        bot: bot(shared, params)?,
        chat: params.integer("chat"),
        kinds,
        text: params.text("text").map(str::to_owned),
        after: params.integer("after").and_then(|after| u64::try_from(after).ok()),
    })
}

fn bot(shared: &Shared, params: &Params) -> Result<Option<i64>, ControlProblem> {
    match params.text("bot") {
        None | Some("") => Ok(None),
        Some(name) => {
            let world = shared.world.lock();
            let at = world.bot_by_name(name).ok_or_else(|| wrong(400, "no such bot"))?;
            Ok(Some(world.bots[at].bot.id))
        }
    }
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, ControlProblem> {
    serde_json::from_slice(body).map_err(|error| wrong(400, &error.to_string()))
}

/// `{"ok": true, ...}`
fn ok(body: &impl Serialize) -> Response<Body> {
    let mut body = json!(body);
    body["ok"] = Value::Bool(true);
    json_text(200, body.to_string())
}

fn wrong(status: u16, description: &str) -> ControlProblem {
    ControlProblem(status, json!({"ok": false, "description": description}))
}
