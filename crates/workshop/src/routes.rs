//! HTTP routes of the workshop: `/v1/skills` and `/v1/data`.

mod catalogue;
mod problem;
mod skills;
#[cfg(test)]
mod tests;

use std::future::Future;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use axum::routing::{delete, get, post, put};
use http::request::Parts;
use http_kit::{
    Endpoint, Fields, Operation, PageSize, Problem, ShuttingDown, completed, operations, read_body, router,
};
use post::Caller;

use crate::data_stores::data_routes;
use crate::fault::Fault;
use crate::long_json::parsed;
use crate::skill_store::StoreAnswer;
use crate::workshop::Workshop;
use crate::write_rules::{BODY_BYTES, METADATA_BYTES};

/// The largest request body: text and metadata with every byte as a six-byte JSON escape, plus the rest.
const LARGEST_BODY: usize = 6 * (BODY_BYTES + METADATA_BYTES) + 64 * 1024;

/// The number of items on a page of every list.
const PAGE: PageSize = PageSize { default: 50, largest: 200 };

/// All operations with their handlers. The router is built from this list.
const ENDPOINTS: &[Endpoint<Workshop>] = &[
    Endpoint::closed("GET", "/v1/skills", || get(skills::list)),
    Endpoint::closed("GET", "/v1/skills/{name}", || get(skills::show)),
    Endpoint::closed("PUT", "/v1/skills/{name}", || put(skills::write)),
    Endpoint::closed("DELETE", "/v1/skills/{name}", || delete(skills::remove)),
    Endpoint::closed("GET", "/v1/skills/{name}/versions", || get(skills::versions)),
    Endpoint::closed("GET", "/v1/skills/{name}/dependents", || get(skills::dependents)),
    Endpoint::closed("POST", "/v1/skills/{name}/status", || post(skills::set_status)),
    Endpoint::closed("POST", "/v1/skills/{name}/restore", || post(skills::restore)),
    Endpoint::closed("GET", "/v1/deleted-skills", || get(skills::deleted)),
    Endpoint::closed("GET", "/v1/skill-catalogue", || get(catalogue::show)),
    Endpoint::closed("GET", "/v1/skill-store", || get(skills::describe)),
];

/// All operations. Tests check the OpenAPI fragment and the access matrix against them.
pub const OPERATIONS: &[Operation] = &operations::<Workshop, { ENDPOINTS.len() }>(ENDPOINTS);

/// The OpenAPI fragment of the operations, written by hand.
pub const OPENAPI: &str = include_str!("openapi.json");

/// The router for the paths of the workshop. Unknown paths below `/v1` are answered by the post.
pub fn routes(workshop: &Workshop) -> Router {
    let data = data_routes(workshop.data().clone(), workshop.callers().clone());
    router("", ENDPOINTS)
        .method_not_allowed_fallback(async || Problem::method_not_allowed())
        .with_state(workshop.clone())
        .merge(data)
}

pub(crate) use problem::{answered, unavailable};

pub(crate) type HttpAnswer = Result<Response, Problem>;

impl Workshop {
    /// Authenticates the caller by the head of the request.
    async fn authenticate(&self, head: &Parts) -> Result<Caller, Problem> {
        Ok(self.callers().caller(head).await?)
    }

    /// Authenticates the caller, then reads the body. The body of an unknown caller is not read.
    async fn authenticate_and_read(&self, request: Request) -> Result<(Caller, Fields), Problem> {
        let (head, body) = request.into_parts();
        let caller = self.authenticate(&head).await?;
        let body = read_body(body, LARGEST_BODY).await.map_err(|unread| unread.problem("too_large"))?;
        let fields = parsed(self.threads(), &caller.tenant, body, Fields::read).await?;
        Ok((caller, fields?))
    }

    /// Completes a change even if the client disconnects. Otherwise its row in the audit log could be missing.
    async fn to_the_end<T, F>(&self, work: impl FnOnce(Workshop) -> F) -> Result<T, Problem>
    where
        T: Send + 'static,
        F: Future<Output = StoreAnswer<T>> + Send + 'static,
    {
        match completed(tokio::spawn(work(self.clone()))).await {
            Ok(done) => problem::answered(done),
            Err(ShuttingDown) => Err(problem::unavailable(&Fault::Stopped)),
        }
    }
}
