//! Prompts in a room: questions with buttons on the page.

use ledger::{Room, RoomMessage, ShownPrompt};
use posthouse_time::Moment;
use posthouse_wire::{ActionId, MessageId, Outcome, ThreadId};
use serde_json::{Value, json};

use super::Web;
use super::hub::RoomUpdate;
use super::perform::{message_of, part};

impl Web {
    /// Shows a question. The buttons are below its last message. The prompt is stored before the page shows it, so that
    /// no press comes too early.
    pub(super) async fn ask(
        &self,
        room: &Room,
        action: &ActionId,
        prompt: ShownPrompt,
        content: &str,
        (reply_to, thread): (Option<MessageId>, Option<ThreadId>),
        now: Moment,
    ) -> Result<Outcome, ledger::Fault> {
        let first = message_of(action);
        let chunks = self.chunks(room, content).await;
        if chunks.is_empty() {
            return Ok(Outcome::failed("message text is empty"));
        }
        let last = part(&first, chunks.len());
        let prompt = ShownPrompt { message: last.clone(), ..prompt };
        let _lock = self.locks.lock(&room.id).await;
        self.turns.agent_wrote(&room.id, false, self.timepiece.instant());
        self.prompts.show(prompt.clone()).await?;
        for (number, text) in (1..).zip(chunks) {
            let message = part(&first, number);
            let shown = (message == last).then_some(&prompt);
            let room_message = RoomMessage {
                reply_to: reply_to.clone().filter(|_| number == 1),
                ..RoomMessage::by_agent(message, text, thread.clone(), now)
            };
            self.write_with(room, room_message, shown).await?;
        }
        Ok(Outcome::sent(last))
    }

    /// Shows on every page of the room which button was pressed.
    pub(super) async fn show_press(
        &self,
        room: &Room,
        prompt: &ShownPrompt,
        at: Moment,
    ) -> Result<(), ledger::Fault> {
        self.rooms.touch(&room.id, &prompt.message, at).await?;
        let data = json!({ "message_id": prompt.message, "prompt": shown_prompt(prompt) }).to_string();
        self.hub.show(&room.id, RoomUpdate { name: "marks", data, at: Some(at), message: None });
        Ok(())
    }
}

/// The buttons as JSON for the page.
pub(super) fn shown_prompt(prompt: &ShownPrompt) -> Value {
    let options: Vec<Value> =
        prompt.options.iter().map(|(id, label)| json!({ "id": id, "label": label })).collect();
    json!({ "options": options, "pressed": prompt.pressed })
}
