//! HTTP server of a stand-in: connections, faults of calls, connections that are cut on purpose.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, to_bytes};
use http::{Request, Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::{
    control,
    faults::CallFaultKind,
    form::unescape,
    platform::{ApiCall, CallSubject, RefusedCall, StandInPlatform, json_response},
    transcript::PlatformRow,
};

/// Ends the connection without an answer: hyper closes it when a service fails.
#[derive(Debug)]
struct CutByFault;

impl std::fmt::Display for CutByFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is cut by a fault")
    }
}

impl std::error::Error for CutByFault {}

/// Accepts connections until the stand-in stops.
pub(super) async fn accept<P: StandInPlatform>(listener: TcpListener, platform: Arc<P>) {
    loop {
        let stream = tokio::select! {
            () = platform.harness().stop.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        match stream {
            Ok((stream, _)) => _ = platform.harness().tasks.spawn(converse(stream, platform.clone())),
            Err(error) => {
                // Probably out of file descriptors: wait until some are free again.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
}

async fn converse<P: StandInPlatform>(stream: TcpStream, platform: Arc<P>) {
    _ = stream.set_nodelay(true);
    let stop = platform.harness().stop.clone();
    let service = service_fn(move |request| handle(platform.clone(), request));
    let conversation = http1::Builder::new().serve_connection(TokioIo::new(stream), service).with_upgrades();
    tokio::select! {
        () = stop.cancelled() => {}
        ended = conversation => {
            if let Err(error) = ended {
                tracing::trace!(%error, "a connection ended early");
            }
        }
    }
}

async fn handle<P: StandInPlatform>(
    platform: Arc<P>,
    request: Request<Incoming>,
) -> Result<Response<Body>, CutByFault> {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(Body::new(body), P::MOST_BODY).await else {
        return Ok(json_response(413, &serde_json::json!({"message": "Request entity too large"})));
    };
    let path = unescape(head.uri.path());
    // The path `/` may be the address of a socket, and is also that of the page.
    let is_page = path == "/" && !head.headers.contains_key("sec-websocket-key");
    if is_page || path.starts_with("/_stand-in/") {
        return Ok(control::handle(&platform, &head, &body).await);
    }
    let Some(subject) = platform.subject(&head, &path, &body) else { return Ok(platform.not_found()) };
    let fault = {
        let mut faults = platform.harness().faults.lock();
        faults.fault_for_call(&subject.call, subject.account.as_deref(), subject.chat.as_deref())
    };
    let call = ApiCall { head, body, path, subject };
    match fault {
        None => Ok(perform(platform, call).await),
        Some(fault) => {
            platform.harness().changed.notify_waiters();
            apply_fault(platform, call, fault).await
        }
    }
}

async fn perform<P: StandInPlatform>(platform: Arc<P>, call: ApiCall) -> Response<Body> {
    let subject = call.subject.clone();
    let response = platform.clone().perform(call).await;
    record_refusal(&platform, &subject, response).await
}

/// Keeps the answer of a refused call for the control API.
async fn record_refusal<P: StandInPlatform>(
    platform: &Arc<P>,
    subject: &CallSubject,
    response: Response<Body>,
) -> Response<Body> {
    let refused = response.status().as_u16() >= 400 || response.extensions().get::<RefusedCall>().is_some();
    if !refused {
        return response;
    }
    let (head, body) = response.into_parts();
    let body = to_bytes(body, P::MOST_BODY).await.unwrap_or_default();
    let mut row =
        PlatformRow::new(subject.account.clone().unwrap_or_default(), "refused", subject.call.clone())
            .text(String::from_utf8_lossy(&body));
    row.chat.clone_from(&subject.chat);
    row.raw = head.status.as_u16().into();
    platform.harness().record_refusal(row);
    Response::from_parts(head, Body::from(body))
}

async fn apply_fault<P: StandInPlatform>(
    platform: Arc<P>,
    call: ApiCall,
    fault: CallFaultKind,
) -> Result<Response<Body>, CutByFault> {
    let refusal = match fault {
        CallFaultKind::TooManyRequests { retry_after, global } => {
            let wait = Duration::try_from_secs_f64(retry_after).unwrap_or_default();
            platform.too_many(wait, global)
        }
        CallFaultKind::ServerError { status } => {
            json_response(status.clamp(500, 599), &serde_json::json!({"message": "internal error"}))
        }
        CallFaultKind::Answer { status, body } => json_response(status, &body),
        CallFaultKind::Refuse => return Err(CutByFault),
        CallFaultKind::DropAfterWrite => {
            perform(platform, call).await;
            return Err(CutByFault);
        }
        CallFaultKind::Hang => {
            platform.harness().until_released().await;
            return Ok(perform(platform, call).await);
        }
        CallFaultKind::HangAfterWrite => {
            let release = platform.harness().until_released();
            let response = perform(platform, call).await;
            release.await;
            return Ok(response);
        }
        CallFaultKind::Slow { delay_ms } => return slowly(platform, call, delay_ms).await,
        CallFaultKind::DuplicateDelivery | CallFaultKind::ReorderDeliveries { .. } => {
            return Ok(perform(platform, call).await);
        }
    };
    Ok(record_refusal(&platform, &call.subject, refusal).await)
}

/// Runs in its own task, because a platform carries out a request that it has read, even if the caller disconnects.
async fn slowly<P: StandInPlatform>(
    platform: Arc<P>,
    call: ApiCall,
    delay_ms: u64,
) -> Result<Response<Body>, CutByFault> {
    let harness = platform.harness().clone();
    let work = async move {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        perform(platform, call).await
    };
    match harness.tasks.spawn(harness.stop.clone().run_until_cancelled_owned(work)).await {
        Ok(Some(response)) => Ok(response),
        _ => Err(CutByFault),
    }
}
