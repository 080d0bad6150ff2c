//! The cached keys of one issuer, and fetching them.

use std::sync::Arc;
use std::time::Duration;

use errand::{Errand, OutgoingCall};
use http::StatusCode;
use http::header::{ACCEPT, HeaderValue};
use http_kit::completed;
use parking_lot::Mutex;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::jwt::KeySet;

/// Time for one fetch. A stock gateway waits 15 s for its answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Largest key set, in bytes. Enough for a hundred keys.
const LARGEST: usize = 256 << 10;
/// From this age on, the keys are fetched again. A key that the issuer has withdrawn is accepted for no longer, while
/// the issuer can be reached.
const OLD: Duration = Duration::from_secs(3600);
/// Up to this age, keys are used while the issuer cannot be reached.
const DEAD: Duration = Duration::from_secs(24 * 3600);
/// Shortest interval of fetches because of unknown key ids. Anyone can send a token with an unknown one.
const UNKNOWN_KEY: Duration = Duration::from_secs(60);
/// Shortest pause after a failed fetch.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Where the keys of an issuer come from.
#[derive(Clone)]
pub(super) enum KeySource {
    /// A file that was read when the server started.
    File(Arc<KeySet>),
    Url(Arc<PublishedKeys>),
}

/// Keys that the issuer publishes at a URL.
pub(super) struct PublishedKeys {
    issuer: String,
    url: String,
    errand: Errand,
    timepiece: Timepiece,
    cached: Mutex<CachedIssuerKeys>,
    /// One fetch at a time. Callers that have no keys wait for it.
    fetching: tokio::sync::Mutex<()>,
}

#[derive(Clone, Default)]
struct CachedIssuerKeys {
    keys: Arc<KeySet>,
    fetched: Option<Instant>,
    failed: Option<Instant>,
    /// Number of fetches that have ended, successful or not.
    fetches: u64,
}

impl KeySource {
    pub fn at_url(issuer: &str, url: &str, errand: Errand, timepiece: Timepiece) -> Self {
        let (issuer, url) = (issuer.to_owned(), url.to_owned());
        let (cached, fetching) = (Mutex::default(), tokio::sync::Mutex::default());
        Self::Url(Arc::new(PublishedKeys { issuer, url, errand, timepiece, cached, fetching }))
    }

    /// The keys for a token that names this key. An empty set when none are known.
    pub async fn keys_for(&self, kid: Option<&str>) -> Arc<KeySet> {
        match self {
            Self::File(keys) => Arc::clone(keys),
            Self::Url(published) => published.keys_for(kid).await,
        }
    }
}

impl PublishedKeys {
    async fn keys_for(self: &Arc<Self>, kid: Option<&str>) -> Arc<KeySet> {
        // A published key always has an id. A token without one cannot be checked, and causes no fetch.
        if kid.is_none() {
            return Arc::default();
        }
        let (seen, now) = (self.cached.lock().clone(), self.timepiece.instant());
        let usable = seen.usable(now);
        if seen.is_due(now, usable.knows(kid)) {
            if usable.knows(kid) {
                // The caller does not wait while somebody else fetches: its key is known.
                if self.fetching.try_lock().is_ok() {
                    self.fetch_to_the_end(seen.fetches, true).await;
                }
            } else {
                self.fetch_to_the_end(seen.fetches, false).await;
            }
        }
        self.cached.lock().usable(self.timepiece.instant())
    }

    /// Fetches in a task of its own, so that a caller who hangs up does not use up the only fetch of a minute.
    async fn fetch_to_the_end(self: &Arc<Self>, seen: u64, known: bool) {
        let source = Arc::clone(self);
        let _ = completed(tokio::spawn(async move { source.fetch(seen, known).await })).await;
    }

    /// Fetches, unless another caller has done so since `seen`.
    async fn fetch(&self, seen: u64, known: bool) {
        let _alone = self.fetching.lock().await;
        let now = self.timepiece.instant();
        {
            let cached = self.cached.lock();
            if cached.fetches != seen || !cached.is_due(now, known) {
                return;
            }
        }
        let fetched = self.call().await;
        let mut cached = self.cached.lock();
        cached.fetches += 1;
        match fetched {
            Ok(keys) => {
                cached.keys = Arc::new(keys);
                (cached.fetched, cached.failed) = (Some(now), None);
            }
            Err(why) => {
                cached.failed = Some(now);
                tracing::warn!(issuer = self.issuer, "cannot fetch the keys of an issuer: {why}");
            }
        }
    }

    async fn call(&self) -> Result<KeySet, String> {
        let call = OutgoingCall::get(self.url.as_str())
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .timeout(PATIENCE)
            .max_answer(LARGEST);
        let answer = self.errand.run(call).await.map_err(|fault| fault.to_string())?;
        if answer.status != StatusCode::OK {
            return Err(format!("the answer was {}", answer.status));
        }
        if !answer.whole {
            return Err("the answer is incomplete, or larger than 256 KiB".to_owned());
        }
        KeySet::read(&answer.body).ok_or_else(|| "the answer is not a key set".to_owned())
    }
}

impl CachedIssuerKeys {
    /// Whether to fetch now, for a token whose key is `known`.
    fn is_due(&self, now: Instant, known: bool) -> bool {
        let rested = self.failed.is_none_or(|at| now.since(at) >= AFTER_FAILURE);
        let age = self.fetched.map(|at| now.since(at));
        let limit = if known { OLD } else { UNKNOWN_KEY };
        rested && age.is_none_or(|age| age >= limit)
    }

    fn usable(&self, now: Instant) -> Arc<KeySet> {
        match self.fetched.is_some_and(|at| now.since(at) < DEAD) {
            true => Arc::clone(&self.keys),
            false => Arc::default(),
        }
    }
}
