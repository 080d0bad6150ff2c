//! Card actions of Feishu: pressed buttons, chosen options and submitted forms become messages of their person.

use std::time::Duration;

use ledger::Uses;
use posthouse_wire::{Event, PromptToken, Secret, Source};
use serde_json::Value;
use vault::CapturedCapability;

use super::FeishuContext;
use crate::feishu::CARD_TOKEN;
use crate::feishu::egress::PRESSED;
use crate::feishu::payload::{CardAction, PressedElement};
use crate::platform::{Arrival, PlatformResponse, Reading};

/// Time for which the token of a card is used, and how often. Lark documents three uses, Feishu two.
const CARD_TOKEN_LIFE: Duration = Duration::from_secs(1800);
const CARD_TOKEN_USES: u32 = 2;
/// Most fields of a form whose values are read.
const MOST_FIELDS: usize = 100;

impl FeishuContext<'_> {
    pub(super) fn card_action(&self, action: &CardAction<'_>) -> Reading {
        let reply = PlatformResponse::json("{}");
        let Some(text) = text_of(&action.action) else {
            return Reading { reply, ..Reading::ignored("unknown") };
        };
        let (chat, message) = (&*action.context.open_chat_id, &*action.context.open_message_id);
        let directory = &self.feishu.directory;
        let is_direct = directory.is_direct(&self.bot.id, chat);
        let place = directory.place(&self.bot.id, message).filter(|place| place.chat == chat);
        let thread = place.as_ref().and_then(|place| place.thread.as_deref());
        let event = Event {
            text,
            message_id: Some(message.into()),
            reply_to_message_id: Some(message.into()),
            source: Source {
                message_id: Some(message.into()),
                thread_id: thread.map(Into::into),
                ..self.source(chat, is_direct == Some(true), &action.operator)
            },
            ..Event::default()
        };
        let incomplete = event.source.user_name.is_none() || is_direct.is_none() || place.is_none();
        // The token is different for each press, but it is a secret. Every press has an event of its own.
        let id = self.header.event_id.as_deref().filter(|id| !id.is_empty());
        let Some(id) = id else { return Reading { reply, ..Reading::ignored("unknown") } };
        let arrival = Arrival {
            addressed: true,
            press: PromptToken::decode(&event.text),
            capabilities: captured(action.token.as_deref()),
            ..Arrival::new(event, self.dedup(id), self.verified.received)
        };
        Reading { arrivals: vec![arrival], reply, incomplete, ..Reading::default() }
    }
}

fn captured(token: Option<&str>) -> Vec<CapturedCapability> {
    let token = token.filter(|token| !token.is_empty());
    let capability = token.map(|token| CapturedCapability {
        kind: CARD_TOKEN.into(),
        value: Secret::new(token),
        lifetime: Some(CARD_TOKEN_LIFE),
        uses: Uses::Left(CARD_TOKEN_USES),
    });
    capability.into_iter().collect()
}

/// What a person pressed, chose or wrote. The payload of our own buttons is under one key; other cards have what their
/// author put there.
fn text_of(action: &PressedElement<'_>) -> Option<String> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    };
    if let Some(form) = &action.form_value {
        let values: Vec<String> = form.values().take(MOST_FIELDS).filter_map(scalar).collect();
        return (!values.is_empty()).then(|| values.join("\n"));
    }
    let value = action.value.as_ref();
    let pressed = value.and_then(|value| scalar(value.get(PRESSED)?));
    let chosen = || action.option.as_deref().map(str::to_owned);
    let several = || action.options.as_ref().map(|options| options.join(" "));
    let written = || action.input_value.as_deref().map(str::to_owned);
    let other =
        || value.filter(|value| !value.is_null()).map(|value| scalar(value).unwrap_or(value.to_string()));
    let name = || action.name.as_deref().map(str::to_owned);
    let text = pressed.or_else(chosen).or_else(several).or_else(written).or_else(other).or_else(name)?;
    (!text.is_empty()).then_some(text)
}
