//! Connection and body limits per authenticated caller.
//!
//! An HTTP handler tells the listener who made a request and how its body is read. The listener counts connections and
//! unread bytes accordingly.

use std::sync::Arc;

use http::Extensions;

/// The listener's interface for one request.
pub trait RequestLimits: Send + Sync {
    /// Reports that this principal has proved to have made the request. From now on the connection and the unread
    /// bytes of the body count against the principal and its tenant, no longer against the address. Returns false when
    /// they have no room left. Then the request must not be served, and the listener writes the response.
    fn proven(&self, principal: &str, tenant: Option<&str>) -> bool;

    /// Whether the server was at its connection limit before this connection. Then it serves only health and
    /// administration on it.
    fn is_at_capacity(&self) -> bool;

    /// Reports that the handler consumes the body piece by piece. Only the current piece counts against the byte
    /// budget, and the time limit applies to each piece instead of the whole.
    fn stream_body(&self);
}

/// A handle to [`RequestLimits`]. The server adds one to every request.
#[derive(Clone)]
pub struct RequestControl(Arc<dyn RequestLimits>);

/// The principal or its tenant has no room left. The listener replaces the handler's response by its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many connections of this principal")]
pub struct OverLimit;

impl RequestControl {
    pub fn new(limits: Arc<dyn RequestLimits>) -> Self {
        Self(limits)
    }

    /// Reports who made the request with these extensions. Without a listener there is no limit.
    pub fn proven(extensions: &Extensions, principal: &str, tenant: Option<&str>) -> Result<(), OverLimit> {
        extensions.get::<RequestControl>().map_or(Ok(()), |control| control.allows(principal, tenant))
    }

    /// Same as [`RequestControl::proven`], on a handle.
    pub fn allows(&self, principal: &str, tenant: Option<&str>) -> Result<(), OverLimit> {
        if self.0.proven(principal, tenant) { Ok(()) } else { Err(OverLimit) }
    }

    /// Whether there is room for this request's connection to stay.
    pub fn has_room(&self) -> bool {
        !self.0.is_at_capacity()
    }

    /// Reports that the handler reads the body of this request as a stream.
    pub fn stream_body(extensions: &Extensions) {
        if let Some(RequestControl(limits)) = extensions.get() {
            limits.stream_body();
        }
    }
}
