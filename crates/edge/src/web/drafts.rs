//! Drafts: previews of an answer that is still being written. They are shown and not stored.

use ledger::Room;
use posthouse_time::Moment;
use posthouse_wire::{ActionId, Outcome, ThreadId};
use serde_json::json;

use super::Web;
use super::hub::RoomUpdate;

impl Web {
    /// Shows a preview, or posts the answer if this is the final text. A repeated final returns the message of the
    /// first. The page removes a preview when the agent writes its next message.
    pub(super) async fn draft(
        &self,
        room: &Room,
        action: &ActionId,
        (draft, content, is_final): (i64, &str, bool),
        thread: Option<ThreadId>,
        now: Moment,
    ) -> Result<Outcome, ledger::Fault> {
        if is_final {
            let key = (room.id.clone(), draft);
            if let Some(posted) = self.finals.get(&key) {
                return Ok(Outcome::sent(posted));
            }
            let outcome = self.send(room, action, content, (None, thread), true, now).await?;
            if let Some(message) = &outcome.message_id {
                self.finals.insert(key, message.clone());
            }
            return Ok(outcome);
        }
        self.turns.edited(&room.id, self.timepiece.instant());
        if self.hub.is_watched(&room.id) {
            let html = self.renderer.html(room.instance.as_str(), content).await;
            let data = json!({ "draft_id": draft.to_string(), "text": content, "html": html }).to_string();
            self.hub.show(&room.id, RoomUpdate { name: "draft", data, at: None, message: None });
        }
        Ok(Outcome::done())
    }
}
