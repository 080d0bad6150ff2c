//! Sending texts of agents by Twilio, each within its deadline.

use posthouse_wire::{Action, ChatId, ChatInfo, Outcome, TenantId};
use relay::{EgressResult, PermittedAction};
use serde::Deserialize;

use super::api::TwilioCall;
use super::segments::segments;
use super::{LABEL, MESSAGE_LENGTH, SERVICE, Twilio, TwilioChannel, own_address};
use crate::bots::OpenedBot;
use crate::light_markup::LightMarkup;
use crate::platform_calls::{CallsWithDeadline, RepeatRule};
use crate::split::{Unit, split, split_measured};

/// Segments of one SMS at most. Carriers drop longer ones; ten are at most 1530 characters.
const MOST_SEGMENTS: usize = 10;

#[derive(Deserialize)]
struct QueuedMessage {
    sid: String,
}

/// Carries out one action.
pub(super) async fn perform(twilio: &Twilio, bot: &OpenedBot, permitted: PermittedAction) -> EgressResult {
    let mut calls = CallsWithDeadline::new(&twilio.timepiece, permitted.deadline);
    let tenant = permitted.tenant;
    let outcome = match permitted.action {
        Action::Send { chat_id, content, .. } => {
            send(twilio, bot, (&mut calls, &tenant), &chat_id, &content).await
        }
        Action::GetChatInfo { chat_id } => match address(twilio.channel, &chat_id) {
            Some(_) => Outcome::info(ChatInfo { name: chat_id.to_string(), kind: "dm".to_owned() }),
            None => Outcome::failed("chat not found"),
        },
        other => Outcome::unsupported(other.op()),
    };
    EgressResult { outcome, posted: calls.posted, called: calls.called() }
}

/// Where messages to a chat go. `None` for an id that no chat has.
fn address(channel: TwilioChannel, chat: &ChatId) -> Option<String> {
    let id = chat.as_str();
    let is_number =
        |digits: &str| (4..=15).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_scoped = |id: &str| {
        let parts = id
            .split_once('.')
            .filter(|(country, rest)| country.len() == 2 && (1..=128).contains(&rest.len()));
        parts.is_some_and(|(country, rest)| {
            country.bytes().all(|byte| byte.is_ascii_uppercase())
                && rest.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    };
    match channel {
        // A short code has no plus sign.
        TwilioChannel::Sms => is_number(id.strip_prefix('+').unwrap_or(id)).then(|| id.to_owned()),
        TwilioChannel::WhatsApp if is_number(id) => Some(format!("whatsapp:+{id}")),
        TwilioChannel::WhatsApp => is_scoped(id).then(|| format!("whatsapp:{id}")),
    }
}

/// Texts for one message each.
fn chunks(channel: TwilioChannel, content: &str) -> Vec<String> {
    match channel {
        TwilioChannel::Sms => split_measured(&LightMarkup::PLAIN.convert(content), MOST_SEGMENTS, &segments),
        TwilioChannel::WhatsApp => {
            split(&LightMarkup::WHATSAPP.convert(content), MESSAGE_LENGTH, Unit::Chars)
        }
    }
}

/// Sends all chunks in order. The outcome names the last message.
async fn send(
    twilio: &Twilio,
    bot: &OpenedBot,
    (calls, tenant): (&mut CallsWithDeadline<'_>, &TenantId),
    chat: &ChatId,
    content: &str,
) -> Outcome {
    let (Some(to), Some(from)) = (address(twilio.channel, chat), own_address(twilio.channel, bot)) else {
        return Outcome::failed("chat not found");
    };
    let channel = twilio.channel;
    let chunks = twilio.split_limits.run(&bot.id, content, move |text| chunks(channel, text)).await;
    let mut last = None;
    for (sent, chunk) in chunks.iter().enumerate() {
        let mut form = vec![("To", to.clone()), ("Body", chunk.clone())];
        form.push(match bot.setting(SERVICE) {
            Some(service) => ("MessagingServiceSid", service.to_owned()),
            None => ("From", from.clone()),
        });
        form.extend(twilio.doors.get(&bot.id).map(|door| ("StatusCallback", door)));
        let call = TwilioCall::post("POST Messages", "/Messages.json".to_owned(), form).for_tenant(tenant);
        let posted = calls
            .call(call.name, RepeatRule::IfNothingWasDone, |left| {
                twilio.call::<QueuedMessage>(bot, call.clone(), left)
            })
            .await;
        match posted {
            Ok(queued) => last = Some(queued.sid),
            Err(failure) if sent == 0 => return Outcome::failed(failure.error(LABEL)),
            // A part was sent, so the whole must not be sent again.
            Err(failure) => {
                let (cause, of) = (failure.cause(LABEL), chunks.len());
                return Outcome::failed(format!(
                    "only {sent} of {of} messages were sent, then it failed or timed out: {cause}"
                ));
            }
        }
    }
    match last {
        Some(sid) => Outcome::sent(sid.into()),
        None => Outcome::failed("message text is empty"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_has_an_address_of_its_channel() {
        let of = |channel, chat: &str| address(channel, &chat.into());
        assert_eq!(of(TwilioChannel::Sms, "+15550177").as_deref(), Some("+15550177"));
        assert_eq!(of(TwilioChannel::WhatsApp, "15550177").as_deref(), Some("whatsapp:+15550177"));
        assert_eq!(of(TwilioChannel::WhatsApp, "US.5a").as_deref(), Some("whatsapp:US.5a"));
        for nobody in ["", "whatsapp:+1555", "+", "+1555x", "../x"] {
            assert_eq!(of(TwilioChannel::Sms, nobody), None, "{nobody}");
            assert_eq!(of(TwilioChannel::WhatsApp, nobody), None, "{nobody}");
        }
    }

    #[test]
    fn no_chunk_of_an_sms_has_more_than_ten_segments() {
        for text in ["word ".repeat(1_000), "🦉 ".repeat(1_000), "ç€ ".repeat(800)] {
            for chunk in chunks(TwilioChannel::Sms, &text) {
                assert!((1..=MOST_SEGMENTS).contains(&segments(&chunk)));
                assert!(chunk.chars().count() <= MESSAGE_LENGTH);
            }
        }
    }
}
