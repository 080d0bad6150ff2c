//! Card entities: messages whose text grows while an agent writes it. A card takes ten updates a second and any number
//! of them, where a text takes 20 edits in all.

use std::sync::Arc;

use http::Method;
use moka::sync::Cache;
use parking_lot::Mutex;
use posthouse_wire::BotId;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::api::FeishuCall;
use super::egress::FeishuCalls;
use super::post_text::{TEXT_ELEMENT, card, streaming_card};
use super::{ANSWER_WITHIN, Feishu, LABEL};
use crate::bots::OpenedBot;
use crate::platform_calls::{CallFailure, RepeatRule};

/// Most cards that are remembered, over all bots. One that is forgotten is looked up by its message.
const MOST: u64 = 20_000;
/// The code for an update of a text in a card that does not grow any more. Feishu ends that by itself after ten
/// minutes.
const NOT_STREAMING: [i64; 2] = [200850, 300309];

/// Cards by bot and message. Clones share one state.
#[derive(Clone)]
pub(super) struct StreamedCards(Cache<(BotId, String), Arc<StreamedCard>>);

/// A card in a message.
pub(super) struct StreamedCard {
    id: String,
    state: Mutex<CardState>,
}

struct CardState {
    /// Every update has a greater number than the one before.
    sequence: i64,
    is_streaming: bool,
}

#[derive(Deserialize)]
struct CardAnswer {
    card_id: String,
}

impl Default for StreamedCards {
    fn default() -> Self {
        Self(Cache::builder().max_capacity(MOST).build())
    }
}

impl StreamedCards {
    pub fn has(&self, bot: &BotId, message: &str) -> bool {
        self.0.contains_key(&(bot.clone(), message.to_owned()))
    }

    fn get(&self, bot: &BotId, message: &str) -> Option<Arc<StreamedCard>> {
        self.0.get(&(bot.clone(), message.to_owned()))
    }
}

impl StreamedCard {
    fn new(id: String, sequence: i64, is_streaming: bool) -> Self {
        Self { id, state: Mutex::new(CardState { sequence, is_streaming }) }
    }

    /// The number of the next update, and whether the text still grows.
    fn next(&self) -> (i64, bool) {
        let mut state = self.state.lock();
        state.sequence += 1;
        (state.sequence, state.is_streaming)
    }

    fn is_over(&self) {
        self.state.lock().is_streaming = false;
    }
}

impl FeishuCalls<'_> {
    /// Makes a card whose text grows. The returned content sends it.
    pub(super) async fn new_card(&mut self, text: &str) -> Result<(Arc<StreamedCard>, String), CallFailure> {
        let body = json!({ "type": "card_json", "data": streaming_card(text).to_string() });
        let call = FeishuCall::json("POST cards", Method::POST, "/cardkit/v1/cards".to_owned(), body);
        let CardAnswer { card_id } = self.ask(call, RepeatRule::Harmless).await?;
        let content = json!({ "type": "card", "data": { "card_id": card_id } }).to_string();
        Ok((Arc::new(StreamedCard::new(card_id, 0, true)), content))
    }

    pub(super) fn keep_card(&self, message: &str, card: Arc<StreamedCard>) {
        self.feishu.cards.0.insert((self.bot.id.clone(), message.to_owned()), card);
    }

    /// The card of a message that was sent before this server started.
    pub(super) async fn card_of(&mut self, message: &str) -> Result<Arc<StreamedCard>, CallFailure> {
        if let Some(known) = self.feishu.cards.get(&self.bot.id, message) {
            return Ok(known);
        }
        let path = "/cardkit/v1/cards/id_convert".to_owned();
        let body = json!({ "message_id": message });
        let call = FeishuCall::json("POST id_convert", Method::POST, path, body);
        let CardAnswer { card_id } = self.ask(call, RepeatRule::Harmless).await?;
        // Greater than any number before: updates are made less often than four times a second on average.
        let since = self.feishu.timepiece.now().millis() / 250 - 6_940_000_000;
        let card = Arc::new(StreamedCard::new(card_id, since, false));
        self.keep_card(message, Arc::clone(&card));
        Ok(card)
    }

    /// Writes the whole text of a card anew.
    pub(super) async fn write_card(&mut self, written: &StreamedCard, text: &str) -> Result<(), CallFailure> {
        let (sequence, is_streaming) = written.next();
        if is_streaming {
            let path = format!("/cardkit/v1/cards/{}/elements/{TEXT_ELEMENT}/content", written.id);
            let body = json!({ "content": text, "sequence": sequence, "uuid": self.next_uuid() });
            let call = FeishuCall::json("PUT card content", Method::PUT, path, body).on_card(&written.id);
            match self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await {
                Err(CallFailure::Refused(refused)) if NOT_STREAMING.contains(&refused.code) => {
                    written.is_over();
                }
                result => return result.map(drop),
            }
        }
        let (sequence, _) = written.next();
        let data = json!({ "type": "card_json", "data": card(text, Vec::new()).to_string() });
        let body = json!({ "card": data, "sequence": sequence, "uuid": self.next_uuid() });
        let path = format!("/cardkit/v1/cards/{}", written.id);
        let call = FeishuCall::json("PUT card", Method::PUT, path, body).on_card(&written.id);
        self.ask::<IgnoredAny>(call, RepeatRule::Harmless).await.map(drop)
    }
}

impl Feishu {
    /// Tells Feishu that a text does not grow any more. Until then the chat list shows that it is being written.
    pub(super) async fn end_stream(&self, bot: &OpenedBot, message: &str) {
        let Some(card) = self.cards.get(&bot.id, message) else { return };
        let (sequence, is_streaming) = card.next();
        if !is_streaming {
            return;
        }
        card.is_over();
        let settings = json!({ "config": { "streaming_mode": false } }).to_string();
        let body = json!({ "settings": settings, "sequence": sequence, "uuid": format!("end-{}-{sequence}", card.id) });
        let path = format!("/cardkit/v1/cards/{}/settings", card.id);
        let call = FeishuCall::json("PATCH card settings", Method::PATCH, path, body).on_card(&card.id);
        if let Err(failure) = self.call::<IgnoredAny>(bot, &call, ANSWER_WITHIN).await {
            tracing::debug!(bot.id = %bot.id, "could not end the growing of a text: {}", failure.cause(LABEL));
        }
    }
}
