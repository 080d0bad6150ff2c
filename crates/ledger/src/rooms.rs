//! Rooms of the built-in web chat and their messages.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, EntryId, InstanceId, InvitationId, MediaId, MessageId, ThreadId};

use crate::Fault;

/// The conversation of one person with one agent on the server's own page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub id: ChatId,
    pub instance: InstanceId,
    /// The invitation that it belongs to. None once that was withdrawn.
    pub invitation: Option<InvitationId>,
    /// Display name of the person. Several people may share it.
    pub person: String,
    pub created: Moment,
}

/// One message in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomMessage {
    pub message: MessageId,
    /// Sent by the agent, not by the person.
    pub by_agent: bool,
    pub text: String,
    pub reply_to: Option<MessageId>,
    pub sent: Moment,
    pub edited: Option<Moment>,
    /// The inbox entry of a person's message.
    pub entry: Option<EntryId>,
    /// Time at which the agent's acknowledgement of that entry was noticed.
    pub delivered: Option<Moment>,
    pub marks: RoomMarks,
    /// Its files, in order.
    pub files: Vec<RoomFile>,
}

impl RoomMessage {
    /// A new message of the agent, in this thread.
    pub fn by_agent(message: MessageId, text: String, thread: Option<ThreadId>, sent: Moment) -> Self {
        Self {
            message,
            by_agent: true,
            text,
            reply_to: None,
            sent,
            edited: None,
            entry: None,
            delivered: None,
            marks: RoomMarks { thread, ..RoomMarks::default() },
            files: Vec::new(),
        }
    }
}

/// What a message has besides its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoomMarks {
    /// The thread that it belongs to. None for the room itself.
    pub thread: Option<ThreadId>,
    /// The emoji with which the agent reacted, oldest first.
    pub reactions: Vec<String>,
    /// Time of the last reaction or press of a button.
    pub touched: Option<Moment>,
}

/// The largest number of reactions to one message. The oldest is removed first.
pub const ROOM_REACTIONS: usize = 4;

/// A file in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoomFile {
    pub media: MediaId,
    pub mime: String,
    pub filename: String,
    pub size: i64,
    /// Its bytes are no longer stored.
    pub expired: bool,
}

/// Number of files that wait in a room for their message. Further ones are refused.
pub const UNSENT_FILES: i64 = 20;

/// Storage limit of the messages in one room. The oldest are deleted first.
pub const ROOM_BYTES: i64 = 32 * 1024 * 1024;

#[async_trait]
pub trait Rooms: Send + Sync {
    /// Finds the room of this invitation with this agent, or creates it under the given id. None when the
    /// invitation no longer exists.
    async fn enter(&self, room: Room) -> Result<Option<Room>, Fault>;
    async fn room(&self, id: &ChatId) -> Result<Option<Room>, Fault>;
    async fn rooms(&self, of: &InstanceId) -> Result<Vec<Room>, Fault>;
    /// Adds a file that waits for its message. False when too many wait already. It is deleted after a day.
    async fn add_file(&self, room: &ChatId, file: RoomFile) -> Result<bool, Fault>;
    /// Those of the files that are in this room and wait for a message, or are already part of this one.
    async fn files_for(
        &self,
        room: &ChatId,
        message: &MessageId,
        media: Vec<MediaId>,
    ) -> Result<Vec<RoomFile>, Fault>;
    /// Whether the file is in this room.
    async fn has_file(&self, room: &ChatId, media: &MediaId) -> Result<bool, Fault>;
    /// Stores a message with its files. The same message id again changes nothing. Past [`ROOM_BYTES`] the oldest messages
    /// are deleted.
    async fn say(&self, room: &ChatId, line: RoomMessage) -> Result<(), Fault>;
    /// Edits a message of the agent. False when the agent has none with that id.
    async fn rewrite(
        &self,
        room: &ChatId,
        message: &MessageId,
        text: &str,
        at: Moment,
    ) -> Result<bool, Fault>;
    /// Adds or removes a reaction of the agent, and returns the reactions that are left. A reaction that is already
    /// there, or not there, changes nothing. None when there is no such message.
    async fn react(
        &self,
        room: &ChatId,
        message: &MessageId,
        emoji: &str,
        remove: bool,
        at: Moment,
    ) -> Result<Option<Vec<String>>, Fault>;
    /// Records that something about a message has changed besides its text.
    async fn touch(&self, room: &ChatId, message: &MessageId, at: Moment) -> Result<(), Fault>;
    async fn message(&self, room: &ChatId, message: &MessageId) -> Result<Option<RoomMessage>, Fault>;
    /// Records that the agent has acknowledged a person's message. False when that is already recorded.
    async fn delivered(&self, room: &ChatId, message: &MessageId, at: Moment) -> Result<bool, Fault>;
    /// The position before the latest messages: as many as have at most `bytes` of text together, and at
    /// least one.
    async fn place_before_latest(&self, room: &ChatId, at_most: u16, bytes: usize) -> Result<i64, Fault>;
    /// Messages after a position, oldest first, that changed at `since` or later: as many as have at most
    /// `bytes` of text together, and at least one. Each comes with its own position.
    async fn messages_after(
        &self,
        room: &ChatId,
        place: i64,
        since: Option<Moment>,
        bytes: usize,
    ) -> Result<Vec<(i64, RoomMessage)>, Fault>;
}
