//! Files over Feishu's Open API: downloads of the resources of a message, and uploads that stream a file from the disk.

use http::header::CONTENT_TYPE;
use parking_lot::Mutex;
use posthouse_wire::action::MediaKind;
use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::Body;
use reqwest::multipart::{Form, Part};

use super::api::is_path_part;
use super::{ANSWER_WITHIN, Feishu, LABEL};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::CallFailure;

/// Beginning of a reference to a file. The message and the key of the file follow.
pub(super) const RESOURCE_REFERENCE: &str = "feishu:resource:";
/// The largest picture, and the largest other file.
const LARGEST_IMAGE: i64 = 10 * 1024 * 1024;
pub(super) const LARGEST_FILE: i64 = 30 * 1024 * 1024;

/// A file to upload. It is never in memory as a whole.
#[derive(Clone)]
pub(super) struct FeishuUpload {
    pub media: StoredMedia,
    pub form: UploadKind,
}

/// The way in which a file is uploaded and then sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UploadKind {
    Image,
    /// With the type that Feishu has for it.
    File(&'static str),
}

impl UploadKind {
    pub fn of(kind: MediaKind, mime: &str, size: i64) -> Self {
        match (kind, mime) {
            (
                MediaKind::Image,
                "image/jpeg" | "image/png" | "image/webp" | "image/gif" | "image/tiff" | "image/bmp"
                | "image/x-icon",
            ) if size <= LARGEST_IMAGE => UploadKind::Image,
            (MediaKind::Audio | MediaKind::Voice, "audio/opus" | "audio/ogg") => UploadKind::File("opus"),
            (MediaKind::Video, "video/mp4") => UploadKind::File("mp4"),
            (_, "application/pdf") => UploadKind::File("pdf"),
            _ => UploadKind::File("stream"),
        }
    }

    /// The type of the message that shows the file.
    pub fn message_type(self) -> &'static str {
        match self {
            UploadKind::Image => "image",
            UploadKind::File("opus") => "audio",
            UploadKind::File("mp4") => "media",
            UploadKind::File(_) => "file",
        }
    }

    pub fn path(self) -> &'static str {
        match self {
            UploadKind::Image => "/im/v1/images",
            UploadKind::File(_) => "/im/v1/files",
        }
    }
}

impl FeishuUpload {
    /// Opens the file and builds the body of one attempt.
    pub async fn open(&self) -> Result<Form, CallFailure> {
        let unread = || CallFailure::Unreached("the file cannot be read".to_owned());
        let reader = self.media.open().await.ok_or_else(unread)?;
        let (length, record) = (reader.size(), &self.media.record);
        let part = Part::stream_with_length(Body::wrap_stream(reader.into_stream()), length)
            .file_name(record.filename.clone())
            .mime_str(&record.mime)
            .map_err(|_| unread())?;
        Ok(match self.form {
            UploadKind::Image => Form::new().text("image_type", "message").part("image", part),
            UploadKind::File(kind) => {
                let form = Form::new().text("file_type", kind).text("file_name", record.filename.clone());
                form.part("file", part)
            }
        })
    }
}

/// Downloads the file of a reference.
pub(super) async fn fetch(
    feishu: &Feishu,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let named = reference.strip_prefix(RESOURCE_REFERENCE).and_then(|rest| rest.split_once('/'));
    let named = named.filter(|(message, key)| is_path_part(message) && is_path_part(key));
    let Some((message, key)) = named else { return Err(NotFetched::Gone) };
    let kind = if key.starts_with("img_") { "image" } else { "file" };
    let token = feishu.token(bot, ANSWER_WITHIN).await.map_err(|failure| {
        tracing::warn!(bot.id = %bot.id, "could not ask Feishu for a file: {}", failure.cause(LABEL));
        NotFetched::NoAnswer
    })?;
    let base = feishu.base_of(bot);
    let url = format!("{base}/open-apis/im/v1/messages/{message}/resources/{key}?type={kind}");
    let request =
        feishu.client.http().map_err(|_| NotFetched::NoAnswer)?.get(url).bearer_auth(token.expose());
    let mime = Mutex::new(None);
    let accepts = |headers: &http::HeaderMap| {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        *mime.lock() = Some(kind.to_owned()).filter(|kind| kind.contains('/'));
        // An error comes as JSON; a file of this type says so as an attachment.
        kind != "application/json" || headers.contains_key(http::header::CONTENT_DISPOSITION)
    };
    feishu.client.download_if(request, accepts, into).await?;
    Ok(FetchedMedia { mime: mime.into_inner(), filename: None })
}
