//! Files of Twilio messages: fetched with the account's credentials, behind a redirect to a signed storage URL.

use std::time::Duration;

use http::Method;
use relay::{FetchedMedia, MediaWriter, NotFetched};
use reqwest::Url;

use super::api::is_sid;
use super::{ACCOUNT, LABEL, Twilio};
use crate::bots::OpenedBot;

/// Beginning of a reference to a file. Account, message and file follow.
pub(super) const MEDIA_REFERENCE: &str = "twilio:media:";
/// Time limit for asking for a file.
const ASKED_WITHIN: Duration = Duration::from_secs(15);
/// Where Twilio stores files: hosts, with the beginning of the path.
const STORAGE: [(&str, &str); 3] = [
    ("mms.twiliocdn.com", "/"),
    ("media.twiliocdn.com", "/"),
    ("s3-external-1.amazonaws.com", "/media.twiliocdn.com/"),
];

/// Downloads the file of a reference. The storage URL is signed, so it gets no credentials.
pub(super) async fn fetch(
    twilio: &Twilio,
    bot: &OpenedBot,
    reference: &str,
    into: &mut MediaWriter,
) -> Result<FetchedMedia, NotFetched> {
    let parts: Vec<&str> = reference.strip_prefix(MEDIA_REFERENCE).unwrap_or_default().split('/').collect();
    let [account, message, file] = parts[..] else { return Err(NotFetched::Gone) };
    if Some(account) != bot.setting(ACCOUNT) || !is_sid(message) || !is_sid(file) {
        return Err(NotFetched::Gone);
    }
    let no_answer = |failure: crate::platform_calls::CallFailure| {
        tracing::warn!(bot.id = %bot.id, "could not ask Twilio for a file: {}", failure.cause(LABEL));
        NotFetched::NoAnswer
    };
    let address = twilio.address(bot, &format!("/Messages/{message}/Media/{file}")).map_err(no_answer)?;
    let request = twilio.request(bot, Method::GET, address, false).map_err(no_answer)?;
    let found = twilio.client.exchange(request, ASKED_WITHIN).await.map_err(no_answer)?;
    let location = found.headers.get("location").and_then(|url| url.to_str().ok());
    match (found.status, location) {
        (200, _) => into.write(found.body.into()).await?,
        (301 | 302 | 303 | 307 | 308, Some(url)) => {
            let url =
                Url::parse(url).ok().filter(|url| twilio.is_storage(bot, url)).ok_or(NotFetched::Gone)?;
            let request = twilio.client.http().map_err(no_answer)?.get(url);
            twilio.client.download(request, into).await?;
        }
        (404 | 410, _) => return Err(NotFetched::Gone),
        (401, _) => {
            twilio.refused.report(&bot.id);
            return Err(NotFetched::NoAnswer);
        }
        _ => return Err(NotFetched::NoAnswer),
    }
    Ok(FetchedMedia::default())
}

impl Twilio {
    /// Whether this URL is in Twilio's storage, or at a stand-in.
    fn is_storage(&self, bot: &OpenedBot, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_stored = |(stored, path): &(&str, &str)| host == *stored && url.path().starts_with(path);
        let is_twilio = url.scheme() == "https" && url.port().is_none() && STORAGE.iter().any(is_stored);
        let base = Url::parse(self.base_of(bot)).ok().filter(|base| base.scheme() == "http");
        is_twilio || base.is_some_and(|base| base.origin() == url.origin())
    }
}
