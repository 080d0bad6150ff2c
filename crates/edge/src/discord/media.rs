//! Media over Discord's API: uploads that stream a file from the disk, and downloads of attachments.

use std::time::Duration;

use moka::sync::Cache;
use posthouse_wire::BotId;
use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::multipart::{Form, Part};
use reqwest::{Body, Url};
use serde::Deserialize;
use serde_json::Value;

use super::api::DiscordCall;
use super::{Discord, LABEL};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

/// Beginning of a reference to an attachment. Channel, attachment and message follow.
pub(super) const ATTACHMENT_REFERENCE: &str = "discord:attachment:";
/// Beginning of a reference to a file of a slash command. The id of the attachment follows.
pub(super) const COMMAND_FILE_REFERENCE: &str = "discord:command-file:";
/// Time for which the file of a slash command can be fetched. It is fetched early, as soon as the command is stored.
const COMMAND_FILE_LIFE: Duration = Duration::from_secs(900);
/// Time limit for asking for a file.
const ASKED_WITHIN: Duration = Duration::from_secs(15);
/// Hosts from which attachments are downloaded.
const FILE_HOSTS: [&str; 2] = ["cdn.discordapp.com", "media.discordapp.net"];

#[derive(Deserialize)]
struct MessageFiles {
    #[serde(default)]
    attachments: Vec<AttachmentAddress>,
}

#[derive(Clone, Deserialize)]
pub(super) struct AttachmentAddress {
    pub id: String,
    pub url: String,
    pub filename: Option<String>,
    pub content_type: Option<String>,
}

/// The addresses of files of slash commands. They are signed, so they are kept in memory only: after a restart such a
/// file is gone if it was not fetched before. Clones share one state.
#[derive(Clone)]
pub(super) struct CommandFiles(Cache<(BotId, String), AttachmentAddress>);

impl Default for CommandFiles {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(10_000).time_to_live(COMMAND_FILE_LIFE).build())
    }
}

impl CommandFiles {
    pub fn keep(&self, bot: &BotId, file: AttachmentAddress) {
        self.0.insert((bot.clone(), file.id.clone()), file);
    }

    fn find(&self, bot: &BotId, id: &str) -> Option<AttachmentAddress> {
        self.0.get(&(bot.clone(), id.to_owned()))
    }
}

/// A message with one file. The file is never in memory as a whole.
pub(super) struct FileForm {
    pub message: Value,
    pub media: StoredMedia,
}

impl FileForm {
    /// Opens the file and builds the body of one attempt.
    pub async fn open(&self) -> Result<Form, CallFailure> {
        let unread = || CallFailure::Unreached("the file cannot be read".to_owned());
        let reader = self.media.open().await.ok_or_else(unread)?;
        let (length, record) = (reader.size(), &self.media.record);
        let part = Part::stream_with_length(Body::wrap_stream(reader.into_stream()), length)
            .file_name(record.filename.clone())
            .mime_str(&record.mime)
            .map_err(|_| unread())?;
        let message =
            Part::text(self.message.to_string()).mime_str("application/json").map_err(|_| unread())?;
        Ok(Form::new().part("payload_json", message).part("files[0]", part))
    }
}

/// Downloads the file of a reference.
pub(super) async fn fetch(
    discord: &Discord,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let file = match reference.strip_prefix(COMMAND_FILE_REFERENCE) {
        Some(id) => discord.command_files.find(&bot.id, id).ok_or(NotFetched::Gone)?,
        None => address_of(discord, bot, reference).await?,
    };
    let url =
        Url::parse(&file.url).ok().filter(|url| discord.is_file_host(bot, url)).ok_or(NotFetched::Gone)?;
    // Without the bot's token: the URL is signed.
    let request = discord.client.http().map_err(|_| NotFetched::NoAnswer)?.get(url);
    discord.client.download(request, into).await?;
    Ok(FetchedMedia { mime: file.content_type, filename: file.filename })
}

/// Asks for the URL of an attachment of a message. It is requested each time, because URLs expire.
async fn address_of(
    discord: &Discord,
    bot: &OpenedBot,
    reference: &str,
) -> Result<AttachmentAddress, NotFetched> {
    let mut parts = reference.strip_prefix(ATTACHMENT_REFERENCE).unwrap_or_default().split('/');
    let (Some(channel), Some(attachment), Some(message)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(NotFetched::Gone);
    };
    let path = format!("/channels/{channel}/messages/{message}");
    let call = DiscordCall::get("GET /channels/ID/messages/ID", &path).of(channel);
    let found = match discord.call::<MessageFiles>(bot, call, ASKED_WITHIN).await {
        Ok(found) => found,
        Err(CallFailure::Refused(CallRefusal {
            kind: RefusalKind::Gone | RefusalKind::Forbidden, ..
        })) => {
            return Err(NotFetched::Gone);
        }
        Err(failure) => {
            tracing::warn!(bot.id = %bot.id, "could not ask Discord for a file: {}", failure.cause(LABEL));
            return Err(NotFetched::NoAnswer);
        }
    };
    found.attachments.into_iter().find(|file| file.id == attachment).ok_or(NotFetched::Gone)
}

impl Discord {
    /// Whether files may be downloaded from this URL: its host is one of Discord's file hosts, or that of a stand-in.
    fn is_file_host(&self, bot: &OpenedBot, url: &Url) -> bool {
        let is_discord =
            url.scheme() == "https" && url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host));
        let base = Url::parse(self.base_of(bot)).ok().filter(|base| base.scheme() == "http");
        is_discord || base.is_some_and(|base| base.origin() == url.origin())
    }
}
