//! Operations of an HTTP API: the list from which a router is built and by which its OpenAPI fragment is checked.

use axum::Router;
use axum::routing::MethodRouter;

/// One operation: a method on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub method: &'static str,
    /// The whole path below the public URL, in the syntax that router and OpenAPI share.
    pub path: &'static str,
    /// Whether it requires a credential in the head of the request.
    pub credential: bool,
}

/// An operation and its handler.
pub struct Endpoint<S> {
    operation: Operation,
    handler: fn() -> MethodRouter<S>,
}

impl<S> Endpoint<S> {
    /// An operation that requires a credential.
    pub const fn closed(method: &'static str, path: &'static str, handler: fn() -> MethodRouter<S>) -> Self {
        Self { operation: Operation { method, path, credential: true }, handler }
    }

    /// An operation that anyone may call, or that is authenticated by its path or body.
    pub const fn open(method: &'static str, path: &'static str, handler: fn() -> MethodRouter<S>) -> Self {
        Self { operation: Operation { method, path, credential: false }, handler }
    }
}

impl<S> Endpoint<S> {
    pub const fn operation(&self) -> Operation {
        self.operation
    }
}

/// The operations of endpoints, for a public list beside a private state type:
/// `pub const OPERATIONS: &[Operation] = &operations::<State, { ENDPOINTS.len() }>(ENDPOINTS);`
pub const fn operations<S, const COUNT: usize>(endpoints: &[Endpoint<S>]) -> [Operation; COUNT] {
    let mut operations = [Operation { method: "", path: "", credential: false }; COUNT];
    let mut at = 0;
    while at < COUNT {
        operations[at] = endpoints[at].operation;
        at += 1;
    }
    operations
}

/// The router of these endpoints. A server adds no other routes, so that no route is without an operation.
///
/// `prefix` is removed from their paths, for a router that is nested under it.
pub fn router<'e, S: Clone + Send + Sync + 'static>(
    prefix: &str,
    endpoints: impl IntoIterator<Item = &'e Endpoint<S>>,
) -> Router<S> {
    endpoints.into_iter().fold(Router::new(), |router, Endpoint { operation, handler }| {
        router.route(operation.path.strip_prefix(prefix).unwrap_or(operation.path), handler())
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::routing::{get, post};
    use http::Request;
    use tower::ServiceExt;

    use super::*;

    const ENDPOINTS: &[Endpoint<()>] = &[
        Endpoint::closed("GET", "/api/things", || get(async || "list")),
        Endpoint::open("POST", "/api/things", || post(async || "made")),
    ];
    const OPERATIONS: &[Operation] = &operations::<(), { ENDPOINTS.len() }>(ENDPOINTS);

    #[tokio::test]
    async fn every_operation_of_the_list_is_served() {
        let nested = Router::new().nest("/api", router("/api", ENDPOINTS));
        for mounted in [nested, router("", ENDPOINTS)] {
            for Operation { method, path, .. } in OPERATIONS {
                let request = Request::builder().method(*method).uri(*path).body(Body::empty()).unwrap();
                assert_eq!(mounted.clone().oneshot(request).await.unwrap().status(), 200, "{method} {path}");
            }
        }
        assert!(OPERATIONS[0].credential && !OPERATIONS[1].credential);
    }
}
