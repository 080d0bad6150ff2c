//! HTTP routes of the post: `/v1/*`.

mod agents;
mod envelope;
mod exchange;
mod idempotency_key;
mod notify;
mod problem;
mod program_calls;
mod receipts;
mod replies;
#[cfg(test)]
mod tests;

use std::future::Future;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{any, get, post};
use bytes::Bytes;
use http::HeaderMap;
use http::request::Parts;
use http_kit::{
    Endpoint, Fields, Operation, Problem, ShuttingDown, completed, operations, read_body, router,
};
use posthouse_time::Moment;
use posthouse_wire::delivery::TriggerKind;

use crate::conversations::LONGEST_TEXT;
use crate::{Caller, Fault, Post};

pub use program_calls::ProgramCall;
pub use receipts::render_receipt;

/// The largest request body: the longest text with every byte as a six-byte JSON escape, plus the envelope.
const LARGEST_BODY: usize = 6 * LONGEST_TEXT + 64 * 1024;

/// The longest address, name or session, in bytes.
const LONGEST_ADDRESS: usize = 1024;

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<PostApi>] = &[
    Endpoint::closed("POST", "/v1/notify", || post(notify::notify)),
    Endpoint::closed("POST", "/v1/deliver", || post(notify::deliver)),
    Endpoint::closed("POST", "/v1/wake", || post(notify::wake)),
    Endpoint::closed("POST", "/v1/exchange", || post(exchange::ask)),
    Endpoint::closed("GET", "/v1/exchanges", || get(exchange::list)),
    Endpoint::closed("GET", "/v1/exchanges/{correlation_id}", || get(exchange::attach)),
    Endpoint::closed("GET", "/v1/receipts", || get(receipts::list)),
    Endpoint::closed("GET", "/v1/receipts/{dispatch_id}", || get(receipts::show)),
    Endpoint::closed("GET", "/v1/agents", || get(agents::list)),
    Endpoint::closed("GET", "/v1/agents/{name}", || get(agents::show)),
    Endpoint::open("POST", "/v1/replies/{token}", || post(replies::take)),
];

/// All operations. Tests check the OpenAPI fragment and the access matrix against them.
pub const OPERATIONS: &[Operation] = &operations::<PostApi, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// The router for `/v1/*`.
pub fn routes(post: &Post) -> Router {
    router("", ENDPOINTS)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .route("/v1/{*rest}", any(async || problem::absent()))
        .with_state(PostApi::new(post))
}

/// The state shared by all handlers.
#[derive(Clone)]
pub(crate) struct PostApi {
    pub post: Post,
}

pub(crate) type Answer = Result<Response, Problem>;

impl PostApi {
    fn new(post: &Post) -> Self {
        Self { post: post.clone() }
    }

    pub fn now(&self) -> Moment {
        self.post.0.background.timepiece.now()
    }

    /// Authenticates the caller by the head of the request.
    async fn authenticate(&self, head: &Parts) -> Result<Caller, Problem> {
        Ok(self.post.callers().caller(head).await?)
    }

    /// Authenticates the caller, then reads the body. The body of an unknown caller is not read.
    async fn authenticate_and_read(&self, request: Request) -> Result<(Caller, HeaderMap, Fields), Problem> {
        let (head, body) = request.into_parts();
        let caller = self.authenticate(&head).await?;
        let body = read_request_body(body).await?;
        Ok((caller, head.headers, Fields::read(&body)?))
    }

    /// Completes work even if the client disconnects. Otherwise the work could stop between a commit and the steps that
    /// must follow it.
    async fn to_the_end<T, R, F>(&self, work: impl FnOnce(Post) -> F) -> Result<T, Problem>
    where
        T: Send + 'static,
        R: Into<Problem> + Send + 'static,
        F: Future<Output = Result<T, R>> + Send + 'static,
    {
        match completed(self.post.0.background.tasks.spawn(work(self.post.clone()))).await {
            Ok(done) => done.map_err(Into::into),
            Err(ShuttingDown) => Err(problem::unavailable(&Fault::from(ledger::Fault::Closed))),
        }
    }
}

/// The trigger kind that a program of a tenant gives. For an agent the field is ignored.
fn trigger(by: &Caller, fields: &mut Fields) -> Result<Option<TriggerKind>, Problem> {
    let known = |word: &str| match word {
        "cli" => Some(Some(TriggerKind::Cli)),
        "dashboard" => Some(Some(TriggerKind::Dashboard)),
        "event" => Some(Some(TriggerKind::Event)),
        "cron" => Some(Some(TriggerKind::Cron)),
        "webhook" => Some(Some(TriggerKind::Webhook)),
        _ => by.agent.is_some().then_some(None),
    };
    let said = fields.optional_word("trigger_kind", known, "cli, dashboard, event, cron, webhook")?.flatten();
    Ok(said.filter(|_| by.agent.is_none()))
}

/// Reads the whole body of a request.
async fn read_request_body(body: Body) -> Result<Bytes, Problem> {
    read_body(body, LARGEST_BODY).await.map_err(|unread| unread.problem("too_long"))
}
