//! HTTP client of `bench stores`: calls the stores over one keep-alive connection.

use anyhow::{Context, bail, ensure};
use posthouse_wire::Secret;
use serde_json::{Value, json};

use super::super::poster::Poster;
use super::super::server::ServerProcess;
use super::super::stopwatch::Stopwatch;

pub struct StoreCaller {
    poster: Poster,
    address: String,
    token: Secret,
}

/// An answer with its latency in nanoseconds.
pub struct TimedAnswer {
    pub took: u64,
    pub body: Vec<u8>,
}

impl TimedAnswer {
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body).context("an answer is not JSON")
    }
}

impl StoreCaller {
    pub async fn connect(server: &ServerProcess, token: &Secret) -> anyhow::Result<Self> {
        let address = server.address()?.to_owned();
        let poster = Poster::open(&address, String::new()).await?;
        Ok(Self { poster, address, token: token.clone() })
    }

    /// Makes a request with a JSON body, which must succeed.
    pub async fn call(&mut self, method: &str, path: &str, body: &Value) -> anyhow::Result<TimedAnswer> {
        let body = body.to_string();
        self.poster.rewrite(format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.address,
            self.token.expose(),
            body.len()
        ));
        let watch = Stopwatch::start();
        let status = self.poster.post(0).await.with_context(|| format!("{method} {path} was cut off"))?;
        let took = watch.nanos();
        let body = self.poster.answer_body()?.to_vec();
        ensure!(
            (200..300).contains(&status),
            "{method} {path} was answered with {status}: {}",
            String::from_utf8_lossy(&body[..body.len().min(500)])
        );
        Ok(TimedAnswer { took, body })
    }

    /// Calls a tool of `/rpc`. The content of the result comes with the latency.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> anyhow::Result<(u64, String)> {
        let request = json!({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": name, "arguments": arguments },
        });
        let answer = self.call("POST", "/rpc", &request).await?;
        match answer.json()?["result"]["content"][0]["text"].take() {
            Value::String(text) => Ok((answer.took, text)),
            _ => bail!("{name} failed: {}", String::from_utf8_lossy(&answer.body)),
        }
    }
}
