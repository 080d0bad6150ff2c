//! What we show the portal: a token of our own, or one that a client credential is exchanged for.

use std::time::Duration;

use posthouse_time::{Moment, Timepiece};
use posthouse_wire::Secret;
use reqwest::Client;
use serde::Deserialize;
use tokio::sync::Mutex;

use super::{Refusal, shown};
use crate::https;

/// A token that ends sooner than this is not used any more.
const MARGIN: Duration = Duration::from_secs(120);
/// A grant that does not say how long it lasts.
const UNSAID: u64 = 900;
const LONGEST: usize = 64 << 10;

/// How an agent proves to the portal who it is.
#[derive(Clone)]
pub enum Credential {
    /// A client's id and secret, exchanged for tokens that last a while.
    Client { id: String, secret: Secret },
    /// An access token that somebody else keeps fresh.
    Token(Secret),
}

pub(super) struct Tokens {
    url: String,
    credential: Credential,
    timepiece: Timepiece,
    /// Locked while one is fetched, so that a burst of calls fetches one.
    held: Mutex<Option<Held>>,
}

struct Held {
    token: Secret,
    until: Moment,
}

#[derive(Deserialize)]
struct Grant {
    access_token: Secret,
    expires_in: Option<u64>,
}

impl Tokens {
    pub(super) fn new(url: String, credential: Credential, timepiece: Timepiece) -> Self {
        Self { url, credential, timepiece, held: Mutex::default() }
    }

    /// A token to try.
    pub(super) async fn current(&self, client: &Client) -> Result<Secret, Refusal> {
        let (id, secret) = match &self.credential {
            Credential::Token(token) => return Ok(token.clone()),
            Credential::Client { id, secret } => (id, secret),
        };
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| self.timepiece.now() < held.until) {
            return Ok(held.token.clone());
        }
        let fresh = self.fetch(client, id, secret).await?;
        let token = fresh.token.clone();
        *held = Some(fresh);
        Ok(token)
    }

    /// A token to try after the portal would not have `spent`; nothing if there is no other to be had.
    pub(super) async fn instead_of(
        &self,
        spent: &Secret,
        client: &Client,
    ) -> Result<Option<Secret>, Refusal> {
        if matches!(self.credential, Credential::Token(_)) {
            return Ok(None);
        }
        {
            let mut held = self.held.lock().await;
            // Somebody else may have been refused before us and brought a new one.
            if held.as_ref().is_some_and(|held| held.token.matches(spent.expose())) {
                *held = None;
            }
        }
        self.current(client).await.map(Some)
    }

    async fn fetch(&self, client: &Client, id: &str, secret: &Secret) -> Result<Held, Refusal> {
        let asked = self.timepiece.now();
        let form =
            [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret.expose())];
        let answer = client.post(&self.url).form(&form).send().await;
        let answer = answer.map_err(|fault| Refusal::Passing(https::in_words(fault)))?;
        let status = answer.status();
        let body = https::body(answer, LONGEST).await.map_err(Refusal::Passing)?;
        if !status.is_success() {
            // A wrong secret can be put right while we run, so even that may pass.
            let why = shown(&String::from_utf8_lossy(&body));
            return Err(Refusal::Passing(format!("no access token: {}: {why}", status.as_u16())));
        }
        let grant: Grant = serde_json::from_slice(&body)
            .map_err(|_| Refusal::Passing("no access token: the answer holds none".to_owned()))?;
        let lasts = Duration::from_secs(grant.expires_in.unwrap_or(UNSAID));
        Ok(Held { token: grant.access_token, until: asked + lasts.saturating_sub(MARGIN) })
    }
}
