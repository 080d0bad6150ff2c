//! `subscriptions/listen`: a stream that tells a client when a list has changed.
//!
//! The list of tools changes only with the server's version, and then the stream ends anyway. `skillsListChanged` is an
//! addition of ours: it reports that `skill_list` would answer something else. The stream ends when its caller loses
//! access, and at shutdown.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http::StatusCode;
use http_kit::Problem;
use parking_lot::Mutex;
use post::Caller;
use posthouse_time::Timepiece;
use posthouse_wire::ClientId;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::complete;
use super::event_stream::{KEEP_ALIVE, event, event_stream};
use crate::tools::json_rpc::{RpcRequest, response};
use crate::tools::tool_calls::ToolRunner;

/// Interval of looking for changes, of keep-alive comments, and of asking whether the caller still has access.
const INTERVAL: Duration = Duration::from_secs(10);
/// Open streams of one credential.
const LIMIT_PER_CLIENT: usize = 4;
/// Open streams of all credentials.
const LIMIT: usize = 1_000;
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const TOOLS_CHANGED: &str = "toolsListChanged";
const SKILLS_CHANGED: &str = "skillsListChanged";

/// Tells whether the credential that opened a stream still gives access.
pub type StillAllowed = Arc<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// What a stream needs.
pub struct Listening {
    pub caller: Caller,
    pub runner: Arc<dyn ToolRunner>,
    pub still_allowed: StillAllowed,
}

/// All open streams.
pub struct ChangeStreams {
    timepiece: Timepiece,
    closing: CancellationToken,
    open: Arc<Mutex<HashMap<ClientId, usize>>>,
}

impl ChangeStreams {
    pub fn new(timepiece: Timepiece, closing: CancellationToken) -> Self {
        Self { timepiece, closing, open: Arc::default() }
    }

    /// Opens the stream that this request asks for.
    pub fn open(&self, listening: Listening, request: &RpcRequest) -> Response {
        let Some(place) = self.place(&listening.caller.client) else {
            const FULL: Problem = Problem::fixed(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_streams",
                "too many streams are open: close one first",
            )
            .retry_after(10);
            return FULL.into_response();
        };
        let asked = request.params.get("notifications");
        let is_asked = |kind: &str| asked.and_then(|asked| asked.get(kind)) == Some(&Value::Bool(true));
        let accepted: Map<String, Value> = [TOOLS_CHANGED, SKILLS_CHANGED]
            .into_iter()
            .filter(|kind| is_asked(kind))
            .map(|kind| (kind.to_owned(), true.into()))
            .collect();
        let follower = StreamFollower {
            id: request.id.clone(),
            follows_skills: accepted.contains_key(SKILLS_CHANGED),
            accepted: Some(accepted),
            token: None,
            ended: false,
            timepiece: self.timepiece.clone(),
            closing: self.closing.clone(),
            listening,
            _place: place,
        };
        let events = stream::unfold(follower, |mut follower| async {
            let event = follower.next().await?;
            Some((Ok::<_, Infallible>(event), follower))
        });
        event_stream(Body::from_stream(events))
    }

    fn place(&self, client: &ClientId) -> Option<StreamPlace> {
        let mut open = self.open.lock();
        let own = open.get(client).copied().unwrap_or(0);
        if own >= LIMIT_PER_CLIENT || open.values().sum::<usize>() >= LIMIT {
            return None;
        }
        open.insert(client.clone(), own + 1);
        Some(StreamPlace { open: Arc::clone(&self.open), client: client.clone() })
    }
}

/// A place among the open streams, free again when it is dropped.
struct StreamPlace {
    open: Arc<Mutex<HashMap<ClientId, usize>>>,
    client: ClientId,
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        let mut open = self.open.lock();
        match open.get_mut(&self.client) {
            Some(own) if *own > 1 => *own -= 1,
            _ => {
                open.remove(&self.client);
            }
        }
    }
}

/// One open stream.
struct StreamFollower {
    /// The id of the request, which is also that of the subscription.
    id: Value,
    /// What was accepted, until the client has been told.
    accepted: Option<Map<String, Value>>,
    follows_skills: bool,
    /// The token of the skills when they were last looked at.
    token: Option<String>,
    ended: bool,
    listening: Listening,
    timepiece: Timepiece,
    closing: CancellationToken,
    _place: StreamPlace,
}

impl StreamFollower {
    async fn next(&mut self) -> Option<Bytes> {
        if self.ended {
            return None;
        }
        if let Some(accepted) = self.accepted.take() {
            // Looked at before the client hears that it is subscribed, so that no change after that is missed.
            self.token = self.skills_token().await;
            let params = json!({ "notifications": accepted });
            return Some(self.notification("notifications/subscriptions/acknowledged", params));
        }
        tokio::select! {
            () = self.closing.cancelled() => {
                self.ended = true;
                let mut result = complete(json!({}));
                result["_meta"][SUBSCRIPTION_ID] = self.id.clone();
                return Some(event(&response(&self.id, Ok(result))));
            }
            () = self.timepiece.after(INTERVAL) => {}
        }
        if !(self.listening.still_allowed)().await {
            return None;
        }
        let token = self.skills_token().await;
        // An unknown token is no change: the next one tells.
        if token.is_some() && token != self.token {
            self.token = token;
            return Some(self.notification("notifications/skills/list_changed", json!({})));
        }
        Some(KEEP_ALIVE)
    }

    async fn skills_token(&self) -> Option<String> {
        match self.follows_skills {
            true => self.listening.runner.skills_token(&self.listening.caller).await,
            false => None,
        }
    }

    fn notification(&self, method: &str, mut params: Value) -> Bytes {
        params["_meta"] = json!({ SUBSCRIPTION_ID: self.id });
        event(&json!({ "jsonrpc": "2.0", "method": method, "params": params }))
    }
}
