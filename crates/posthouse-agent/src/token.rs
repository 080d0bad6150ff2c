//! Access tokens for the server: a given one, one that a client credential is exchanged for, or one from the caller's
//! own source.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::Secret;
use reqwest::Client;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::https::{self, shown};

/// Time limit of fetching a token.
pub(crate) const TOKEN_LIMIT: Duration = Duration::from_secs(30);
/// A token that ends sooner than this is not used any more. Of a token with a short lifetime, the last half.
const MARGIN: Duration = Duration::from_secs(120);
/// Lifetime in seconds of a grant that does not state one.
const UNSAID: u64 = 900;
const LONGEST: usize = 64 << 10;

/// Credential with which an agent or a program authenticates to the server.
#[derive(Clone)]
pub enum ApiCredential {
    /// A client's id and secret, exchanged for tokens with a limited lifetime.
    Client { id: String, secret: Secret },
    /// An access token that the caller keeps fresh.
    Token(Secret),
    /// Access tokens with a limited lifetime that the caller fetches in its own way.
    Source(Arc<dyn TokenSource>),
}

/// Fetches access tokens in a way that the client does not know, for example through another API.
#[async_trait]
pub trait TokenSource: Send + Sync {
    /// Fetches a new token, within 30 s. Called before the first request, shortly before the last token ends, and after the
    /// server has refused it.
    async fn fetch(&self) -> Result<FetchedToken, NoToken>;
}

/// An access token and its lifetime.
pub struct FetchedToken {
    pub token: Secret,
    pub lifetime: Duration,
}

pub(crate) struct AccessTokens {
    url: String,
    credential: ApiCredential,
    timepiece: Timepiece,
    /// Locked while a token is fetched, so that a burst of calls fetches only one.
    held: Mutex<Option<CachedToken>>,
}

struct CachedToken {
    token: Secret,
    until: Instant,
}

/// Reason why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoToken {
    /// No answer, or an incomplete one.
    #[error("{0}")]
    Unreachable(String),
    /// May be temporary too: a wrong secret can be corrected while the agent runs.
    #[error("no access token: {status}: {}", shown(&String::from_utf8_lossy(body)))]
    Refused {
        status: u16,
        /// The answer: Problem Details, or an error of OAuth.
        body: Vec<u8>,
    },
    #[error("no access token: the server's answer contains none")]
    Malformed,
}

#[derive(Deserialize)]
struct Grant {
    access_token: Secret,
    expires_in: Option<u64>,
}

impl AccessTokens {
    pub(crate) fn new(url: String, credential: ApiCredential, timepiece: Timepiece) -> Self {
        Self { url, credential, timepiece, held: Mutex::default() }
    }

    /// A token to try, fetched if necessary.
    pub(crate) async fn current(&self, client: &Client) -> Result<Secret, NoToken> {
        let mut held = self.held.lock().await;
        if let Some(held) = held.as_ref().filter(|held| self.timepiece.instant() < held.until) {
            return Ok(held.token.clone());
        }
        let asked = self.timepiece.instant();
        let FetchedToken { token, lifetime } = match &self.credential {
            ApiCredential::Client { id, secret } => self.exchange(client, id, secret).await?,
            ApiCredential::Source(source) => {
                let fetched = self.timepiece.within(TOKEN_LIMIT, source.fetch()).await;
                fetched.unwrap_or_else(|_| Err(NoToken::Unreachable(https::NO_ANSWER.to_owned())))?
            }
            ApiCredential::Token(token) => return Ok(token.clone()),
        };
        let margin = MARGIN.min(lifetime / 2);
        *held = Some(CachedToken { token: token.clone(), until: asked + (lifetime - margin) });
        Ok(token)
    }

    /// A token to try after the server refused `spent`. `None` if there is no other.
    pub(crate) async fn instead_of(
        &self,
        spent: &Secret,
        client: &Client,
    ) -> Result<Option<Secret>, NoToken> {
        if matches!(self.credential, ApiCredential::Token(_)) {
            return Ok(None);
        }
        {
            let mut held = self.held.lock().await;
            // Another caller may have been refused earlier and fetched a new token; that one is kept.
            if held.as_ref().is_some_and(|held| held.token.matches(spent.expose())) {
                *held = None;
            }
        }
        self.current(client).await.map(Some)
    }

    /// Exchanges the credential of a client for a token.
    async fn exchange(&self, client: &Client, id: &str, secret: &Secret) -> Result<FetchedToken, NoToken> {
        let form =
            [("grant_type", "client_credentials"), ("client_id", id), ("client_secret", secret.expose())];
        let answer = client.post(&self.url).form(&form).send().await;
        let answer = answer.map_err(|fault| NoToken::Unreachable(https::in_words(fault)))?;
        let status = answer.status();
        let body = https::body(answer, LONGEST).await;
        let body = body.map_err(|unread| NoToken::Unreachable(unread.to_string()))?;
        if !status.is_success() {
            return Err(NoToken::Refused { status: status.as_u16(), body: body.to_vec() });
        }
        let grant: Grant = serde_json::from_slice(&body).map_err(|_| NoToken::Malformed)?;
        let lifetime = Duration::from_secs(grant.expires_in.unwrap_or(UNSAID));
        Ok(FetchedToken { token: grant.access_token, lifetime })
    }
}
