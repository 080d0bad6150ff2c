use crate::resolve::Checked;
use crate::{Answer, Call, Config, Fault, Lookup, Refusal, SystemLookup, Url, target};
use bytes::{Bytes, BytesMut};
use reqwest::redirect::Policy;
use std::sync::{Arc, OnceLock};
use tokio::time::{Instant, timeout_at};

/// Runs errands. Clones share connections.
#[derive(Clone)]
pub struct Errand {
    inner: Arc<Inner>,
}

struct Inner {
    config: Config,
    lookup: Arc<dyn Lookup>,
    /// Made for the first call: it reads the machine's certificates, which a house that calls nobody need not do.
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl Errand {
    /// URLs longer than this are refused.
    pub const LONGEST_URL: usize = target::LONGEST;

    /// Errands within `config`, with hosts resolved by the system.
    pub fn new(config: Config) -> Self {
        Self::with_lookup(config, Arc::new(SystemLookup))
    }

    /// As [`Errand::new`], with hosts resolved by `lookup`. What it finds is checked all the same.
    pub fn with_lookup(config: Config, lookup: Arc<dyn Lookup>) -> Self {
        Self { inner: Arc::new(Inner { config, lookup, client: OnceLock::new() }) }
    }

    /// What can be said of a URL without resolving its host: for the moment somebody names it. Answers with the
    /// form in which it would be called.
    pub fn check(&self, url: &str) -> Result<Url, Refusal> {
        target::read(url, &self.inner.config)
    }

    /// As [`Errand::check`], for a URL that paths will be appended to: it may have no query.
    pub fn check_base(&self, url: &str) -> Result<Url, Refusal> {
        let url = self.check(url)?;
        if url.query().is_some() { Err(Refusal::Query) } else { Ok(url) }
    }

    /// Makes the call. Any status is an answer; a [`Fault`] says whether the call may have been heard.
    pub async fn run(&self, call: Call) -> Result<Answer, Fault> {
        let url = self.check(&call.url)?;
        let Inner { config, .. } = &*self.inner;
        let limit = call.max_answer.unwrap_or(config.max_answer);
        let request = self.client()?.request(call.method, url).headers(call.headers);
        let request = if call.body.is_empty() { request } else { request.body(call.body) };
        let end = deadline(call.timeout.unwrap_or(config.timeout));
        let response = match timeout_at(end, request.send()).await {
            Ok(sent) => sent.map_err(|error| Fault::of(&error))?,
            Err(_) => return Err(Fault::TimedOut),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let (body, whole) = read(response, limit, end).await;
        Ok(Answer { status, headers, body, whole })
    }

    fn client(&self) -> Result<&reqwest::Client, Fault> {
        let Inner { config, lookup, client } = &*self.inner;
        let client = client.get_or_init(|| {
            let checked = Checked { lookup: Arc::clone(lookup), allowed: config.allow_cidrs.as_slice().into() };
            let built = reqwest::Client::builder()
                .dns_resolver(Arc::new(checked))
                .redirect(Policy::none())
                .referer(false)
                .no_proxy()
                .user_agent("posthouse")
                .connect_timeout(config.connect_timeout)
                .pool_idle_timeout(config.keep_idle)
                .pool_max_idle_per_host(config.max_idle_per_host)
                .build();
            built.map_err(|error| error.to_string())
        });
        client.as_ref().map_err(|reason| Fault::Unready(reason.clone()))
    }
}

/// Deadlines of calls are the runtime's own affair, not the house's time: a hand-wound house must not freeze them.
#[expect(clippy::disallowed_methods)]
fn deadline(timeout: std::time::Duration) -> Instant {
    Instant::now() + timeout
}

/// At most `limit` bytes of the body, and whether that was all. The status has come by now; a body that stalls
/// or breaks off does not take it back.
async fn read(mut response: reqwest::Response, limit: usize, end: Instant) -> (Bytes, bool) {
    let mut body = BytesMut::new();
    loop {
        match timeout_at(end, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                let room = limit - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    return (body.freeze(), false);
                }
            }
            Ok(Ok(None)) => return (body.freeze(), true),
            Ok(Err(_)) | Err(_) => return (body.freeze(), false),
        }
    }
}
