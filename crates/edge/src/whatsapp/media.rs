//! Media over WhatsApp's Graph API: downloads in two steps, and uploads that stream a file from the disk.

use std::time::Duration;

use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};
use serde::Deserialize;

use super::api::{GraphCall, is_path_part};
use super::{LABEL, TOKEN, WhatsApp, number_of};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::CallFailure;

/// Beginning of a reference to a file. The number and the id of the file follow.
pub(super) const MEDIA_REFERENCE: &str = "whatsapp:media:";
/// Time limit for asking for a file.
const ASKED_WITHIN: Duration = Duration::from_secs(15);
/// The host from which files are downloaded.
const FILE_HOST: &str = "lookaside.fbsbx.com";

#[derive(Deserialize)]
struct MediaObject {
    url: String,
    mime_type: Option<String>,
}

/// A file to upload. It is never in memory as a whole.
pub(super) struct UploadForm {
    pub media: StoredMedia,
}

impl UploadForm {
    /// Opens the file and builds the body of one attempt.
    pub async fn open(&self) -> Result<Form, CallFailure> {
        let unread = || CallFailure::Unreached("the file cannot be read".to_owned());
        let reader = self.media.open().await.ok_or_else(unread)?;
        let (length, record) = (reader.size(), &self.media.record);
        let part = Part::stream_with_length(Body::wrap_stream(reader.into_stream()), length)
            .file_name(record.filename.clone())
            .mime_str(&record.mime)
            .map_err(|_| unread())?;
        let form = Form::new().text("messaging_product", "whatsapp").text("type", record.mime.clone());
        Ok(form.part("file", part))
    }
}

/// Downloads the file of a reference. Its URL is valid for five minutes, so it is requested now.
pub(super) async fn fetch(
    whatsapp: &WhatsApp,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let named = reference.strip_prefix(MEDIA_REFERENCE).and_then(|rest| rest.split_once('/'));
    let Some((number, id)) = named.filter(|(number, id)| *number == number_of(bot) && is_path_part(id))
    else {
        return Err(NotFetched::Gone);
    };
    let call = GraphCall::get("GET media", format!("/{id}?phone_number_id={number}"));
    let found = match whatsapp.call::<MediaObject>(bot, call, ASKED_WITHIN).await {
        Ok(found) => found,
        Err(CallFailure::Refused(refused)) if refused.code == 100 => return Err(NotFetched::Gone),
        Err(failure) => {
            tracing::warn!(bot.id = %bot.id, "could not ask WhatsApp for a file: {}", failure.cause(LABEL));
            return Err(NotFetched::NoAnswer);
        }
    };
    let url = Url::parse(&found.url).ok().filter(|url| whatsapp.is_file_host(bot, url));
    let url = url.ok_or(NotFetched::Gone)?;
    let token = bot.credentials.get(TOKEN).ok_or(NotFetched::Gone)?;
    let request = whatsapp.client.http().map_err(|_| NotFetched::NoAnswer)?.get(url);
    whatsapp.client.download(request.bearer_auth(token.expose()), into).await?;
    Ok(FetchedMedia { mime: found.mime_type, filename: None })
}

impl WhatsApp {
    /// Whether the token may be sent to this URL: its host is WhatsApp's file host, or that of a stand-in.
    fn is_file_host(&self, bot: &OpenedBot, url: &Url) -> bool {
        let is_whatsapp =
            url.scheme() == "https" && url.host_str() == Some(FILE_HOST) && url.port().is_none();
        let base = Url::parse(&self.base_of(bot)).ok().filter(|base| base.scheme() == "http");
        is_whatsapp || base.is_some_and(|base| base.origin() == url.origin())
    }
}
