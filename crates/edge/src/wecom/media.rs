//! Files of WeCom: those of applications by id, those of AI bots by URL and encrypted.

use std::time::Duration;

use http::header::CONTENT_DISPOSITION;
use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};

use super::bot_files::FILE_REFERENCE;
use super::envelope::EnvelopeKey;
use super::{CORP, LABEL, WeCom};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::CallFailure;

/// Beginning of a reference to a file of an application. The company and the id of the file follow.
pub(super) const APP_REFERENCE: &str = "wecom:media:";
const ASKED_WITHIN: Duration = Duration::from_secs(15);
/// Time limit of a whole encrypted file, which is in memory until it is decrypted. Its size is limited by that of any
/// response.
const FILE_WITHIN: Duration = Duration::from_secs(60);
/// Hosts of encrypted files, and of everything below them.
const FILE_DOMAINS: [&str; 2] = ["qq.com", "myqcloud.com"];

/// A file to upload. It is never in memory as a whole.
pub(super) struct WeComUpload {
    pub media: StoredMedia,
}

impl WeComUpload {
    /// Opens the file and builds the body of one attempt.
    pub async fn open(&self) -> Result<Form, CallFailure> {
        let unread = || CallFailure::Unreached("the file cannot be read".to_owned());
        let reader = self.media.open().await.ok_or_else(unread)?;
        let (length, record) = (reader.size(), &self.media.record);
        let part = Part::stream_with_length(Body::wrap_stream(reader.into_stream()), length)
            .file_name(record.filename.clone())
            .mime_str(&record.mime)
            .map_err(|_| unread())?;
        Ok(Form::new().part("media", part))
    }
}

/// Downloads the file of a reference.
pub(super) async fn fetch(
    wecom: &WeCom,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    if let Some(named) = reference.strip_prefix(APP_REFERENCE) {
        let (corp, id) = named.split_once('/').ok_or(NotFetched::Gone)?;
        return match bot.setting(CORP) == Some(corp) {
            true => wecom.download_by_id(bot, id, into).await,
            false => Err(NotFetched::Gone),
        };
    }
    match reference.starts_with(FILE_REFERENCE) {
        true => wecom.download_encrypted(bot, reference, into).await,
        false => Err(NotFetched::Gone),
    }
}

impl WeCom {
    async fn download_by_id(
        &self,
        bot: &OpenedBot,
        id: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        let mut stale = None;
        for _ in 0..2 {
            let token = self.access_token(bot, stale.as_ref(), ASKED_WITHIN).await;
            let token = token.map_err(|failure| {
                tracing::warn!(bot.id = %bot.id, "could not ask WeCom for a file: {}", failure.cause(LABEL));
                NotFetched::NoAnswer
            })?;
            let http = self.client.http().map_err(|_| NotFetched::NoAnswer)?;
            let request = http.get(format!("{}/cgi-bin/media/get", self.base_of(bot)));
            let request = request.query(&[("access_token", token.expose()), ("media_id", id)]);
            // An error is JSON with status 200, and has no name of a file.
            let mut is_file = false;
            let accepts = |headers: &http::HeaderMap| {
                is_file = headers.contains_key(CONTENT_DISPOSITION);
                is_file
            };
            match self.client.download_if(request, accepts, into).await {
                Err(NotFetched::Gone) if !is_file => stale = Some(token),
                Ok(()) => return Ok(FetchedMedia { mime: None, filename: None }),
                Err(failure) => return Err(failure),
            }
        }
        Err(NotFetched::Gone)
    }

    async fn download_encrypted(
        &self,
        bot: &OpenedBot,
        reference: &str,
        into: &mut MediaWriter,
    ) -> Result<FetchedMedia, NotFetched> {
        let file = self.files.get(&bot.id, reference).ok_or(NotFetched::Gone)?;
        let url = Url::parse(file.url.expose()).ok().filter(|url| self.is_file_host(bot, url));
        let url = url.ok_or(NotFetched::Gone)?;
        let key = match &file.key {
            Some(letters) => EnvelopeKey::from_letters(letters),
            None => EnvelopeKey::of(bot).ok(),
        };
        let key = key.ok_or(NotFetched::Gone)?;
        let request = self.client.http().map_err(|_| NotFetched::NoAnswer)?.get(url);
        let reply = self.client.exchange(request, FILE_WITHIN).await.map_err(|_| NotFetched::NoAnswer)?;
        match reply.status {
            200 => {}
            403 | 404 | 410 => return Err(NotFetched::Gone),
            _ => return Err(NotFetched::NoAnswer),
        }
        let content = key.decrypt(reply.body).ok_or(NotFetched::Gone)?;
        into.write(content.into()).await?;
        Ok(FetchedMedia { mime: None, filename: None })
    }

    /// Whether files of AI bots may be at this URL: at a file host of WeCom, or at a stand-in.
    fn is_file_host(&self, bot: &OpenedBot, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_wecom = FILE_DOMAINS
            .iter()
            .any(|domain| host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.')));
        url.scheme() == "https" && url.port().is_none() && is_wecom || self.is_stand_in(bot, url)
    }

    /// Whether a URL is at the stand-in that plays WeCom for this bot. WeCom itself is never reached by plain http.
    pub(super) fn is_stand_in(&self, bot: &OpenedBot, url: &Url) -> bool {
        let base = Url::parse(self.base_of(bot)).ok().filter(|base| base.scheme() == "http");
        base.is_some_and(|base| base.origin() == url.origin())
    }
}
