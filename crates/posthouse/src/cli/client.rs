//! Calls to the admin API of a running house.

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use posthouse_wire::Secret;
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::reach::Reach;

/// An operator's line to a house.
pub struct Client {
    http: reqwest::Client,
    base: Url,
    token: Secret,
}

/// Long enough for a backup or a platform that takes its time.
const PATIENCE: Duration = Duration::from_secs(300);

/// What narrows a question down; what is not said is left out.
pub type Query<'a> = [(&'a str, Option<&'a str>)];

impl Client {
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
        Ok(Self { http: http.build().context("cannot make HTTP calls")?, base, token: reach.token()? })
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
                _ => bail!("{} answered with something that is no list: is it a posthouse?", self.base),
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
        let mut request = self.http.request(method, self.url(path, query)).bearer_auth(self.token.expose());
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.map_err(|error| self.unreached(error))?;
        let status = answer.status();
        let bytes = answer.bytes().await.map_err(|error| self.unreached(error))?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        if status.is_success() && !value.is_null() {
            return Ok(value);
        }
        match value["detail"].as_str() {
            Some(detail) => bail!("{detail}"),
            None => bail!("{} answered {status} and nothing we understand: is it a posthouse?", self.base),
        }
    }

    fn url(&self, path: &[&str], query: &Query<'_>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().push("admin").extend(path);
        }
        for (name, value) in query {
            if let Some(value) = value {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        url
    }

    fn unreached(&self, error: reqwest::Error) -> anyhow::Error {
        let why = if error.is_connect() { "is it running?" } else { "it did not answer in full" };
        let cause = std::error::Error::source(&error).map(|cause| format!(" ({cause})")).unwrap_or_default();
        anyhow!("cannot reach the house at {}: {why}{cause}", self.base)
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
