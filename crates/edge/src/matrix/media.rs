//! Files of Matrix: uploads that stream a file from the disk, and downloads with the bot's token.

use std::time::Duration;

use http::Method;
use http::header::{CONTENT_TYPE, HeaderMap};
use relay::{FetchedMedia, MediaWriter, NotFetched};
use serde::Deserialize;

use super::api::MatrixCall;
use super::ids::media_parts;
use super::{Matrix, TOKEN};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::CallFailure;

#[derive(Deserialize)]
struct UploadedContent {
    content_uri: String,
}

/// Downloads the file of an address. The bot's homeserver fetches it from other servers.
pub(super) async fn fetch(
    matrix: &Matrix,
    bot: &OpenedBot,
    address: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let (server, id) = media_parts(address).ok_or(NotFetched::Gone)?;
    let url = matrix.url_of(bot, &["client", "v1", "media", "download", server, id]);
    let url = url.ok_or(NotFetched::NoAnswer)?;
    let token = bot.credentials.get(TOKEN).ok_or(NotFetched::NoAnswer)?;
    let request = matrix.client.http().map_err(|_| NotFetched::NoAnswer)?.get(url);
    let mut mime = None;
    let note = |headers: &HeaderMap| {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        mime = kind.map(|kind| kind.split(';').next().unwrap_or(kind).trim().to_owned());
        true
    };
    matrix.client.download_if(request.bearer_auth(token.expose()), note, into).await?;
    Ok(FetchedMedia { mime, filename: None })
}

impl Matrix {
    /// Uploads a file and returns its address.
    pub(super) async fn upload(
        &self,
        bot: &OpenedBot,
        media: &StoredMedia,
        limit: Duration,
    ) -> Result<String, CallFailure> {
        let call = MatrixCall::new(Method::POST, "POST upload", &["media", "v3", "upload"])
            .with_query("filename", media.record.filename.clone())
            .with_file(media);
        let uploaded: UploadedContent = self.call(bot, call, limit).await?;
        match media_parts(&uploaded.content_uri) {
            Some(_) => Ok(uploaded.content_uri),
            None => Err(CallFailure::Lost),
        }
    }
}
