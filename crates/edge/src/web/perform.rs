//! Actions of agents in a room. Each is stored before it is shown.

use ledger::{Room, RoomMessage, ShownPrompt};
use posthouse_time::Moment;
use posthouse_wire::{Action, ActionId, ChatInfo, MessageId, Outcome, ThreadId};
use relay::{EgressResult, PermittedAction};
use serde_json::json;

use super::hub::RoomUpdate;
use super::{LIMIT, Web};
use crate::asked_prompts::AskedPrompts;
use crate::split::{Unit, split};

impl Web {
    pub(super) async fn carry_out(&self, permitted: PermittedAction) -> EgressResult {
        let (room, thread) = match self.place_of(&permitted).await {
            Ok(place) => place,
            Err(refused) => return *refused,
        };
        let posted = self.timepiece.now();
        let prompt = AskedPrompts::of(&permitted);
        let outcome = match permitted.action {
            Action::Send { content, reply_to, .. } => {
                self.send(&room, &permitted.id, &content, (reply_to, thread), permitted.ends_turn, posted)
                    .await
            }
            Action::Edit { message_id, content, .. } => self.edit(&room, &message_id, &content, posted).await,
            Action::Typing { content, .. } => {
                self.type_on(&room, content);
                Ok(Outcome::done())
            }
            Action::GetChatInfo { .. } => {
                return Outcome::info(ChatInfo { name: room.person, kind: "dm".to_owned() }).into();
            }
            Action::Prompt { content, reply_to, .. } => match prompt {
                Some(prompt) => {
                    self.ask(&room, &permitted.id, prompt, &content, (reply_to, thread), posted).await
                }
                None => return Outcome::unsupported("prompt").into(),
            },
            Action::React { message_id, emoji, remove, .. } => {
                self.react(&room, &message_id, &emoji, remove, posted).await
            }
            Action::ThreadCreate { thread_name, .. } => {
                self.create_thread(&room, &permitted.id, &thread_name).await
            }
            Action::ThreadRename { thread_id, thread_name, .. } => {
                self.rename_thread(&room, &thread_id, &thread_name).await
            }
            Action::Draft { draft_id, content, is_final, .. } => {
                self.draft(&room, &permitted.id, (draft_id, &content, is_final), thread, posted).await
            }
            other => return Outcome::unsupported(other.op()).into(),
        };
        match outcome {
            Ok(outcome) => EgressResult { posted: outcome.success.then_some(posted), outcome, called: None },
            Err(fault) => not_written(&fault),
        }
    }

    /// The room and the thread that an action is for, or the reason why the agent may not write there.
    pub(super) async fn place_of(
        &self,
        permitted: &PermittedAction,
    ) -> Result<(Room, Option<ThreadId>), Box<EgressResult>> {
        let refused = |error: &str| Err(Box::new(Outcome::failed(error).into()));
        let Some(chat) = permitted.action.chat_id() else { return refused("chat not found") };
        let room = match self.rooms.room(chat).await {
            // Another agent's room, and a room whose invitation was withdrawn, look like a room that does not exist.
            Ok(Some(room)) if room.instance == permitted.instance && room.invitation.is_some() => room,
            Ok(_) => return refused("chat not found"),
            Err(fault) => return Err(Box::new(not_written(&fault))),
        };
        match self.thread_of(&room, &permitted.action).await {
            Ok(thread) => Ok((room, thread)),
            Err(NoThread::Unknown) => refused("thread not found"),
            Err(NoThread::Fault(fault)) => Err(Box::new(not_written(&fault))),
        }
    }

    /// The thread that an action names, if the room has it.
    async fn thread_of(&self, room: &Room, action: &Action) -> Result<Option<ThreadId>, NoThread> {
        let named = match action {
            Action::Send { metadata, .. }
            | Action::Prompt { metadata, .. }
            | Action::SendMedia { metadata, .. }
            | Action::Draft { metadata, .. } => metadata.thread_id.clone(),
            _ => None,
        };
        match named {
            Some(thread) if !self.has_thread(room, &thread).await.map_err(NoThread::Fault)? => {
                Err(NoThread::Unknown)
            }
            named => Ok(named),
        }
    }

    /// Shows the typing sign with an optional text, or clears it if the text is empty.
    fn type_on(&self, room: &Room, content: Option<String>) {
        let on = content.as_deref() != Some("");
        self.turns.typing(&room.id, on, self.timepiece.instant());
        let text = content.filter(|text| !text.is_empty());
        let data = json!({ "on": on, "text": text }).to_string();
        self.hub.show(&room.id, RoomUpdate { name: "typing", data, at: None, message: None });
    }

    /// Texts for one message each. Every agent has a web bot of its own.
    pub(super) async fn chunks(&self, room: &Room, content: &str) -> Vec<String> {
        let fit = |text: &str| split(text, LIMIT, Unit::Chars);
        self.split_limits.run(&super::bot_ref(&room.instance).bot, content, fit).await
    }

    pub(super) async fn send(
        &self,
        room: &Room,
        action: &ActionId,
        content: &str,
        (reply_to, thread): (Option<MessageId>, Option<ThreadId>),
        is_answer: bool,
        now: Moment,
    ) -> Result<Outcome, ledger::Fault> {
        let first = message_of(action);
        let chunks = self.chunks(room, content).await;
        if chunks.is_empty() {
            return Ok(Outcome::failed("message text is empty"));
        }
        let _lock = self.locks.lock(&room.id).await;
        self.turns.agent_wrote(&room.id, is_answer, self.timepiece.instant());
        for (number, text) in (1..).zip(chunks) {
            let message = RoomMessage {
                reply_to: reply_to.clone().filter(|_| number == 1),
                ..RoomMessage::by_agent(part(&first, number), text, thread.clone(), now)
            };
            self.write(room, message).await?;
        }
        Ok(Outcome::sent(first))
    }

    async fn edit(
        &self,
        room: &Room,
        message: &MessageId,
        content: &str,
        now: Moment,
    ) -> Result<Outcome, ledger::Fault> {
        let chunks = self.chunks(room, content).await;
        if chunks.is_empty() {
            return Ok(Outcome::failed("message text is empty"));
        }
        let _lock = self.locks.lock(&room.id).await;
        self.turns.edited(&room.id, self.timepiece.instant());
        let mut number = 0;
        for text in chunks {
            number += 1;
            let piece = part(message, number);
            if self.rewrite(room, piece.clone(), &text, now).await? {
                continue;
            }
            if number == 1 {
                return Ok(Outcome::failed("message to edit not found"));
            }
            // The text no longer fits into one message: the rest goes into further messages.
            self.write(room, RoomMessage::by_agent(piece, text, None, now)).await?;
        }
        // When the text shrinks again, the surplus messages are emptied. The page hides empty messages.
        loop {
            number += 1;
            if !self.rewrite(room, part(message, number), "", now).await? {
                return Ok(Outcome::sent(message.clone()));
            }
        }
    }

    /// Stores a message and shows it. The caller must hold the room's lock.
    pub(super) async fn write(&self, room: &Room, message: RoomMessage) -> Result<(), ledger::Fault> {
        self.write_with(room, message, None).await
    }

    /// As [`Web::write`], for a message with buttons.
    pub(super) async fn write_with(
        &self,
        room: &Room,
        message: RoomMessage,
        prompt: Option<&ShownPrompt>,
    ) -> Result<(), ledger::Fault> {
        self.rooms.say(&room.id, message.clone()).await?;
        if self.hub.is_watched(&room.id) {
            self.hub.show(&room.id, self.update_of(room.instance.as_str(), message, prompt).await);
        }
        Ok(())
    }

    async fn rewrite(
        &self,
        room: &Room,
        message: MessageId,
        text: &str,
        at: Moment,
    ) -> Result<bool, ledger::Fault> {
        let found = self.rooms.rewrite(&room.id, &message, text, at).await?;
        if found && self.hub.is_watched(&room.id) {
            let html = self.renderer.html(room.instance.as_str(), text).await;
            let data = json!({ "message_id": message, "text": text, "html": html, "edited": at.millis() });
            self.hub.show(
                &room.id,
                RoomUpdate { name: "edit", data: data.to_string(), at: Some(at), message: None },
            );
        }
        Ok(found)
    }
}

/// The reason why a message cannot go into the thread that it names.
enum NoThread {
    Unknown,
    Fault(ledger::Fault),
}

/// The message id of an action. If the same action is carried out again, it finds its own message.
pub(super) fn message_of(action: &ActionId) -> MessageId {
    format!("w{}", action.as_str().trim_start_matches("act_")).into()
}

/// The id of the `number`th message that a long one was split into.
pub(super) fn part(first: &MessageId, number: usize) -> MessageId {
    if number == 1 { first.clone() } else { format!("{first}-{number}").into() }
}

/// The outcome of a failed transaction. It stored nothing, so the agent can safely retry; the word `network` makes a
/// stock agent do so (relay contract section 11.4).
pub(super) fn not_written(fault: &ledger::Fault) -> EgressResult {
    tracing::error!(%fault, "the web chat could not store a message");
    Outcome::failed("network: the server could not store the message").into()
}
