//! Payloads of buttons: a press counts as the answer to a prompt only if the payload is exactly one that the server
//! writes.

use edge::platform::{Platform, VerifiedRequest};
use edge::telegram::Telegram;
use edge::{Credentials, OpenedBot};
use posthouse_time::{Moment, Timepiece};
use posthouse_wire::PromptToken;
use serde_json::{Value, json};

use super::Target;

/// What an update becomes, as Telegram's normalization reads it: its text, and the prompt that it answers.
fn pressed(telegram: &Telegram, bot: &OpenedBot, update: &Value) -> Option<(String, Option<PromptToken>)> {
    let verified = VerifiedRequest::fetched(update.to_string(), Moment::from_seconds(1));
    let reading = telegram.normalize(bot, verified).ok()?;
    reading.arrivals.into_iter().next().map(|arrival| (arrival.event.text, arrival.press))
}

pub fn buttons() -> Target {
    let telegram = Telegram::new("http://127.0.0.1:9", Timepiece::wall());
    let bot = OpenedBot {
        platform: "telegram".into(),
        id: "42".into(),
        shared: false,
        settings: serde_json::Map::new(),
        credentials: Credentials::default(),
    };
    let read = move |input: &[u8]| {
        let payload = String::from_utf8_lossy(input);
        let token = PromptToken::decode(&payload);
        if let Some(token) = &token {
            // A payload that is too long to be written is read all the same.
            let written = Some(&*payload).filter(|payload| payload.len() <= PromptToken::LONGEST);
            assert_eq!(token.encode().as_deref(), written, "another payload means the same");
            let ids = [token.prompt.as_str(), token.option.as_str()];
            assert!(ids.iter().all(|id| (1..=32).contains(&id.len())), "{ids:?}");
            let safe = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
            assert!(ids.iter().all(|id| id.chars().all(safe)), "{ids:?}");
        }
        // The same payload in a press on Telegram.
        let update = |data: &Value| {
            json!({ "update_id": 1, "callback_query": { "id": "q-1", "data": data,
                "from": { "id": 5, "first_name": "Ana" },
                "message": { "message_id": 7, "chat": { "id": 5, "type": "private", "first_name": "Ana" } } } })
        };
        let press = pressed(&telegram, &bot, &update(&json!(payload)));
        assert_eq!(press, Some((payload.clone().into_owned(), token.clone())));
        // Whatever else stands where the payload belongs.
        if let Ok(value) = serde_json::from_slice::<Value>(input)
            && let Some((text, press)) = pressed(&telegram, &bot, &update(&value))
        {
            assert_eq!(press, PromptToken::decode(&text));
        }
        let parts = payload.split(':').count().min(5);
        format!("{}, parts {parts}, length {}", token.is_some(), payload.len().min(80) / 16)
    };
    Target { corpus: "buttons", vectors: &["hermes-0.20.5/prompts.json"], read: Box::new(read) }
}
