//! HTTP client of the cron portal: arm, cancel, list.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::BytesMut;
use http::StatusCode;
use posthouse_time::Timepiece;
use posthouse_wire::cron::{ArmList, ArmedJob, Provision, Provisioned};
use posthouse_wire::{JobId, ScheduleId};
use reqwest::{Client, RequestBuilder};
use serde_json::{Value, json};

use crate::https::{self, shown};
use crate::token::{AccessTokens, ApiCredential, NoToken};

/// Time limit of one call.
const PATIENCE: Duration = Duration::from_secs(15);
/// Enough for the longest list, ten thousand arms.
const LONGEST: usize = 4 << 20;

/// Client of the portal. Clones share the connection and the token.
#[derive(Clone)]
pub struct Portal(Arc<Inner>);

struct Inner {
    base: String,
    tls: Option<Arc<rustls::ClientConfig>>,
    client: OnceLock<Result<Client, String>>,
    tokens: AccessTokens,
}

/// Reason why the portal did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortalError {
    /// The portal will never serve this identity. Asking again is useless.
    #[error("the portal does not serve this identity: {0}")]
    Identity(String),
    /// Anything else: a later call may succeed.
    #[error("{0}")]
    Passing(String),
}

impl From<NoToken> for PortalError {
    fn from(none: NoToken) -> Self {
        PortalError::Passing(none.to_string())
    }
}

impl Portal {
    /// `url` is `cron.chronos.portal_url`. Nothing is called before the first request.
    pub fn new(url: &str, credential: ApiCredential, timepiece: Timepiece) -> Self {
        Self::of(url, credential, timepiece, None)
    }

    /// Like [`Portal::new`], with `tls` instead of the machine's trusted certificates.
    pub fn with_tls(
        url: &str,
        credential: ApiCredential,
        timepiece: Timepiece,
        tls: Arc<rustls::ClientConfig>,
    ) -> Self {
        Self::of(url, credential, timepiece, Some(tls))
    }

    fn of(
        url: &str,
        credential: ApiCredential,
        timepiece: Timepiece,
        tls: Option<Arc<rustls::ClientConfig>>,
    ) -> Self {
        let base = url.trim_end_matches('/').to_owned();
        let tokens = AccessTokens::new(format!("{base}/oauth/token"), credential, timepiece);
        Self(Arc::new(Inner { base, tls, client: OnceLock::new(), tokens }))
    }

    /// Arms a job for one time. The portal stores the arm before it answers.
    pub async fn provision(&self, request: &Provision) -> Result<Provisioned, PortalError> {
        let request = request.body();
        let body = self.call(|client, base| client.post(format!("{base}/provision")).json(&request)).await?;
        // A portal that returns no schedule id has armed the job nevertheless.
        let unnamed = || Provisioned { schedule: ScheduleId::new(""), cron_key: None };
        Ok(Provisioned::read(&body).unwrap_or_else(unnamed))
    }

    /// Cancels the arm of this job. Succeeds also if nothing was armed.
    pub async fn cancel(&self, job: &JobId) -> Result<(), PortalError> {
        let request = json!({ "job_id": job });
        self.call(|client, base| client.post(format!("{base}/cancel")).json(&request)).await.map(drop)
    }

    /// All arms that have not fired yet.
    pub async fn list(&self) -> Result<ArmList, PortalError> {
        let body = self.call(|client, base| client.get(format!("{base}/list"))).await?;
        let mut answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        let Value::Array(rows) = answer["armed"].take() else { return Ok(ArmList::default()) };
        let armed = rows.into_iter().filter_map(|row| serde_json::from_value::<ArmedJob>(row).ok());
        Ok(ArmList { armed: armed.collect() })
    }

    /// Calls with the current token, and once more with a new one if the portal no longer accepts it.
    async fn call(&self, ask: impl Fn(&Client, &str) -> RequestBuilder) -> Result<BytesMut, PortalError> {
        let made = || https::client(&self.0.base, self.0.tls.as_ref(), PATIENCE);
        let client =
            self.0.client.get_or_init(made).as_ref().map_err(|why| PortalError::Passing(why.clone()))?;
        let base = format!("{}/api/agent-cron", self.0.base);
        let mut token = self.0.tokens.current(client).await?;
        let mut renewed = false;
        loop {
            let request = ask(client, &base).bearer_auth(token.expose());
            let answer =
                request.send().await.map_err(|fault| PortalError::Passing(https::in_words(fault)))?;
            let status = answer.status();
            let body = https::body(answer, LONGEST).await;
            let body = body.map_err(|error| PortalError::Passing(error.to_string()))?;
            if status.is_success() {
                return Ok(body);
            }
            if status == StatusCode::UNAUTHORIZED
                && !renewed
                && let Some(fresh) = self.0.tokens.instead_of(&token, client).await?
            {
                (token, renewed) = (fresh, true);
                continue;
            }
            return Err(error_of(status, &body));
        }
    }
}

/// Only these two words together are final. Everything else may be temporary.
fn error_of(status: StatusCode, body: &[u8]) -> PortalError {
    let answer: Value = serde_json::from_slice(body).unwrap_or_default();
    if status == StatusCode::FORBIDDEN && answer["error"] == "invalid_client" {
        let why = answer["error_description"].as_str().unwrap_or("invalid_client");
        return PortalError::Identity(shown(why));
    }
    PortalError::Passing(format!(
        "the portal answered {}: {}",
        status.as_u16(),
        shown(&String::from_utf8_lossy(body))
    ))
}
