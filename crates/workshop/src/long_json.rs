//! Long JSON: long texts are parsed and written on the threads for skills, in turns between tenants.
//!
//! A body of 6 MiB takes many milliseconds to parse, and a catalogue of 32 MiB as many to write. On the server's own
//! threads that would delay messages of everybody.

use bytes::Bytes;
use http::StatusCode;
use http_kit::Problem;
use posthouse_wire::TenantId;
use serde::Serialize;

use crate::running::{NoTurn, SkillThreads};

/// Longer texts are parsed in turns. One of this length takes well under a millisecond.
const LONG: usize = 64 * 1024;

const FULL: Problem = Problem::fixed(
    StatusCode::TOO_MANY_REQUESTS,
    "too_many_requests",
    "too much work of this tenant waits: try again later",
)
.retry_after(5);
const BROKEN: Problem = Problem::fixed(
    StatusCode::SERVICE_UNAVAILABLE,
    "unavailable",
    "the server cannot do this now: try again later",
)
.retry_after(5);

/// Parses a body for a tenant.
pub(crate) async fn parsed<T: Send + 'static>(
    threads: &SkillThreads,
    tenant: &TenantId,
    body: Bytes,
    parse: fn(&[u8]) -> T,
) -> Result<T, Problem> {
    if body.len() <= LONG {
        return Ok(parse(&body));
    }
    in_turn(threads, tenant, move || parse(&body)).await
}

/// Writes a value for a tenant. `length` is about as long as the text will be.
pub(crate) async fn written(
    threads: &SkillThreads,
    tenant: &TenantId,
    value: impl Serialize + Send + 'static,
    length: usize,
) -> Result<String, Problem> {
    let write = move || serde_json::to_string(&value);
    let written = if length <= LONG { write() } else { in_turn(threads, tenant, write).await? };
    written.map_err(|error| {
        tracing::error!(%error, "a response could not be written as JSON");
        BROKEN
    })
}

async fn in_turn<T: Send + 'static>(
    threads: &SkillThreads,
    tenant: &TenantId,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Problem> {
    threads.run(tenant, async move { work() }).await.map_err(|none| match none {
        NoTurn::Full => FULL,
        NoTurn::Broken => BROKEN,
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use serde_json::Value;

    use super::*;

    #[tokio::test]
    async fn a_long_body_leaves_the_async_workers_while_it_is_parsed() {
        let (threads, acme) = (SkillThreads::default(), "acme".into());
        let read = |body: &[u8]| serde_json::from_slice::<Value>(body).is_ok();
        let short = parsed(&threads, &acme, Bytes::from_static(b"{}"), read).now_or_never();
        assert_eq!(short, Some(Ok(true)));
        let body = Bytes::from(format!("\"{}\"", "x".repeat(6 << 20)));
        let mut long = std::pin::pin!(parsed(&threads, &acme, body, read));
        assert!(long.as_mut().now_or_never().is_none(), "it is parsed on the worker that asks for it");
        assert_eq!(long.await, Ok(true));
    }

    #[tokio::test]
    async fn a_long_response_leaves_the_async_workers_while_it_is_written() {
        let (threads, acme) = (SkillThreads::default(), "acme".into());
        let short = written(&threads, &acme, "x", 1).now_or_never();
        assert_eq!(short, Some(Ok("\"x\"".to_owned())));
        let text = "x".repeat(1 << 20);
        let mut long = std::pin::pin!(written(&threads, &acme, text, 1 << 20));
        assert!(long.as_mut().now_or_never().is_none(), "it is written on the worker that asks for it");
        assert_eq!(long.await.unwrap().len(), (1 << 20) + 2);
    }
}
