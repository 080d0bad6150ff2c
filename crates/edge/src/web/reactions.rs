//! Reactions of the agent to messages in a room.

use ledger::Room;
use posthouse_time::Moment;
use posthouse_wire::{MessageId, Outcome};
use serde_json::json;

use super::Web;
use super::hub::RoomUpdate;

impl Web {
    /// Adds or removes a reaction. One that is already there, or not there, is a success.
    pub(super) async fn react(
        &self,
        room: &Room,
        message: &MessageId,
        emoji: &str,
        remove: bool,
        now: Moment,
    ) -> Result<Outcome, ledger::Fault> {
        let _lock = self.locks.lock(&room.id).await;
        let Some(reactions) = self.rooms.react(&room.id, message, emoji, remove, now).await? else {
            return Ok(Outcome::failed("message not found"));
        };
        let data = json!({ "message_id": message, "reactions": reactions }).to_string();
        self.hub.show(&room.id, RoomUpdate { name: "marks", data, at: Some(now), message: None });
        Ok(Outcome::done())
    }
}
