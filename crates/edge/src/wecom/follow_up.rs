//! Follow-ups: the one answer that a response URL accepts, and the one change of a card that a response code allows.

use std::time::Duration;

use posthouse_wire::Outcome;
use reqwest::Url;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

use super::api::{WeComCall, read};
use super::cards::closed_card;
use super::{ANSWER_BYTES, LABEL, RESPONSE_CODE, RESPONSE_URL, WeCom, WeComProduct};
use crate::bots::OpenedBot;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};

/// The host of response URLs.
const RESPONSE_HOST: &str = "qyapi.weixin.qq.com";
/// Longest text of a button, in characters.
const LONGEST_BUTTON: usize = 30;

pub(super) async fn send(wecom: &WeCom, bot: &OpenedBot, follow_up: FollowUp<'_>) -> FollowedUp {
    let nothing = |outcome| FollowedUp { outcome, called: "nothing", had_no_effect: true };
    let content = follow_up.content.trim();
    if content.is_empty() {
        return nothing(Outcome::failed("message text is empty"));
    }
    let deadline = follow_up.permitted.deadline;
    match (wecom.product, follow_up.kind.as_str()) {
        (WeComProduct::AiBot, RESPONSE_URL) => {
            let Some(url) = wecom.response_address(bot, follow_up.value.expose()) else {
                return nothing(Outcome::no_capability());
            };
            if content.len() > ANSWER_BYTES {
                return nothing(Outcome::failed(too_long(ANSWER_BYTES, "bytes")));
            }
            let body = json!({ "msgtype": "markdown", "markdown": { "content": content } });
            let mut calls = CallsWithDeadline::new(&wecom.timepiece, deadline);
            let repeat = RepeatRule::IfRefused;
            let sent = calls.call("response_url", repeat, |left| wecom.respond(&url, &body, left)).await;
            ended(sent, "response_url")
        }
        (WeComProduct::App, RESPONSE_CODE) => {
            if content.chars().count() > LONGEST_BUTTON {
                return nothing(Outcome::failed(too_long(LONGEST_BUTTON, "characters")));
            }
            let Some(body) = closed_card(bot, follow_up.value, content) else {
                return nothing(Outcome::no_capability());
            };
            let call =
                WeComCall::post("message/update_template_card", body).for_tenant(&follow_up.permitted.tenant);
            let mut calls = CallsWithDeadline::new(&wecom.timepiece, deadline);
            let sent = calls
                .call(call.name, RepeatRule::IfRefused, |left| {
                    wecom.call::<IgnoredAny>(bot, call.clone(), left)
                })
                .await;
            ended(sent.map(drop), "message/update_template_card")
        }
        // Its refusal looks like that of a capability that is not there.
        _ => nothing(Outcome::no_capability()),
    }
}

fn too_long(most: usize, unit: &str) -> String {
    format!("the message is too long: this answer has at most {most} {unit}")
}

fn ended(sent: Result<(), CallFailure>, called: &'static str) -> FollowedUp {
    let Err(failure) = sent else {
        return FollowedUp { outcome: Outcome::done(), called, had_no_effect: false };
    };
    let outcome = match &failure {
        // It was used or has ended. The agent gets the same answer as for a capability that never existed.
        CallFailure::Refused(CallRefusal {
            kind: RefusalKind::Gone | RefusalKind::Permanent | RefusalKind::Forbidden,
            ..
        }) => Outcome::no_capability(),
        failure => Outcome::failed(failure.error(LABEL)),
    };
    FollowedUp { outcome, called, had_no_effect: failure.had_no_effect() }
}

impl WeCom {
    /// A response URL, if it is at WeCom's host.
    fn response_address(&self, bot: &OpenedBot, url: &str) -> Option<Url> {
        let url = Url::parse(url).ok()?;
        let is_wecom = url.scheme() == "https"
            && url.port().is_none()
            && url.username().is_empty()
            && url.password().is_none()
            && url.host_str() == Some(RESPONSE_HOST);
        (is_wecom || self.is_stand_in(bot, &url)).then_some(url)
    }

    async fn respond(&self, url: &Url, body: &Value, limit: Duration) -> Result<(), CallFailure> {
        // Without a token: the URL is the credential.
        let reply = self.client.exchange(self.client.http()?.post(url.clone()).json(body), limit).await?;
        let mut answer = read::<IgnoredAny>(&reply, &[]).map(drop);
        if let Err(CallFailure::Refused(refused)) = &mut answer
            && refused.kind == RefusalKind::CredentialDead
        {
            // It is no credential of the bot.
            refused.kind = RefusalKind::Gone;
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use posthouse_time::Timepiece;
    use vault::Credentials;

    use super::*;

    #[test]
    fn only_response_urls_of_wecom_are_used() {
        let wecom = WeCom::new(WeComProduct::AiBot, WeCom::API_BASE, WeCom::SOCKET_URL, Timepiece::wall());
        let bot = |settings: Value| OpenedBot {
            platform: "wecom".into(),
            id: "AIB".into(),
            shared: false,
            settings: settings.as_object().unwrap().clone(),
            credentials: Credentials::default(),
        };
        let real = bot(json!({}));
        let url = "https://qyapi.weixin.qq.com/cgi-bin/aibot/response?response_code=XYZ";
        assert!(wecom.response_address(&real, url).is_some());
        for url in [
            "http://qyapi.weixin.qq.com/cgi-bin/aibot/response?response_code=XYZ",
            "https://qyapi.weixin.qq.com:444/x",
            "https://qyapi.weixin.qq.com@evil.test/x",
            "https://user:pass@qyapi.weixin.qq.com/x",
            "https://qyapi.weixin.qq.com.evil.test/x",
            "http://127.0.0.1:9/x",
            "nonsense",
        ] {
            assert!(wecom.response_address(&real, url).is_none(), "{url}");
        }
        let played = bot(json!({ "api_base_url": "http://127.0.0.1:9" }));
        assert!(wecom.response_address(&played, "http://127.0.0.1:9/response/x").is_some());
        assert!(wecom.response_address(&played, "http://127.0.0.1:10/response/x").is_none());
    }
}
