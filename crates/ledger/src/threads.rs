//! Threads that agents have created through this server. Only these may be renamed without asking for their name.

use async_trait::async_trait;
use posthouse_wire::{ChatId, InstanceId, ThreadId};

use crate::{BotRef, Fault};

/// The largest number of stored threads of one agent. The oldest is forgotten first.
pub const THREADS_OF_AN_AGENT: u32 = 500;

/// A thread that an agent created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeThread {
    pub on: BotRef,
    pub chat: ChatId,
    pub thread: ThreadId,
    pub instance: InstanceId,
    /// The name that the agent gave last.
    pub name: String,
    /// Somebody else has changed the name since.
    pub renamed: bool,
}

#[async_trait]
pub trait Threads: Send + Sync {
    /// Records a thread, or the new name that its agent gave. Past [`THREADS_OF_AN_AGENT`] the oldest of the agent are
    /// forgotten.
    async fn made_thread(&self, thread: MadeThread) -> Result<(), Fault>;
    async fn thread(
        &self,
        on: &BotRef,
        chat: &ChatId,
        thread: &ThreadId,
    ) -> Result<Option<MadeThread>, Fault>;
    /// The threads of a chat, by name.
    async fn threads_in(&self, on: &BotRef, chat: &ChatId) -> Result<Vec<MadeThread>, Fault>;
    /// Records that somebody gave a thread this name. It counts as renamed if the agent gave another one. A thread that
    /// is not stored any more is ignored.
    async fn thread_named(&self, made: &MadeThread, name: &str) -> Result<(), Fault>;
}
