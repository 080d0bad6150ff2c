//! HTTP client of the admin API.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use posthouse_wire::Secret;
use posthouse_wire::address::is_this_machine;
use reqwest::{Method, StatusCode, Url};
use serde_json::{Value, json};

use super::server_address::ServerOptions;

/// Client of the admin API, authenticated as the operator.
pub struct AdminClient {
    http: reqwest::Client,
    base: Url,
    token: Secret,
}

/// The call failed: no response, or an incomplete one.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct CallFailed {
    words: String,
    /// The reason alone, without the address.
    pub cause: String,
}

/// Long enough for a backup or a slow platform.
const PATIENCE: Duration = Duration::from_secs(300);

/// Query parameters; those without a value are left out.
pub type Query<'a> = [(&'a str, Option<&'a str>)];

impl AdminClient {
    pub fn new(server: &ServerOptions) -> anyhow::Result<Self> {
        let base = server.url()?;
        // No redirects, because the token would be sent to their target. No proxy for loopback addresses.
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(PATIENCE);
        if base.host_str().is_some_and(is_this_machine) {
            http = http.no_proxy();
        }
        Ok(Self { http: http.build().context("cannot make HTTP calls")?, base, token: server.token()? })
    }

    pub async fn get(&self, path: &[&str], query: &Query<'_>) -> anyhow::Result<Value> {
        self.call(Method::GET, path, query, None).await
    }

    pub async fn post(&self, path: &[&str], query: &Query<'_>, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::POST, path, query, Some(body)).await
    }

    pub async fn patch(&self, path: &[&str], query: &Query<'_>, body: &Value) -> anyhow::Result<Value> {
        self.call(Method::PATCH, path, query, Some(body)).await
    }

    pub async fn delete(&self, path: &[&str], query: &Query<'_>) -> anyhow::Result<Value> {
        self.call(Method::DELETE, path, query, None).await
    }

    /// An access token with which the operator acts for a tenant, or the refusal.
    pub async fn tenant_token(&self, tenant: &str) -> Result<(StatusCode, Value), CallFailed> {
        self.send(Method::POST, &["tenants", tenant, "token"], &[], Some(&json!({}))).await
    }

    /// All items of a list, page after page.
    pub async fn list(&self, path: &[&str], query: &Query<'_>) -> anyhow::Result<Vec<Value>> {
        let (mut items, mut after) = (Vec::new(), None::<String>);
        loop {
            let mut asked = query.to_vec();
            if after.is_some() {
                asked.push(("after", after.as_deref()));
            }
            let mut page = self.get(path, &asked).await?;
            match page["items"].take() {
                Value::Array(more) => items.extend(more),
                _ => bail!(
                    "{} answered with something that is not a list: is it a Posthouse server?",
                    self.base
                ),
            }
            match page["next"].as_str() {
                Some(next) => after = Some(next.to_owned()),
                None => return Ok(items),
            }
        }
    }

    async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: &Query<'_>,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let (status, value) = self.send(method, path, query, body).await?;
        match (status.is_success() && !value.is_null(), value["detail"].as_str()) {
            (true, _) => Ok(value),
            (false, Some(detail)) => Err(anyhow!("{detail}")),
            (false, None) => Err(unreadable(&self.base, status)),
        }
    }

    /// The response with its status, refusals included. The body is null if it is not JSON.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        query: &Query<'_>,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value), CallFailed> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("admin").extend(path);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let mut request = self.http.request(method, url).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.json(body);
        }
        let failed = |error: reqwest::Error| {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            unreachable_server(&self.base, !error.is_connect(), cause.as_deref())
        };
        let answer = request.send().await.map_err(failed)?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(failed)?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }
}

/// The error of a call without a complete response. `sent`: the server may have received the request.
pub fn unreachable_server(server: &Url, sent: bool, cause: Option<&str>) -> CallFailed {
    let why = if sent { "the response is incomplete" } else { "is it running?" };
    let cause = cause.unwrap_or_default().to_owned();
    let shown = if cause.is_empty() { String::new() } else { format!(" ({cause})") };
    CallFailed { words: format!("cannot reach the server at {server}: {why}{shown}"), cause }
}

/// The error of an answer that no Posthouse server gives.
pub fn unreadable(server: &Url, status: StatusCode) -> anyhow::Error {
    anyhow!("{server} answered {status} without a readable error: is it a Posthouse server?")
}

/// Items in the shape of a list answer.
pub fn listed(items: Vec<Value>) -> Value {
    json!({ "items": items })
}
