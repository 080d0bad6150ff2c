//! Webhook requests of platforms: their doors, verification, refusals and responses.

use std::sync::Arc;

use axum::body::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use posthouse_time::Moment;

use super::Platform;
use crate::bots::OpenedBot;

/// A path and method at which a platform calls this server. The path continues the bot's address
/// `/door/{platform}/{bot}`.
#[derive(Debug)]
pub struct WebhookDoor {
    pub method: Method,
    /// Empty, or a path such as `/events`. A path that ends in `/*` matches every path below it.
    pub path: &'static str,
}

impl WebhookDoor {
    pub const fn post(path: &'static str) -> Self {
        Self { method: Method::POST, path }
    }

    fn has_path(&self, path: &str) -> bool {
        match self.path.strip_suffix('*') {
            Some(above) => path.len() > above.len() && path.starts_with(above),
            None => path == self.path,
        }
    }
}

/// The one door of most platforms.
pub static PLAIN_DOOR: [WebhookDoor; 1] = [WebhookDoor::post("")];

/// An unverified HTTP request.
#[derive(Clone, Debug)]
pub struct UnverifiedRequest {
    pub method: Method,
    /// The path below the bot's address: empty, or such as `/events`.
    pub door: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub received: Moment,
    /// The public URL of this server.
    pub server_url: Arc<str>,
}

impl UnverifiedRequest {
    pub fn head(&self) -> RequestHead<'_> {
        RequestHead {
            method: &self.method,
            door: &self.door,
            query: &self.query,
            headers: &self.headers,
            received: self.received,
            server_url: &self.server_url,
        }
    }

    /// The request with its body, after its proof was checked.
    pub fn into_verified(self) -> VerifiedRequest {
        let UnverifiedRequest { method, door, query, headers, body, received, .. } = self;
        VerifiedRequest { method, door, query, headers, body, received }
    }
}

/// The part of a request that comes before its body.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    pub method: &'a Method,
    /// The path below the bot's address.
    pub door: &'a str,
    pub query: &'a str,
    pub headers: &'a HeaderMap,
    pub received: Moment,
    /// The public URL of this server.
    pub server_url: &'a str,
}

impl RequestHead<'_> {
    /// The URL that the platform called, as it was registered with the platform. It is never made from the request's
    /// own host.
    pub fn url(&self, bot: &OpenedBot) -> String {
        let mut url = door_url(self.server_url, bot);
        url.push_str(self.door);
        if !self.query.is_empty() {
            url.push('?');
            url.push_str(self.query);
        }
        url
    }
}

/// The address of a bot's doors.
pub(crate) fn door_url(server_url: &str, bot: &OpenedBot) -> String {
    format!("{server_url}/door/{}/{}", bot.platform, bot.id)
}

/// Result of checking the head of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadProof {
    /// The head alone proves that the request is the platform's.
    Proven,
    /// Not decided yet: the proof covers the body.
    BodyNeeded,
}

/// A verified request. Its body is decrypted, if the platform encrypts.
#[derive(Clone, Debug)]
pub struct VerifiedRequest {
    pub method: Method,
    /// The path below the bot's address.
    pub door: String,
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub received: Moment,
}

impl VerifiedRequest {
    /// An event that the server fetched itself, by polling or over a socket.
    pub fn fetched(body: impl Into<Bytes>, received: Moment) -> Self {
        Self {
            method: Method::POST,
            door: String::new(),
            query: String::new(),
            headers: HeaderMap::new(),
            body: body.into(),
            received,
        }
    }
}

/// A verification that has ended, or that waits for something such as a published key set.
pub enum Verification<'a> {
    Done(Result<VerifiedRequest, WebhookRefusal>),
    Pending(BoxFuture<'a, Result<VerifiedRequest, WebhookRefusal>>),
}

impl Verification<'_> {
    pub async fn result(self) -> Result<VerifiedRequest, WebhookRefusal> {
        match self {
            Verification::Done(result) => result,
            Verification::Pending(result) => result.await,
        }
    }
}

impl From<Result<VerifiedRequest, WebhookRefusal>> for Verification<'_> {
    fn from(result: Result<VerifiedRequest, WebhookRefusal>) -> Self {
        Verification::Done(result)
    }
}

/// Checks the door and the head of a request.
pub(crate) fn check_head(
    platform: &dyn Platform,
    bot: &OpenedBot,
    head: &RequestHead<'_>,
) -> Result<HeadProof, WebhookRefusal> {
    let mut at_path = platform.doors().iter().filter(|door| door.has_path(head.door)).peekable();
    if at_path.peek().is_none() {
        return Err(WebhookRefusal { reason: "unknown_path", status: StatusCode::NOT_FOUND });
    }
    if !at_path.any(|door| door.method == *head.method) {
        return Err(WebhookRefusal { reason: "method", status: StatusCode::METHOD_NOT_ALLOWED });
    }
    platform.verify_head(bot, head)
}

/// Checks the rest of a request, which the head alone did not prove.
pub(crate) async fn check_rest(
    platform: &dyn Platform,
    bot: &OpenedBot,
    proof: HeadProof,
    raw: UnverifiedRequest,
) -> Result<VerifiedRequest, WebhookRefusal> {
    match proof {
        HeadProof::Proven => Ok(raw.into_verified()),
        HeadProof::BodyNeeded => platform.verify(bot, raw).result().await,
    }
}

/// Verifies a whole request: its door, its head, and then its body if the head does not prove it.
pub async fn verify_request(
    platform: &dyn Platform,
    bot: &OpenedBot,
    raw: UnverifiedRequest,
) -> Result<VerifiedRequest, WebhookRefusal> {
    let proof = check_head(platform, bot, &raw.head())?;
    check_rest(platform, bot, proof, raw).await
}

/// The HTTP response to the platform after everything is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatformResponse {
    pub status: StatusCode,
    pub content_type: Option<&'static str>,
    pub body: Bytes,
}

impl Default for PlatformResponse {
    fn default() -> Self {
        Self { status: StatusCode::OK, content_type: None, body: Bytes::new() }
    }
}

impl PlatformResponse {
    pub fn json(body: impl Into<Bytes>) -> Self {
        Self { content_type: Some("application/json"), body: body.into(), ..Self::default() }
    }

    pub fn text(body: impl Into<Bytes>) -> Self {
        Self { content_type: Some("text/plain; charset=utf-8"), body: body.into(), ..Self::default() }
    }
}

/// A refused request. The reason is for logs and metrics only; the response does not contain it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WebhookRefusal {
    pub reason: &'static str,
    pub status: StatusCode,
}

impl WebhookRefusal {
    pub const fn unproven(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::UNAUTHORIZED }
    }

    /// For platforms that expect status 403 after a failed proof.
    pub const fn forbidden(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::FORBIDDEN }
    }

    pub const fn malformed(reason: &'static str) -> Self {
        Self { reason, status: StatusCode::BAD_REQUEST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_has_its_own_path_or_every_path_below_it() {
        assert!(WebhookDoor::post("").has_path("") && !WebhookDoor::post("").has_path("/events"));
        assert!(WebhookDoor::post("/events").has_path("/events"));
        let below = WebhookDoor::post("/transactions/*");
        assert!(below.has_path("/transactions/7") && below.has_path("/transactions/7/8"));
        assert!(!below.has_path("/transactions/") && !below.has_path("/transactions"));
    }
}
