//! Threads in a room. Only the agent creates and names them.

use ledger::{MadeThread, Room};
use posthouse_wire::{ActionId, Outcome, ThreadId};
use serde_json::{Value, json};

use super::hub::RoomUpdate;
use super::{Web, bot_ref};

impl Web {
    /// Creates a thread. The same action again finds its own thread.
    pub(super) async fn create_thread(
        &self,
        room: &Room,
        action: &ActionId,
        name: &str,
    ) -> Result<Outcome, ledger::Fault> {
        let thread = ThreadId::from(format!("t{}", action.as_str().trim_start_matches("act_")));
        self.name_thread(room, &thread, name).await?;
        Ok(Outcome::thread(thread))
    }

    pub(super) async fn rename_thread(
        &self,
        room: &Room,
        thread: &ThreadId,
        name: &str,
    ) -> Result<Outcome, ledger::Fault> {
        if !self.has_thread(room, thread).await? {
            return Ok(Outcome::failed("thread not found"));
        }
        self.name_thread(room, thread, name).await?;
        Ok(Outcome::done())
    }

    /// Stores the name before the page shows it.
    async fn name_thread(&self, room: &Room, thread: &ThreadId, name: &str) -> Result<(), ledger::Fault> {
        let made = MadeThread {
            on: bot_ref(&room.instance),
            chat: room.id.clone(),
            thread: thread.clone(),
            instance: room.instance.clone(),
            name: name.to_owned(),
            renamed: false,
        };
        let data = shown_threads(std::slice::from_ref(&made)).to_string();
        self.threads.made_thread(made).await?;
        self.hub.show(&room.id, RoomUpdate { name: "threads", data, at: None, message: None });
        Ok(())
    }

    pub(super) async fn has_thread(&self, room: &Room, thread: &ThreadId) -> Result<bool, ledger::Fault> {
        Ok(self.threads.thread(&bot_ref(&room.instance), &room.id, thread).await?.is_some())
    }

    /// The names of all threads of a room, as JSON for the page.
    pub(super) async fn threads_of(&self, room: &Room) -> Result<Value, ledger::Fault> {
        let threads = self.threads.threads_in(&bot_ref(&room.instance), &room.id).await?;
        Ok(shown_threads(&threads))
    }
}

fn shown_threads(threads: &[MadeThread]) -> Value {
    threads.iter().map(|thread| json!({ "thread_id": thread.thread, "name": thread.name })).collect()
}
