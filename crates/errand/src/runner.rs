use crate::resolve::Checked;
use crate::{Answer, Call, Config, Fault, Lookup, Refusal, SystemLookup, Url, target};
use bytes::BytesMut;
use reqwest::redirect::Policy;
use std::sync::{Arc, OnceLock};
use tokio::time::timeout;

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
        let mut heard = None;
        let ended = timeout(call.timeout.unwrap_or(config.timeout), hear(request, limit, &mut heard)).await;
        match (heard, ended) {
            // The status has come. A body that stalls or breaks off does not take it back.
            (Some(heard), ended) => Ok(heard.answer(matches!(ended, Ok(Ok(true))))),
            (None, Ok(Err(error))) => Err(Fault::of(&error)),
            (None, _) => Err(Fault::TimedOut),
        }
    }

    fn client(&self) -> Result<&reqwest::Client, Fault> {
        let Inner { config, lookup, client } = &*self.inner;
        let client = client.get_or_init(|| {
            let checked =
                Checked { lookup: Arc::clone(lookup), allowed: config.allow_cidrs.as_slice().into() };
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

/// An answer on its way in.
struct Heard {
    status: http::StatusCode,
    headers: http::HeaderMap,
    body: BytesMut,
}

impl Heard {
    fn answer(self, whole: bool) -> Answer {
        Answer { status: self.status, headers: self.headers, body: self.body.freeze(), whole }
    }
}

/// Sends the request and listens until the body has ended (true) or has reached `limit` (false). What was heard
/// stays with the caller, whose patience may end before the body does.
async fn hear(
    request: reqwest::RequestBuilder,
    limit: usize,
    heard: &mut Option<Heard>,
) -> Result<bool, reqwest::Error> {
    let mut response = request.send().await?;
    let (status, headers) = (response.status(), response.headers().clone());
    let heard = heard.insert(Heard { status, headers, body: BytesMut::new() });
    while let Some(chunk) = response.chunk().await? {
        let room = limit - heard.body.len();
        heard.body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(false);
        }
    }
    Ok(true)
}
