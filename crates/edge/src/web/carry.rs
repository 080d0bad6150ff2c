//! What agents do in a room: written down first, then shown.

use ledger::{Line, Room};
use posthouse_time::Moment;
use posthouse_wire::{Action, ActionId, ChatInfo, MessageId, Outcome};
use relay::{Carried, Order};

use super::hub::News;
use super::{LIMIT, Web};
use crate::split::{Unit, split};

impl Web {
    pub(super) async fn carry_out(&self, order: Order) -> Carried {
        let Some(chat) = order.action.chat_id() else {
            // The page hands out no capability, so there is never one to redeem.
            return Outcome::failed("nothing to follow up").into();
        };
        let room = match self.rooms.room(chat).await {
            Ok(Some(room)) if room.instance == order.instance => room,
            // Another agent's room looks like no room.
            Ok(_) => return Outcome::failed("chat not found").into(),
            Err(fault) => return not_written(&fault),
        };
        let posted = self.timepiece.now();
        let outcome = match order.action {
            Action::Send { content, reply_to, .. } => {
                self.send(&room, &order.id, &content, reply_to, posted).await
            }
            Action::Edit { message_id, content, .. } => self.edit(&room, &message_id, &content, posted).await,
            Action::Typing { content, .. } => {
                let on = content.as_deref() != Some("");
                self.hub.show(&room.id, News::Typing { on, text: content.filter(|text| !text.is_empty()) });
                Ok(Outcome::done())
            }
            Action::GetChatInfo { .. } => {
                return Outcome::info(ChatInfo { name: room.person, kind: "dm".to_owned() }).into();
            }
            Action::FollowUp { .. } | Action::Unsupported { .. } => {
                return Outcome::failed(format!("unsupported op: {}", order.action.op())).into();
            }
        };
        match outcome {
            Ok(outcome) => Carried { posted: outcome.success.then_some(posted), outcome },
            Err(fault) => not_written(&fault),
        }
    }

    async fn send(
        &self,
        room: &Room,
        action: &ActionId,
        content: &str,
        reply_to: Option<MessageId>,
        now: Moment,
    ) -> Result<Outcome, ledger::Fault> {
        let first = message_of(action);
        let chunks = split(content, LIMIT, Unit::Chars);
        if chunks.is_empty() {
            return Ok(Outcome::failed("message text is empty"));
        }
        let _pen = self.hub.pen(&room.id).await;
        for (number, text) in (1..).zip(chunks) {
            let line = Line {
                message: part(&first, number),
                by_agent: true,
                text,
                reply_to: reply_to.clone().filter(|_| number == 1),
                said: now,
                edited: None,
            };
            self.write(room, line).await?;
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
        let chunks = split(content, LIMIT, Unit::Chars);
        if chunks.is_empty() {
            return Ok(Outcome::failed("message text is empty"));
        }
        let _pen = self.hub.pen(&room.id).await;
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
            // It outgrew one message: the rest follows in lines of its own.
            let line = Line { message: piece, by_agent: true, text, reply_to: None, said: now, edited: None };
            self.write(room, line).await?;
        }
        // And when it shrinks again, what had followed is emptied; the page shows no empty line.
        loop {
            number += 1;
            if !self.rewrite(room, part(message, number), "", now).await? {
                return Ok(Outcome::sent(message.clone()));
            }
        }
    }

    /// Writes a line down and shows it. The caller holds the room's pen.
    pub(super) async fn write(&self, room: &Room, line: Line) -> Result<(), ledger::Fault> {
        self.rooms.say(&room.id, line.clone()).await?;
        self.hub.show(&room.id, News::Line(line));
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
        if found {
            self.hub.show(&room.id, News::Edit { message, text: text.to_owned(), at });
        }
        Ok(found)
    }
}

/// The message that an action makes. The same action carried again meets its own line.
fn message_of(action: &ActionId) -> MessageId {
    format!("w{}", action.as_str().trim_start_matches("act_")).into()
}

/// The name of the `number`th message that a long one was split into.
fn part(first: &MessageId, number: usize) -> MessageId {
    if number == 1 { first.clone() } else { format!("{first}-{number}").into() }
}

/// A transaction that failed wrote nothing, so the agent may safely try again; the word `network` is what
/// makes a stock one do so (relay contract section 11.4).
fn not_written(fault: &ledger::Fault) -> Carried {
    tracing::error!(%fault, "the web chat could not write a message down");
    Outcome::failed("network: the house could not write the message down").into()
}
