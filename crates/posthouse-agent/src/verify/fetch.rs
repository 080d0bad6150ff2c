//! Fetching a key set from its URL, with limits on time and size.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::header;

use super::KeySet;
use crate::https;

/// Shorter than the ten seconds that the portal gives a whole fire.
const PATIENCE: Duration = Duration::from_secs(5);
/// Enough for hundreds of keys.
const LONGEST: usize = 256 << 10;

pub(super) struct KeySetSource {
    url: String,
    tls: Option<Arc<rustls::ClientConfig>>,
    client: OnceLock<Result<reqwest::Client, String>>,
}

impl KeySetSource {
    pub(super) fn new(url: &str, tls: Option<Arc<rustls::ClientConfig>>) -> Self {
        Self { url: url.to_owned(), tls, client: OnceLock::new() }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The published keys, or the reason why they are not available.
    pub(super) async fn fetch(&self) -> Result<KeySet, String> {
        let made = || https::client(&self.url, self.tls.as_ref(), PATIENCE);
        let client = self.client.get_or_init(made).as_ref().map_err(Clone::clone)?;
        let request = client.get(&self.url).header(header::ACCEPT, "application/json");
        let answer = request.send().await.map_err(https::in_words)?;
        if answer.status() != http::StatusCode::OK {
            return Err(format!("the portal answered {}", answer.status()));
        }
        let body = https::body(answer, LONGEST).await.map_err(|unread| unread.to_string())?;
        KeySet::read(&body).ok_or_else(|| "the answer is not a key set".to_owned())
    }
}
