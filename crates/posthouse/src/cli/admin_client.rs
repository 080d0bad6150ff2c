//! HTTP client for a running server and its admin API.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use posthouse_wire::Secret;
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

use super::server_address::ServerOptions;

/// HTTP connection to a server, without authentication.
pub struct ServerConnection {
    http: reqwest::Client,
    base: Url,
}

/// Client of the admin API, authenticated as the operator.
pub struct AdminClient {
    connection: ServerConnection,
    token: Secret,
}

/// The call failed: no response, or an incomplete one.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct Unreached {
    words: String,
    /// There was no connection at all, so the server has not received the request.
    pub unheard: bool,
}

/// Long enough for a backup or a slow platform.
const PATIENCE: Duration = Duration::from_secs(300);

/// Query parameters; those without a value are left out.
pub type Query<'a> = [(&'a str, Option<&'a str>)];

impl ServerConnection {
    pub fn new(server: &ServerOptions) -> anyhow::Result<Self> {
        let address = server.address()?;
        let base = Url::parse(&address).with_context(|| format!("`{address}` is not a URL"))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            bail!("`{address}` is not an http or https URL");
        }
        // No redirects, because the token would be sent to their target. No proxy for loopback addresses.
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(PATIENCE);
        if is_this_machine(&base) {
            http = http.no_proxy();
        }
        Ok(Self { http: http.build().context("cannot make HTTP calls")?, base })
    }

    /// A request to a path below the server's address.
    pub fn request(&self, method: Method, path: &[&str], query: &Query<'_>) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        self.http.request(method, url)
    }

    /// The response with its status, refusals included. The body is null if it is not JSON.
    pub async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, Value), Unreached> {
        let answer = request.send().await.map_err(|error| self.unreached(error))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| self.unreached(error))?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// The `detail` of a refusal as an error.
    pub fn refusal(&self, status: StatusCode, value: &Value) -> anyhow::Error {
        match value["detail"].as_str() {
            Some(detail) => anyhow!("{detail}"),
            None => {
                anyhow!("{} answered {status} without a readable error: is it a Posthouse server?", self.base)
            }
        }
    }

    fn unreached(&self, error: reqwest::Error) -> Unreached {
        let why = if error.is_connect() { "is it running?" } else { "the response is incomplete" };
        let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
        let words = format!("cannot reach the server at {}: {why}{cause}", self.base);
        Unreached { words, unheard: error.is_connect() }
    }
}

impl AdminClient {
    pub fn new(server: &ServerOptions) -> anyhow::Result<Self> {
        Ok(Self { connection: ServerConnection::new(server)?, token: server.token()? })
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
                    self.connection.base
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
        let path = [&["admin"], path].concat();
        let mut request = self.connection.request(method, &path, query).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.json(body);
        }
        let (status, value) = self.connection.send(request).await?;
        if status.is_success() && !value.is_null() {
            return Ok(value);
        }
        Err(self.connection.refusal(status, &value))
    }
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Items in the shape of a list answer.
pub fn listed(items: Vec<Value>) -> Value {
    json!({ "items": items })
}
