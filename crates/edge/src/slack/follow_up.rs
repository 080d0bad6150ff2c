//! Follow-ups: answers to a slash command or an interaction, sent to its response URL. Only the person who acted sees
//! them.

use std::time::Duration;

use posthouse_wire::{Action, Outcome};
use reqwest::Url;
use serde_json::{Value, json};

use super::api::retry_after;
use super::egress::message_time;
use super::{LABEL, MESSAGE_LENGTH, RESPONSE_URL, Slack};
use crate::bots::OpenedBot;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};

const CALLED: &str = "response_url";
/// Hosts of response URLs.
const RESPONSE_HOSTS: [&str; 2] = ["hooks.slack.com", "hooks.slack-gov.com"];

pub(super) async fn send(slack: &Slack, bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
    let nothing = |outcome| FollowedUp { outcome, called: "nothing", had_no_effect: true };
    // A trigger opens a form, which agents cannot do. Its refusal looks like that of a capability that is not there.
    if follow_up.kind.as_str() != RESPONSE_URL {
        return nothing(Outcome::no_capability());
    }
    let Some(url) = slack.response_address(bot, follow_up.value.expose()) else {
        return nothing(Outcome::no_capability());
    };
    let chunks = slack.chunks(bot, follow_up.content, MESSAGE_LENGTH).await;
    if chunks.is_empty() {
        return nothing(Outcome::failed("message text is empty"));
    }
    let thread = match &follow_up.permitted.action {
        Action::FollowUp { metadata, .. } => metadata.thread_id.as_ref(),
        _ => None,
    };
    let thread = thread.and_then(|thread| message_time(thread.as_str()));
    let mut calls = CallsWithDeadline::new(&slack.timepiece, follow_up.permitted.deadline);
    for (sent, chunk) in chunks.iter().enumerate() {
        let mut body = json!({ "text": chunk, "response_type": "ephemeral", "replace_original": false });
        if let Some(thread) = thread {
            body["thread_ts"] = thread.into();
        }
        let posted =
            calls.call(CALLED, RepeatRule::IfNothingWasDone, |left| slack.respond(&url, &body, left)).await;
        let Err(failure) = posted else { continue };
        let outcome = match &failure {
            // The URL has ended. The agent gets the same answer as for a capability that never existed.
            CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. }) if sent == 0 => {
                Outcome::no_capability()
            }
            failure if sent == 0 => Outcome::failed(failure.error(LABEL)),
            failure => {
                let (of, cause) = (chunks.len(), failure.cause(LABEL));
                Outcome::failed(format!(
                    "only {sent} of {of} messages were sent, then it failed or timed out: {cause}"
                ))
            }
        };
        let had_no_effect = sent == 0 && failure.had_no_effect();
        return FollowedUp { outcome, called: CALLED, had_no_effect };
    }
    // Slack does not say as which messages the answers appear.
    FollowedUp { outcome: Outcome::done(), called: CALLED, had_no_effect: false }
}

impl Slack {
    /// A response URL, if it is at a host of Slack.
    pub(super) fn response_address(&self, bot: &OpenedBot, url: &str) -> Option<Url> {
        let url = Url::parse(url).ok()?;
        let is_slack = url.scheme() == "https"
            && url.port().is_none()
            && url.username().is_empty()
            && url.password().is_none()
            && url.host_str().is_some_and(|host| RESPONSE_HOSTS.contains(&host));
        (is_slack || self.is_stand_in(bot, &url)).then_some(url)
    }

    async fn respond(&self, url: &Url, body: &Value, limit: Duration) -> Result<(), CallFailure> {
        // Without a token: the URL is the credential.
        let response = self.client.exchange(self.client.http()?.post(url.clone()).json(body), limit).await?;
        let status = response.status;
        if status < 300 {
            return Ok(());
        }
        let kind = match RefusalKind::of_status(status) {
            // It is no credential of the bot.
            RefusalKind::CredentialDead | RefusalKind::Forbidden => RefusalKind::Gone,
            kind => kind,
        };
        let refusal = CallRefusal::new(kind, i64::from(status), String::new());
        Err(CallFailure::Refused(CallRefusal { retry_after: retry_after(&response), ..refusal }))
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Timepiece;
    use vault::Credentials;

    use super::*;

    #[test]
    fn only_response_urls_of_slack_are_used() {
        let slack = Slack::new(Slack::API_BASE, Timepiece::wall());
        let bot = |settings: Value| OpenedBot {
            platform: "slack".into(),
            id: "UBOT".into(),
            shared: false,
            settings: settings.as_object().unwrap().clone(),
            credentials: Credentials::default(),
        };
        let real = bot(json!({}));
        for url in ["https://hooks.slack.com/commands/T1/1/x", "https://hooks.slack-gov.com/actions/T1/1/x"] {
            assert!(slack.response_address(&real, url).is_some(), "{url}");
        }
        for url in [
            "http://hooks.slack.com/commands/T1/1/x",
            "https://hooks.slack.com:444/x",
            "https://hooks.slack.com@evil.test/x",
            "https://user:pass@hooks.slack.com/x",
            "https://hooks.slack.com.evil.test/x",
            "https://evil.test/hooks.slack.com",
            "http://127.0.0.1:9/x",
            "nonsense",
        ] {
            assert!(slack.response_address(&real, url).is_none(), "{url}");
        }
        let played = bot(json!({ "api_base_url": "http://127.0.0.1:9/api" }));
        assert!(slack.response_address(&played, "http://127.0.0.1:9/response/T1/x").is_some());
        assert!(slack.response_address(&played, "http://127.0.0.1:10/response/T1/x").is_none());
    }
}
