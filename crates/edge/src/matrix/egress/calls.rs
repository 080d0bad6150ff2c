//! Client API calls of one action on Matrix, with its deadline. Nothing is ever written into an encrypted room.

use std::sync::Arc;

use http::Method;
use posthouse_wire::{Outcome, TenantId};
use relay::PermittedAction;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Value, json};

use super::{MatrixPlace, failed, related};
use crate::bots::OpenedBot;
use crate::matrix::Matrix;
use crate::matrix::api::MatrixCall;
use crate::matrix::rooms::MatrixRoom;
use crate::platform_calls::{CallFailure, CallRefusal, CallsWithDeadline, RefusalKind, RepeatRule};

pub(in crate::matrix) struct MatrixCalls<'a> {
    pub matrix: &'a Matrix,
    pub bot: &'a OpenedBot,
    pub calls: CallsWithDeadline<'a>,
    tenant: TenantId,
}

#[derive(Deserialize)]
struct SentEvent {
    event_id: String,
}

/// The reason why a message was not sent.
pub(in crate::matrix) enum NotSent {
    Encrypted,
    Failed(CallFailure),
}

impl NotSent {
    /// The outcome, after this many of the messages were sent.
    pub fn outcome(&self, sent: usize, of: usize) -> Outcome {
        match self {
            NotSent::Encrypted => Outcome::failed(
                "forbidden: this room is encrypted, and this bot cannot write encrypted messages",
            ),
            NotSent::Failed(failure) => failed(failure, sent, of),
        }
    }
}

impl From<CallFailure> for NotSent {
    fn from(failure: CallFailure) -> Self {
        NotSent::Failed(failure)
    }
}

impl<'a> MatrixCalls<'a> {
    pub fn new(matrix: &'a Matrix, bot: &'a OpenedBot, permitted: &PermittedAction) -> Self {
        let calls = CallsWithDeadline::new(&matrix.timepiece, permitted.deadline);
        Self { matrix, bot, calls, tenant: permitted.tenant.clone() }
    }

    /// Makes a call, with retries.
    pub async fn ask<R: DeserializeOwned>(
        &mut self,
        call: MatrixCall<'_>,
        repeat: RepeatRule,
    ) -> Result<R, CallFailure> {
        let (matrix, bot, call) = (self.matrix, self.bot, call.for_tenant(&self.tenant));
        self.calls.call(call.name, repeat, |left| matrix.call(bot, call.clone(), left)).await
    }

    pub async fn room(&mut self, room: &str) -> Result<Arc<MatrixRoom>, CallFailure> {
        if let Some(known) = self.matrix.rooms.room(&self.bot.id, room) {
            return Ok(known);
        }
        let (matrix, bot) = (self.matrix, self.bot);
        self.calls.call("GET state", RepeatRule::Harmless, |left| matrix.known_room(bot, room, left)).await
    }

    /// Posts a message in its place, and returns its id.
    pub async fn post(&mut self, place: &MatrixPlace, content: Value) -> Result<String, NotSent> {
        let event = self.put(&place.room, related(content, place)).await?;
        if let Some(thread) = &place.thread {
            self.matrix.own_events.note_thread(&self.bot.id, thread);
        }
        Ok(event)
    }

    /// Puts a message event into a room.
    pub async fn put(&mut self, room: &str, content: Value) -> Result<String, NotSent> {
        let event = self.put_event(room, "m.room.message", "PUT message", content).await?;
        self.matrix.own_events.note_message(&self.bot.id, &event);
        Ok(event)
    }

    /// Puts an event into a room that is known to be unencrypted. The server recognises a repeat by the transaction.
    pub async fn put_event(
        &mut self,
        room: &str,
        kind: &str,
        name: &'static str,
        content: Value,
    ) -> Result<String, NotSent> {
        if self.room(room).await?.is_encrypted {
            return Err(NotSent::Encrypted);
        }
        let transaction = new_transaction()?;
        let call = MatrixCall::in_room(Method::PUT, name, room, &["send", kind, &transaction]);
        let sent: SentEvent = self.ask(call.with_json(content), RepeatRule::Harmless).await?;
        Ok(sent.event_id)
    }

    /// Removes the content of an event.
    pub async fn redact(&mut self, room: &str, event: &str) -> Result<(), CallFailure> {
        let transaction = new_transaction()?;
        let call = MatrixCall::in_room(Method::PUT, "PUT redaction", room, &["redact", event, &transaction]);
        match self.ask::<IgnoredAny>(call.with_json(json!({})), RepeatRule::Harmless).await {
            Err(CallFailure::Refused(CallRefusal { kind: RefusalKind::Gone, .. })) | Ok(_) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    /// All messages of the action that the agent knows by this one.
    pub fn recall(&self, event: &str) -> Arc<[String]> {
        let key = (self.bot.id.clone(), event.to_owned());
        self.matrix.split_messages.get(&key).unwrap_or_else(|| [event.to_owned()].into())
    }

    pub fn remember(&self, event: &str, messages: &[String]) {
        let key = (self.bot.id.clone(), event.to_owned());
        match messages {
            [only] if only == event => self.matrix.split_messages.invalidate(&key),
            messages => self.matrix.split_messages.insert(key, messages.into()),
        }
    }
}

/// An id by which the server recognises the repeat of a call. It is new also after a restart.
fn new_transaction() -> Result<String, CallFailure> {
    let random = vault::random_hex(16);
    let random = random.map_err(|_| CallFailure::Unreached("no random number".to_owned()))?;
    Ok(random.expose().to_owned())
}
