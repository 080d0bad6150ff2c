//! The place of a person's message in the room: the message that it replies to, and its thread.

use ledger::{Room, RoomMessage};
use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, MessageId, ThreadId};

use super::Web;
use super::problem::ChatProblem;

/// The longest quote that an agent gets, in characters.
const LONGEST_QUOTE: usize = 4096;

pub(super) struct MessagePlace {
    replied: Option<RoomMessage>,
    pub(super) thread: Option<ThreadId>,
}

impl MessagePlace {
    /// Looks up both in this room. A message that was deleted meanwhile is not quoted. An unknown thread is refused.
    pub(super) async fn find(
        web: &Web,
        room: &Room,
        reply_to: Option<MessageId>,
        thread: Option<ThreadId>,
    ) -> Result<Self, ChatProblem> {
        if let Some(thread) = &thread
            && !web.has_thread(room, thread).await?
        {
            return Err(ChatProblem::unfit("there is no such thread in this room"));
        }
        let replied = match &reply_to {
            Some(message) => web.rooms.message(&room.id, message).await?,
            None => None,
        };
        Ok(Self { replied, thread })
    }

    pub(super) fn reply_to(&self) -> Option<MessageId> {
        self.replied.as_ref().map(|replied| replied.message.clone())
    }

    /// Writes the place into the event for the agent.
    pub(super) fn mark(&self, room: &Room, event: &mut Event) {
        event.source.thread_id = self.thread.clone();
        let Some(replied) = &self.replied else { return };
        event.reply_to_message_id = Some(replied.message.clone());
        event.reply_to = Some(Quoted {
            text: Some(replied.text.chars().take(LONGEST_QUOTE).collect()),
            author: (!replied.by_agent).then(|| room.person.clone()),
            is_own: Some(replied.by_agent),
        });
    }
}
