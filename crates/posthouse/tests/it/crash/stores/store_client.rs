//! HTTP client of the crash test for `/v1/skills` and `/v1/data`.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

#[derive(Clone)]
pub struct StoreClient {
    url: String,
    id: String,
    secret: String,
    http: reqwest::Client,
}

impl StoreClient {
    /// `made` is the output of `client create`.
    pub fn of(url: &str, made: &Value) -> Self {
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        Self {
            url: url.to_owned(),
            id: text("client_id"),
            secret: text("client_secret"),
            http: reqwest::Client::new(),
        }
    }

    /// Status and body of the answer. None if the server was killed before it came.
    pub async fn answer(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(StatusCode, Value)> {
        let mut request = self
            .http
            .request(method.parse().unwrap(), format!("{}{path}", self.url))
            .basic_auth(&self.id, Some(&self.secret))
            .timeout(Duration::from_secs(60));
        if let Some(body) = body {
            request = request.json(body);
        }
        let answer = request.send().await.ok()?;
        let (status, text) = (answer.status(), answer.text().await.ok()?);
        // A store can be busy for a moment after the start.
        (status != StatusCode::SERVICE_UNAVAILABLE)
            .then(|| (status, serde_json::from_str(&text).unwrap_or_default()))
    }

    /// The answer. None if the server was killed before it came, or if there is no such thing.
    pub async fn asks(&self, method: &str, path: &str, body: Option<&Value>) -> Option<Value> {
        let (status, answer) = self.answer(method, path, body).await?;
        let expected = status.is_success() || status == StatusCode::NOT_FOUND;
        assert!(expected, "{method} {path}: {status} {answer}");
        status.is_success().then_some(answer)
    }

    /// The answer of a server that is not killed.
    pub async fn reads(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        self.asks(method, path, body).await.unwrap_or_else(|| panic!("{method} {path} has no answer"))
    }
}
