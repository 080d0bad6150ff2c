//! The post's door: everything under `/v1`, and the document that describes it.

mod agents;
mod envelope;
mod exchange;
mod fields;
mod notify;
mod problem;
mod query;
mod receipts;
mod replies;
#[cfg(test)]
mod tests;

use std::future::Future;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{MethodRouter, any, get, post};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, StatusCode};

use self::fields::Fields;
use self::problem::Problem;
use crate::conversation::LONGEST_TEXT;
use crate::{Caller, Fault, Post, openapi};

pub use receipts::told;

/// The largest body: a text of the greatest length, with every byte of it written as an escape of six,
/// and its envelope.
const LARGEST_BODY: usize = 6 * LONGEST_TEXT + 64 * 1024;

/// One thing that can be asked of this door.
pub struct Operation {
    pub method: &'static str,
    /// As the router and the description both write it.
    pub path: &'static str,
    /// Whether it asks for a credential; what does not is open to whoever knows its path.
    pub credential: bool,
    mount: fn() -> MethodRouter<Door>,
}

/// Everything that can be asked here. The router is built from this list, the description is checked
/// against it, and so is whoever has to know every operation there is.
pub const OPERATIONS: &[Operation] = &[
    Operation::asking("POST", "/v1/notify", || post(notify::notify)),
    Operation::asking("POST", "/v1/deliver", || post(notify::deliver)),
    Operation::asking("POST", "/v1/wake", || post(notify::wake)),
    Operation::asking("POST", "/v1/exchange", || post(exchange::ask)),
    Operation::asking("GET", "/v1/exchanges", || get(exchange::list)),
    Operation::asking("GET", "/v1/exchanges/{correlation_id}", || get(exchange::attach)),
    Operation::asking("GET", "/v1/receipts", || get(receipts::list)),
    Operation::asking("GET", "/v1/receipts/{dispatch_id}", || get(receipts::show)),
    Operation::asking("GET", "/v1/agents", || get(agents::list)),
    Operation::asking("GET", "/v1/agents/{name}", || get(agents::show)),
    Operation::open("POST", "/v1/replies/{token}", || post(replies::take)),
    Operation::open("GET", "/openapi.json", || get(openapi::show)),
];

impl Operation {
    const fn asking(method: &'static str, path: &'static str, mount: fn() -> MethodRouter<Door>) -> Self {
        Self { method, path, credential: true, mount }
    }

    const fn open(method: &'static str, path: &'static str, mount: fn() -> MethodRouter<Door>) -> Self {
        Self { method, path, credential: false, mount }
    }
}

/// Everything under `/v1`, and its description.
pub fn routes(post: &Post) -> Router {
    let mounted = OPERATIONS
        .iter()
        .fold(Router::new(), |router, operation| router.route(operation.path, (operation.mount)()));
    mounted
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .route("/v1/{*rest}", any(async || Problem::absent()))
        .with_state(Door::new(post))
}

/// What stands behind every path.
#[derive(Clone)]
pub(crate) struct Door {
    pub post: Post,
    pub description: Bytes,
}

pub(crate) type Answer = Result<Response, Problem>;

impl Door {
    fn new(post: &Post) -> Self {
        let description = openapi::document(&post.0.public_url);
        Self { post: post.clone(), description }
    }

    /// Who asks, by the head of the request.
    async fn admit(&self, headers: &HeaderMap, address: Option<relay::Caller>) -> Result<Caller, Problem> {
        Ok(self.post.caller(headers, address).await?)
    }

    /// Who asks, without a body.
    async fn asked(&self, head: &Parts) -> Result<Caller, Problem> {
        self.admit(&head.headers, head.extensions.get().copied()).await
    }

    /// Who asks, and for what. The body is read first, since whoever is cut off while sending it never hears
    /// why; it is parsed last, since a stranger is to learn nothing about it.
    async fn told(&self, request: Request) -> Result<(Caller, HeaderMap, Fields), Problem> {
        let (headers, address, body) = taken(request).await?;
        let caller = self.admit(&headers, address).await?;
        Ok((caller, headers, Fields::read(&body)?))
    }

    /// Sees work through even when whoever asked for it hangs up, which would otherwise end it between a
    /// commit and what must follow it.
    async fn to_the_end<T, R, F>(&self, work: impl FnOnce(Post) -> F) -> Result<T, Problem>
    where
        T: Send + 'static,
        R: Into<Problem> + Send + 'static,
        F: Future<Output = Result<T, R>> + Send + 'static,
    {
        match self.post.0.tasks.spawn(work(self.post.clone())).await {
            Ok(done) => done.map_err(Into::into),
            Err(ended) => match ended.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Nobody cancels it, so the runtime itself is going.
                Err(_) => Err(Problem::unavailable(&Fault::from(ledger::Fault::Closed))),
            },
        }
    }
}

/// The request's head and its whole body, or why not.
async fn taken(request: Request) -> Result<(HeaderMap, Option<relay::Caller>, Bytes), Problem> {
    let (parts, body) = request.into_parts();
    let address = parts.extensions.get().copied();
    match axum::body::to_bytes(body, LARGEST_BODY).await {
        Ok(body) => Ok((parts.headers, address, body)),
        Err(_) => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "too_long",
            format!("the body is longer than {LARGEST_BODY} bytes, or did not arrive whole"),
        )),
    }
}
