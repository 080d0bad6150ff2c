//! Files: an agent uploads what it wants to send, and downloads the files of the messages that it got.
//!
//! ```no_run
//! use posthouse_agent::media::MediaClient;
//! use posthouse_agent::wire::action::MediaKind;
//! use posthouse_agent::{Agent, OutgoingMedia, Settings, WebSocketTransport, termination};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = Settings::from_env()?;
//! let files = MediaClient::new(&settings);
//! Agent::builder(WebSocketTransport::new(settings)?)
//!     .on_message(move |message, conversation| {
//!         let files = files.clone();
//!         async move {
//!             for url in &message.event.media_urls {
//!                 let file = files.download(url).await?;
//!                 let copy = files.upload(file.content, file.mime.as_deref(), Some("copy")).await?;
//!                 conversation.send_media(OutgoingMedia::new(MediaKind::Document, copy.url)).await?;
//!             }
//!             Ok(())
//!         }
//!     })
//!     .run(termination())
//!     .await?;
//! # Ok(())
//! # }
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use posthouse_time::Timepiece;
use posthouse_wire::address::Addresses;
use posthouse_wire::{GatewayId, MediaId, Secret, token};
use reqwest::{Client, RequestBuilder, Response};
use serde::Deserialize;

use crate::Settings;
use crate::https::{self, BodyError};

/// The largest file that the server accepts, in bytes.
pub const LARGEST: usize = 25 << 20;
/// Time limit of one transfer: the server's own limit for a download.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lifetime in seconds of the token that one request carries.
const TOKEN_SECONDS: i64 = 300;
/// The longest error text and the longest answer to an upload, in bytes.
const LONGEST_ANSWER: usize = 64 << 10;

/// Transfers files between an agent and its server. Clones share connections.
#[derive(Clone)]
pub struct MediaClient(Arc<Inner>);

struct Inner {
    addresses: Addresses,
    gateway: GatewayId,
    secret: Secret,
    tls: Option<Arc<rustls::ClientConfig>>,
    client: OnceLock<Result<Client, String>>,
    timepiece: Timepiece,
}

/// A file on the server. It exists for an hour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UploadedMedia {
    pub id: MediaId,
    /// The URL for [`OutgoingMedia`](crate::OutgoingMedia).
    pub url: String,
    pub size: u64,
}

/// A downloaded file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadedMedia {
    pub content: Bytes,
    pub mime: Option<String>,
}

/// Reason why a file was not transferred.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaError {
    #[error("the file was not transferred: {0}")]
    Unreachable(String),
    /// The server has no such file, or none for this agent.
    #[error("there is no such file")]
    NotFound,
    #[error("the file is larger than 25 MiB")]
    TooLarge,
    #[error("the server refused the file: {status}: {why}")]
    Refused { status: u16, why: String },
}

#[derive(Deserialize)]
struct UploadAnswer {
    id: MediaId,
    #[serde(default)]
    size: u64,
}

impl MediaClient {
    /// A client with the address and the credential of the agent's connection.
    pub fn new(settings: &Settings) -> Self {
        Self::with_timepiece(settings, Timepiece::wall())
    }

    pub fn with_timepiece(settings: &Settings, timepiece: Timepiece) -> Self {
        Self(Arc::new(Inner {
            addresses: settings.addresses(),
            gateway: settings.gateway.clone(),
            secret: settings.secret.clone(),
            tls: settings.tls.clone(),
            client: OnceLock::new(),
            timepiece,
        }))
    }

    /// Uploads a file of at most [`LARGEST`] bytes.
    pub async fn upload(
        &self,
        content: impl Into<Bytes>,
        mime: Option<&str>,
        filename: Option<&str>,
    ) -> Result<UploadedMedia, MediaError> {
        let content = content.into();
        if content.len() > LARGEST {
            return Err(MediaError::TooLarge);
        }
        let mut request = self.client()?.post(self.0.addresses.at("/relay/media")).body(content);
        if let Some(mime) = mime {
            request = request.header(CONTENT_TYPE, mime);
        }
        if let Some(filename) = filename {
            request = request.header("x-media-filename", filename.as_bytes());
        }
        let answer = self.send(request.bearer_auth(self.bearer())).await?;
        let body = https::body(answer, LONGEST_ANSWER).await.map_err(unread)?;
        let UploadAnswer { id, size } = serde_json::from_slice(&body)
            .map_err(|_| MediaError::Unreachable("the server's answer cannot be read".to_owned()))?;
        let url = self.0.addresses.at(&format!("/relay/media/{id}"));
        Ok(UploadedMedia { id, url, size })
    }

    /// Downloads a file of a message, by a URL of `media_urls`. The agent's credential is sent to its own server only.
    pub async fn download(&self, url: &str) -> Result<DownloadedMedia, MediaError> {
        let mut request = self.client()?.get(url);
        if url.starts_with(&self.0.addresses.at("/relay/media/")) {
            request = request.bearer_auth(self.bearer());
        }
        let answer = self.send(request).await?;
        let mime =
            answer.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let content = https::body(answer, LARGEST).await.map_err(unread)?.freeze();
        Ok(DownloadedMedia { content, mime })
    }

    fn client(&self) -> Result<&Client, MediaError> {
        let made = || https::client(&self.0.addresses.at(""), self.0.tls.as_ref(), PATIENCE);
        self.0.client.get_or_init(made).as_ref().map_err(|why| MediaError::Unreachable(why.clone()))
    }

    fn bearer(&self) -> String {
        let now = self.0.timepiece.now().seconds();
        token::mint(&self.0.gateway, &self.0.secret, TOKEN_SECONDS, now)
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, MediaError> {
        let answer = request.send().await.map_err(|fault| MediaError::Unreachable(https::in_words(fault)))?;
        match answer.status() {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => Err(MediaError::NotFound),
            StatusCode::PAYLOAD_TOO_LARGE => Err(MediaError::TooLarge),
            status => {
                let body = https::body(answer, LONGEST_ANSWER).await.map_err(unread)?;
                let why = https::beginning(&String::from_utf8_lossy(&body), 200);
                Err(MediaError::Refused { status: status.as_u16(), why })
            }
        }
    }
}

fn unread(error: BodyError) -> MediaError {
    match error {
        BodyError::TooLong(LARGEST) => MediaError::TooLarge,
        error => MediaError::Unreachable(error.to_string()),
    }
}
