//! Files over Slack's Web API: uploads that stream a file from the disk, and downloads with the bot's token.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::{Body, Url};
use serde::Deserialize;

use super::api::WebApiCall;
use super::{LABEL, Slack, TOKEN};
use crate::bots::OpenedBot;
use crate::platform::StoredMedia;
use crate::platform_calls::{CallFailure, CallRefusal, RefusalKind};

/// Beginning of a reference to a file. Workspace and file follow.
pub(super) const FILE_REFERENCE: &str = "slack:file:";
/// Time limit for asking for a file.
const ASKED_WITHIN: Duration = Duration::from_secs(15);
/// Hosts from which files are downloaded, and to which they are uploaded.
const FILE_HOSTS: [&str; 2] = ["files.slack.com", "files.slack-gov.com"];

/// Where a file is uploaded to. The URL needs no token, so it is a credential.
#[derive(Deserialize)]
pub(super) struct UploadAddress {
    upload_url: String,
    pub file_id: String,
}

#[derive(Deserialize)]
struct FileAnswer {
    file: FileAddress,
}

#[derive(Deserialize)]
struct FileAddress {
    url_private_download: Option<String>,
    url_private: Option<String>,
    name: Option<String>,
    mimetype: Option<String>,
}

/// Downloads the file of a reference. Its address is requested from Slack, and is not in the reference.
pub(super) async fn fetch(
    slack: &Slack,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let named = reference.strip_prefix(FILE_REFERENCE).and_then(|rest| rest.split_once('/'));
    let Some((_, id)) = named.filter(|(_, id)| !id.is_empty()) else { return Err(NotFetched::Gone) };
    let call = WebApiCall::form("files.info", vec![("file", id.to_owned())]);
    let file = match slack.call::<FileAnswer>(bot, call, ASKED_WITHIN).await {
        Ok(answer) => answer.file,
        Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) => {
            return Err(NotFetched::Gone);
        }
        Err(failure) => {
            tracing::warn!(bot.id = %bot.id, "could not ask Slack for a file: {}", failure.cause(LABEL));
            let is_forbidden =
                matches!(&failure, CallFailure::Refused(refusal) if refusal.kind == RefusalKind::Forbidden);
            return Err(if is_forbidden { NotFetched::Gone } else { NotFetched::NoAnswer });
        }
    };
    let address = file.url_private_download.or(file.url_private);
    let url = address.and_then(|address| slack.file_address(bot, &address)).ok_or(NotFetched::Gone)?;
    let token = bot.credentials.get(TOKEN).ok_or(NotFetched::NoAnswer)?;
    let request = slack.client.http().map_err(|_| NotFetched::NoAnswer)?.get(url).bearer_auth(token.expose());
    let is_page = file.mimetype.as_deref().is_some_and(|mime| mime.starts_with("text/html"));
    let accepts = |headers: &http::HeaderMap| {
        let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        // Without the scope files:read Slack answers with its login page.
        let accepted = is_page || !kind.starts_with("text/html");
        if !accepted {
            tracing::warn!(bot.id = %bot.id, "Slack answered with a page instead of a file: the app may lack the scope files:read");
        }
        accepted
    };
    slack.client.download_if(request, accepts, into).await?;
    Ok(FetchedMedia { mime: file.mimetype, filename: file.name })
}

impl Slack {
    /// The address of a file, if it is at a host of Slack. The bot's token is sent there.
    fn file_address(&self, bot: &OpenedBot, address: &str) -> Option<Url> {
        let url = Url::parse(address).ok()?;
        let is_slack = url.scheme() == "https"
            && url.port().is_none()
            && url.host_str().is_some_and(|host| FILE_HOSTS.contains(&host));
        (is_slack || self.is_stand_in(bot, &url)).then_some(url)
    }

    /// Uploads the bytes of a file. Repeating it changes nothing.
    pub(super) async fn upload(
        &self,
        bot: &OpenedBot,
        address: &UploadAddress,
        media: &StoredMedia,
        limit: Duration,
    ) -> Result<(), CallFailure> {
        let unread = |cause: &str| CallFailure::Unreached(cause.to_owned());
        let url = self.file_address(bot, &address.upload_url);
        let url = url.ok_or_else(|| unread("the address for the file is not Slack's"))?;
        let reader = media.open().await.ok_or_else(|| unread("the file cannot be read"))?;
        let length = reader.size();
        let request = self
            .client
            .http()?
            .post(url)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(http::header::CONTENT_LENGTH, length)
            .body(Body::wrap_stream(reader.into_stream()));
        let response = self.client.exchange(request, limit).await?;
        match response.status {
            200..300 => Ok(()),
            status => {
                let description = "Slack did not accept the file".to_owned();
                let kind = match RefusalKind::of_status(status) {
                    // The address has no credential of the bot, so that its refusal says nothing about the bot.
                    RefusalKind::CredentialDead => RefusalKind::Forbidden,
                    kind => kind,
                };
                Err(CallFailure::Refused(CallRefusal::new(kind, i64::from(status), description)))
            }
        }
    }
}
