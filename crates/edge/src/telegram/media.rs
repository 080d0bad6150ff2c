//! Files over the Bot API: forms with a file that is streamed from the disk, and downloads of attachments.

use std::time::Duration;

use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::Body;
use reqwest::multipart::{Form, Part};
use serde::{Deserialize, Serialize};

use super::{LABEL, TOKEN, Telegram};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallRefusal};

/// Beginning of a reference to a file. The file's id follows.
pub(super) const FILE_REFERENCE: &str = "telegram:file:";
/// Time limit for asking for a file.
const ASKED_WITHIN: Duration = Duration::from_secs(15);

#[derive(Serialize)]
struct GetFile<'a> {
    file_id: &'a str,
}

#[derive(Deserialize)]
struct TelegramPath {
    file_path: Option<String>,
}

/// A form with fields and one file. The file is never in memory as a whole.
pub(super) struct MediaForm {
    pub fields: Vec<(&'static str, String)>,
    /// The field of the file.
    pub name: &'static str,
    pub media: StoredMedia,
}

impl MediaForm {
    /// Opens the file and builds the body of one attempt.
    pub async fn open(&self) -> Result<Form, CallFailure> {
        let unread = || CallFailure::Unreached("the file cannot be read".to_owned());
        let reader = self.media.open().await.ok_or_else(unread)?;
        let length = reader.size();
        let record = &self.media.record;
        let part = Part::stream_with_length(Body::wrap_stream(reader.into_stream()), length)
            .file_name(record.filename.clone())
            .mime_str(&record.mime)
            .map_err(|_| unread())?;
        let fields = self.fields.iter().cloned();
        Ok(fields.fold(Form::new(), |form, (name, value)| form.text(name, value)).part(self.name, part))
    }
}

/// Downloads the file of a reference.
pub(super) async fn fetch(
    telegram: &Telegram,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let file_id = reference.strip_prefix(FILE_REFERENCE).ok_or(NotFetched::Gone)?;
    let found = telegram.call::<TelegramPath>(bot, "getFile", &GetFile { file_id }, ASKED_WITHIN).await;
    let path = match found {
        Ok(TelegramPath { file_path: Some(path) }) => path,
        Ok(TelegramPath { file_path: None }) => return Err(NotFetched::Gone),
        // Telegram gives bots no file of more than 20 MB.
        Err(CallFailure::Refused(CallRefusal { code: 400, .. })) => return Err(NotFetched::Gone),
        Err(failure) => {
            tracing::warn!(bot.id = %bot.id, "could not ask Telegram for a file: {}", failure.cause(LABEL));
            return Err(NotFetched::NoAnswer);
        }
    };
    let token = bot.credentials.get(TOKEN).ok_or(NotFetched::Gone)?;
    let address = format!("{}/file/bot{}/{path}", telegram.base_of(bot), token.expose());
    let request = telegram.client.http().map_err(|_| NotFetched::NoAnswer)?.get(address);
    telegram.client.download(request, into).await?;
    Ok(FetchedMedia { mime: None, filename: path.rsplit('/').next().map(str::to_owned) })
}
