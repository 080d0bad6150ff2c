//! Files that an agent wants to send: its own uploads, and files at public URLs.

use std::time::Duration;

use errand::OutgoingCall;
use http::header::{CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderName};
use ledger::MediaRecord;
use posthouse_time::Instant;
use posthouse_wire::{InstanceId, MediaId, TenantId};

use super::{MediaNotKept, MediaStore, NewMedia, media_in_url};
use crate::Fault;

/// Lifetime of a downloaded file: longer than any action.
const DOWNLOAD_LIFE: Duration = Duration::from_secs(10 * 60);

/// A file to send, as an agent names it.
pub struct MediaSource<'a> {
    pub tenant: &'a TenantId,
    pub instance: &'a InstanceId,
    pub url: &'a str,
    pub filename: Option<&'a str>,
    pub deadline: Instant,
}

/// Reason why a file cannot be sent. The texts avoid words by which stock gateways decide to try again.
#[derive(Debug, thiserror::Error)]
pub enum FileNotAvailable {
    /// Unknown, expired, or of another agent. One variant on purpose: telling these apart would reveal what exists.
    #[error("media not found")]
    NotFound,
    #[error("the file at the URL could not be downloaded: {0}")]
    NotDownloaded(String),
    #[error("{0}")]
    NotKept(MediaNotKept),
    #[error("the server could not read its record of the file")]
    Fault(#[from] Fault),
}

impl From<MediaNotKept> for FileNotAvailable {
    fn from(reason: MediaNotKept) -> Self {
        match reason {
            MediaNotKept::Fault(fault) => FileNotAvailable::Fault(fault),
            reason => FileNotAvailable::NotKept(reason),
        }
    }
}

impl MediaStore {
    /// The stored file that the agent means. A file at a public URL is downloaded first.
    pub async fn obtain(&self, source: MediaSource<'_>) -> Result<MediaRecord, FileNotAvailable> {
        // The server never calls its own door: the id alone says which file it is.
        if let Some(id) = media_in_url(source.url) {
            let found = self.find(&id).await?.filter(|record| record.instance == *source.instance);
            return found.ok_or(FileNotAvailable::NotFound);
        }
        let left = source.deadline.since(self.0.timepiece.instant());
        match self.0.timepiece.within(left, self.download(&source)).await {
            Ok(downloaded) => downloaded,
            Err(_) => Err(FileNotAvailable::NotDownloaded("it takes too long".to_owned())),
        }
    }

    async fn download(&self, source: &MediaSource<'_>) -> Result<MediaRecord, FileNotAvailable> {
        let failed = |fault: errand::Fault| match fault {
            errand::Fault::Refused(refusal) => FileNotAvailable::NotDownloaded(refusal.to_string()),
            _ => FileNotAvailable::NotDownloaded("its server does not answer".to_owned()),
        };
        let call = OutgoingCall::get(source.url).on_behalf_of(source.tenant.as_str());
        let mut call = self.0.errand.open(call).await.map_err(failed)?;
        // A redirect is not followed, because it could lead into a private network.
        if call.status() != http::StatusCode::OK {
            let status = call.status().as_u16();
            return Err(FileNotAvailable::NotDownloaded(format!("its server answers with status {status}")));
        }
        let expected = text(call.headers(), &CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let mime = text(call.headers(), &CONTENT_TYPE).map(str::to_owned);
        let filename = source.filename.map(str::to_owned);
        let filename = filename.or_else(|| name_in(call.headers())).unwrap_or_else(|| last_part(source.url));
        let mut writer = self.begin(source.tenant, source.instance, expected).await?;
        while let Some(piece) = call.piece().await.map_err(failed)? {
            writer.write(piece).await?;
        }
        let new = NewMedia { id: MediaId::mint(), mime, filename: Some(filename), life: DOWNLOAD_LIFE };
        Ok(writer.keep(new).await?)
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The name that the response gives to the file.
fn name_in(headers: &HeaderMap) -> Option<String> {
    let name = text(headers, &CONTENT_DISPOSITION)?.split("filename=").nth(1)?;
    let name = name.split(';').next()?.trim().trim_matches('"');
    (!name.is_empty()).then(|| name.to_owned())
}

/// The last part of the path of a URL.
fn last_part(url: &str) -> String {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default().to_owned()
}
