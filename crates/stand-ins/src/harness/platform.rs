//! The `StandInPlatform` trait that every stand-in implements, with its calls and answers.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header, request::Parts};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{control::Control, state::Harness};

/// A request to the API of the platform.
pub struct ApiCall {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
    /// Path without the API prefix, with escapes decoded.
    pub(crate) path: String,
    /// Name, account and chat of the call, for faults and the transcript.
    pub(crate) subject: CallSubject,
}

impl ApiCall {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// Credential of the scheme, as in `Authorization: Bearer x`.
    pub(crate) fn credential(&self, scheme: &str) -> Option<&str> {
        let (found, credential) = self.header("authorization")?.split_once(' ')?;
        found.eq_ignore_ascii_case(scheme).then(|| credential.trim())
    }
}

/// Subject of a call: its name, the account that makes it, and the chat that it is about.
#[derive(Clone, Debug, Default)]
pub struct CallSubject {
    /// The call, as in `POST /channels/{channel}/messages` or `chat.postMessage`.
    pub(crate) call: String,
    /// Id of the account, if the credential is known.
    pub(crate) account: Option<String>,
    /// The chat, if the call is about one.
    pub(crate) chat: Option<String>,
}

/// Marks an answer as a refusal for the record, where its status does not show it.
#[derive(Clone)]
pub(crate) struct RefusedCall;

/// The state and behaviour of one platform.
pub trait StandInPlatform: Send + Sync + Sized + 'static {
    /// The type of an injection: what a person can do.
    type Injection: DeserializeOwned + Send;

    /// The name that the page and errors use.
    const NAME: &'static str;
    /// JSON of an injection that the page sends, with `TEXT` in place of the text.
    const EXAMPLE: &'static str;
    /// The largest body of a call.
    const MOST_BODY: usize = 28 << 20;

    /// The shared parts.
    fn harness(&self) -> &Arc<Harness>;

    /// Names the call of a request, or `None` if the platform has no such path.
    fn subject(&self, head: &Parts, path: &str, body: &[u8]) -> Option<CallSubject>;

    /// Carries out a call.
    fn perform(self: Arc<Self>, call: ApiCall) -> impl Future<Output = Response<Body>> + Send;

    /// The answer to a call that a rate limit refuses.
    fn too_many(&self, retry_after: Duration, global: bool) -> Response<Body>;

    /// The answer to a path that does not exist.
    fn not_found(&self) -> Response<Body>;

    /// Makes a person do something.
    ///
    /// # Errors
    /// The reason why it is impossible.
    fn inject(self: &Arc<Self>, injection: Self::Injection) -> Result<Value, String>;

    /// Further paths under `/_stand-in/`.
    fn control<'a>(self: &'a Arc<Self>, _control: &'a Control<'a>) -> Option<Result<Value, String>> {
        None
    }

    /// Deletes messages, events and records. Accounts and their settings stay.
    fn reset(&self);
}

/// A JSON answer. Some clients parse JSON only if the type is exactly `application/json`.
pub(crate) fn json_response(status: u16, body: &Value) -> Response<Body> {
    respond(status, "application/json", body.to_string())
}

/// An answer with this status, type and body.
pub(crate) fn respond(status: u16, kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !kind.is_empty() {
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}
