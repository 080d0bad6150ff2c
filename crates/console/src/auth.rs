//! Authentication of the operator by the admin token.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::Extensions;
use http::header::{CACHE_CONTROL, HeaderMap, HeaderValue};
use http_kit::{ClientAddress, OverLimit};
use identity::{Authentication, Authenticator};

use crate::problem::AdminProblem;
use crate::routes::Console;

/// Check of the admin token, for `/admin` and for other paths that need it, such as `/metrics`.
#[derive(Clone)]
pub struct AdminApi(Authenticator);

impl AdminApi {
    pub fn new(authenticator: Authenticator) -> Self {
        Self(authenticator)
    }

    /// Lets a request with the token pass; otherwise returns the refusal.
    pub async fn admit(&self, head: &HeaderMap, extensions: &Extensions) -> Result<(), Response> {
        let address = extensions.get::<ClientAddress>().map(|ClientAddress(address)| *address);
        match self.0.operator(head, address).await {
            Authentication::Known(principal) => principal
                .within_limits(extensions)
                .map_err(|OverLimit| AdminProblem::TOO_MANY.into_response()),
            Authentication::Refused(_) => Err(AdminProblem::UNAUTHORIZED.into_response()),
            Authentication::Barred => Err(AdminProblem::TOO_MANY.into_response()),
        }
    }
}

/// Middleware before everything under `/admin`, known paths and unknown ones. Many answers contain secrets,
/// so no proxy or browser may cache them.
pub(crate) async fn admit(State(console): State<Console>, request: Request, next: Next) -> Response {
    let mut response = match console.admin.admit(request.headers(), request.extensions()).await {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal,
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
