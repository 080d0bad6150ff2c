//! Calls to a running house, and to its admin API.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use posthouse_wire::Secret;
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};

use super::reach::Reach;

/// A line to a house, for whoever speaks on it.
pub struct Line {
    http: reqwest::Client,
    base: Url,
}

/// An operator's line to a house.
pub struct Client {
    line: Line,
    token: Secret,
}

/// Nothing came back, or not all of it.
#[derive(Debug, thiserror::Error)]
#[error("{words}")]
pub struct Unreached {
    words: String,
    /// Not even a connection: what was asked was not heard either.
    pub unheard: bool,
}

/// Long enough for a backup or a platform that takes its time.
const PATIENCE: Duration = Duration::from_secs(300);

/// What narrows a question down; what is not said is left out.
pub type Query<'a> = [(&'a str, Option<&'a str>)];

impl Line {
    pub fn new(reach: &Reach) -> anyhow::Result<Self> {
        let address = reach.address()?;
        let base = Url::parse(&address).with_context(|| format!("`{address}` is no URL"))?;
        if !matches!(base.scheme(), "http" | "https") || base.cannot_be_a_base() {
            bail!("`{address}` is no http or https URL");
        }
        // A redirect would be handed the token; a proxy has no business between us and this machine.
        let mut http = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(10))
            .timeout(PATIENCE);
        if is_this_machine(&base) {
            http = http.no_proxy();
        }
        Ok(Self { http: http.build().context("cannot make HTTP calls")?, base })
    }

    /// A request to a path below the house's address.
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

    /// The answer as it came, refusals too; null when it is no JSON.
    pub async fn send(&self, request: RequestBuilder) -> Result<(StatusCode, Value), Unreached> {
        let answer = request.send().await.map_err(|error| self.unreached(error))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| self.unreached(error))?;
        Ok((status, serde_json::from_slice(&bytes).unwrap_or_default()))
    }

    /// What a refusal says.
    pub fn refusal(&self, status: StatusCode, value: &Value) -> anyhow::Error {
        match value["detail"].as_str() {
            Some(detail) => anyhow!("{detail}"),
            None => anyhow!("{} answered {status} and nothing we understand: is it a posthouse?", self.base),
        }
    }

    fn unreached(&self, error: reqwest::Error) -> Unreached {
        let why = if error.is_connect() { "is it running?" } else { "it did not answer in full" };
        let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
        let words = format!("cannot reach the house at {}: {why}{cause}", self.base);
        Unreached { words, unheard: error.is_connect() }
    }
}

impl Client {
    pub fn new(reach: &Reach) -> anyhow::Result<Self> {
        Ok(Self { line: Line::new(reach)?, token: reach.token()? })
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

    /// A whole list, page after page.
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
                _ => bail!("{} answered with something that is no list: is it a posthouse?", self.line.base),
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
        let mut request = self.line.request(method, &path, query).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.json(body);
        }
        let (status, value) = self.line.send(request).await?;
        if status.is_success() && !value.is_null() {
            return Ok(value);
        }
        Err(self.line.refusal(status, &value))
    }
}

fn is_this_machine(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A list as an answer.
pub fn listed(items: Vec<Value>) -> Value {
    json!({ "items": items })
}
