//! HTTP server: connections, paths, and connections that are cut on purpose.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, to_bytes};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::{
    Shared,
    answer::{ApiRefusal, ApiSuccess, answer, respond},
    control,
    faults::{self, FaultKind},
    methods::{self, MethodCall},
    params::Params,
};
use crate::harness::form::unescape;

const MOST_BODY: usize = 4 << 20;
/// The largest form with a file.
const MOST_UPLOAD: usize = 52 << 20;

/// Ends the connection without an answer: hyper closes it when a service fails.
#[derive(Debug)]
pub(super) struct ConnectionCut;

impl std::fmt::Display for ConnectionCut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut by a fault")
    }
}

impl std::error::Error for ConnectionCut {}

/// Accepts connections until the stand-in stops.
pub(super) async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let stream = tokio::select! {
            () = shared.stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, _)) => _ = shared.tasks.spawn(converse(stream, shared.clone())),
            Err(error) => {
                // Probably out of file descriptors: wait until some are free again.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    _ = stream.set_nodelay(true);
    let stop = shared.stop.clone();
    let service = service_fn(move |request| handle(shared.clone(), request));
    let conversation = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        () = stop.cancelled() => {}
        ended = conversation => {
            if let Err(error) = ended {
                tracing::trace!(%error, "a connection ended early");
            }
        }
    }
}

async fn handle(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, ConnectionCut> {
    let path = unescape(request.uri().path());
    if let Some(rest) = path.strip_prefix("/file/bot") {
        return Ok(download(&shared, rest));
    }
    if let Some((token, method)) = path.strip_prefix("/bot").and_then(|rest| rest.split_once('/')) {
        return call(&shared, token, method, request).await;
    }
    let (head, body) = request.into_parts();
    match to_bytes(Body::new(body), MOST_BODY * 8).await {
        Ok(body) => Ok(control::handle(&shared, &head, body).await),
        Err(_) => Ok(answer(Err(ApiRefusal::too_large()))),
    }
}

fn download(shared: &Shared, rest: &str) -> Response<Body> {
    let world = shared.world.lock();
    let Some((token, path)) = rest.split_once('/') else { return answer(Err(ApiRefusal::not_found())) };
    if world.bot_by_token(token).is_none() {
        return answer(Err(ApiRefusal::unauthorized()));
    }
    match world.files.by_path(path) {
        Some(file) => respond(200, "application/octet-stream", file.content.clone()),
        None => answer(Err(ApiRefusal::not_found())),
    }
}

async fn call(
    shared: &Arc<Shared>,
    token: &str,
    method: &str,
    request: Request<Incoming>,
) -> Result<Response<Body>, ConnectionCut> {
    let (at, bot) = {
        let world = shared.world.lock();
        match world.bot_by_token(token) {
            Some(at) => (at, world.bots[at].bot.id),
            None => return Ok(answer(Err(ApiRefusal::unauthorized()))),
        }
    };
    let Some(method) = methods::known(method) else { return Ok(answer(Err(ApiRefusal::not_found()))) };
    let mut seen = faults::CallProperties { bot, method, chat: None };
    let refused = shared.world.lock().faults.refuses_unread(seen);
    if refused {
        shared.changed.notify_waiters();
        return Err(ConnectionCut);
    }
    let (head, body) = request.into_parts();
    let most = if methods::takes_file(method) { MOST_UPLOAD } else { MOST_BODY };
    let Ok(body) = to_bytes(Body::new(body), most).await else {
        return Ok(answer(Err(ApiRefusal::too_large())));
    };
    let params = match Params::read(&head.uri, &head.headers, body).await {
        Ok(params) => params,
        Err(refusal) => return Ok(answer(Err(refusal))),
    };
    seen.chat = params.integer("chat_id");
    let fault = shared.world.lock().faults.fault_for_call(seen);
    if let Some(fault) = fault {
        shared.changed.notify_waiters();
        return apply_fault(shared, at, method, params, fault).await;
    }
    Ok(answer(perform(&MethodCall { shared, at, method, params: &params }).await))
}

async fn perform(call: &MethodCall<'_>) -> Result<ApiSuccess, ApiRefusal> {
    let outcome = call.run().await;
    if let Err(refusal) = &outcome {
        call.record_refusal(refusal);
    }
    outcome
}

async fn apply_fault(
    shared: &Arc<Shared>,
    at: usize,
    method: &'static str,
    params: Params,
    fault: FaultKind,
) -> Result<Response<Body>, ConnectionCut> {
    let call = MethodCall { shared, at, method, params: &params };
    let refusal = match fault {
        FaultKind::TooManyRequests { retry_after } => ApiRefusal::too_many(retry_after),
        FaultKind::ServerError { status } => ApiRefusal::server_error(status),
        FaultKind::Unauthorized => ApiRefusal::unauthorized(),
        FaultKind::Blocked => ApiRefusal::blocked(),
        FaultKind::ChatNotFound => ApiRefusal::bad_request("chat not found"),
        FaultKind::Migrated { to } => ApiRefusal::migrated(to),
        FaultKind::Refuse => return Err(ConnectionCut),
        FaultKind::DropAfterWrite => {
            _ = perform(&call).await;
            return Err(ConnectionCut);
        }
        FaultKind::Hang => {
            shared.until_released().await;
            return Ok(answer(perform(&call).await));
        }
        FaultKind::HangAfterWrite => {
            let release = shared.until_released();
            let outcome = perform(&call).await;
            release.await;
            return Ok(answer(outcome));
        }
        FaultKind::Slow { delay_ms } => return slowly(shared.clone(), at, method, params, delay_ms).await,
        FaultKind::DuplicateDelivery | FaultKind::ReorderDeliveries { .. } => {
            return Ok(answer(perform(&call).await));
        }
    };
    call.record_refusal(&refusal);
    Ok(answer(Err(refusal)))
}

/// Runs in its own task, because a platform that has read a request carries it out even if the caller has
/// left.
async fn slowly(
    shared: Arc<Shared>,
    at: usize,
    method: &'static str,
    params: Params,
    delay_ms: u64,
) -> Result<Response<Body>, ConnectionCut> {
    let stop = shared.stop.clone();
    let tasks = shared.tasks.clone();
    let work = async move {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        answer(perform(&MethodCall { shared: &shared, at, method, params: &params }).await)
    };
    match tasks.spawn(stop.run_until_cancelled_owned(work)).await {
        Ok(Some(response)) => Ok(response),
        _ => Err(ConnectionCut),
    }
}
