//! Presses of buttons on the page.
//!
//! A press brings the agent a capability, `web.reply_token`: within 15 minutes it may answer this press once with a
//! `follow_up`.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, State};
use ledger::{Room, ShownPrompt, Uses};
use posthouse_time::Moment;
use posthouse_wire::{ChatId, DedupKey, Event, MessageId, Outcome, PromptOptionId, PromptToken, Secret};
use serde::{Deserialize, Serialize};
use serde_json::json;
use vault::CapturedCapability;

use super::auth::Visitor;
use super::person::source;
use super::problem::ChatProblem;
use super::routes::{Body, ChatPage, PageResult, open, read, stored};
use super::{Web, bot_ref};
use crate::Fault;
use crate::follow_up::{FollowUp, FollowedUp};
use crate::platform::{Arrival, Platform, Reading};

/// The kind of the capability that a press brings.
const REPLY_TOKEN: &str = "web.reply_token";
const REPLY_TOKEN_LIFE: Duration = Duration::from_secs(15 * 60);

#[derive(Deserialize)]
struct PressedButton {
    message_id: MessageId,
    option_id: PromptOptionId,
}

/// The press that a capability answers. It is sealed in the vault and never leaves the server.
#[derive(Serialize, Deserialize)]
struct ReplyToken {
    room: ChatId,
    message: MessageId,
    /// Makes each one different.
    number: String,
}

/// Stores the press of a button for the agent that asked.
pub(super) async fn press(
    State(chat): State<ChatPage>,
    Extension(visitor): Extension<Visitor>,
    Path(room): Path<String>,
    body: Body,
) -> PageResult {
    let PressedButton { message_id, option_id } = read(body)?;
    let room = open(&chat, &visitor, &room.into()).await?;
    let on = bot_ref(&room.instance);
    let Some(bot) = chat.bots.find(&on).await? else { return Err(ChatProblem::NOT_FOUND) };
    // The lock keeps two presses of one prompt apart.
    let _lock = chat.web.locks.lock(&room.id).await;
    let prompt = chat.web.prompts.prompt(&on, &room.id, &message_id).await?;
    let prompt = prompt.filter(|prompt| prompt.label(&option_id).is_some()).ok_or(ChatProblem::NOT_FOUND)?;
    if prompt.pressed.is_some() {
        return Err(ChatProblem::ANSWERED);
    }
    let received = chat.web.timepiece.now();
    let arrivals = vec![arrival(&room, &prompt, &option_id, received)?];
    let platform: Arc<dyn Platform> = chat.web.clone();
    let reading = Reading { arrivals, ..Reading::default() };
    let result = chat.intake.take(&platform, &bot, reading, Some(&visitor.principal())).await?;
    let entry = stored(result)?;
    let prompt = ShownPrompt { pressed: Some(option_id), ..prompt };
    chat.web.show_press(&room, &prompt, received).await?;
    Ok(Json(json!({ "message_id": message_id, "entry": entry })))
}

fn arrival(
    room: &Room,
    prompt: &ShownPrompt,
    option: &PromptOptionId,
    received: Moment,
) -> Result<Arrival, Fault> {
    let token = ReplyToken {
        room: room.id.clone(),
        message: prompt.message.clone(),
        number: vault::random_hex(32)?.expose().to_owned(),
    };
    let value = serde_json::to_string(&token).expect("it has only texts");
    let capability = CapturedCapability {
        kind: REPLY_TOKEN.into(),
        value: Secret::new(value),
        lifetime: Some(REPLY_TOKEN_LIFE),
        uses: Uses::Left(1),
    };
    let event = Event {
        source: source(room),
        message_id: Some(prompt.message.clone()),
        reply_to_message_id: Some(prompt.message.clone()),
        ..Event::default()
    };
    let dedup = DedupKey::from(format!("web:{}:press:{}", room.id, prompt.message));
    Ok(Arrival {
        capabilities: vec![capability],
        addressed: true,
        press: Some(PromptToken { prompt: prompt.prompt.clone(), option: option.clone() }),
        ..Arrival::new(event, dedup, received)
    })
}

impl Web {
    /// Posts one message as the answer to a press.
    pub(super) async fn answer_press(&self, follow_up: FollowUp<'_>) -> FollowedUp {
        let called = "post a message in the web chat";
        match self.answered_press(&follow_up).await {
            Ok(Some(outcome)) => {
                let had_no_effect = !outcome.success;
                FollowedUp { outcome, called, had_no_effect }
            }
            Ok(None) => FollowedUp { outcome: Outcome::no_capability(), called, had_no_effect: true },
            Err(fault) => {
                tracing::error!(%fault, "the web chat could not store a follow-up");
                let outcome = Outcome::failed("network: the server could not store the message");
                FollowedUp { outcome, called, had_no_effect: true }
            }
        }
    }

    async fn answered_press(&self, follow_up: &FollowUp<'_>) -> Result<Option<Outcome>, ledger::Fault> {
        let token: Option<ReplyToken> = serde_json::from_str(follow_up.value.expose()).ok();
        let Some(token) = token.filter(|_| *follow_up.kind == REPLY_TOKEN) else { return Ok(None) };
        let Some(room) = self.rooms.room(&token.room).await? else { return Ok(None) };
        if room.instance != follow_up.permitted.instance || room.invitation.is_none() {
            return Ok(None);
        }
        let (id, now) = (&follow_up.permitted.id, self.timepiece.now());
        self.send(&room, id, follow_up.content, (Some(token.message), None), false, now).await.map(Some)
    }
}
