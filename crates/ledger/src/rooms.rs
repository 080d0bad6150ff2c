//! The built-in web chat's rooms and what was said in them.

use async_trait::async_trait;
use posthouse_time::Moment;
use posthouse_wire::{ChatId, InstanceId, MessageId};

use crate::Fault;

/// One person's conversation with one agent, on the house's own page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    pub id: ChatId,
    pub instance: InstanceId,
    pub person: String,
    pub created: Moment,
}

/// One thing said in a room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub message: MessageId,
    /// Said by the agent, not by the person.
    pub by_agent: bool,
    pub text: String,
    pub reply_to: Option<MessageId>,
    pub said: Moment,
    pub edited: Option<Moment>,
}

/// A link that lets one person in from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invite {
    /// SHA-256 of the link's token, hex.
    pub hash: String,
    pub person: String,
    pub created: Moment,
}

#[async_trait]
pub trait Rooms: Send + Sync {
    /// Finds the room of this person with this agent, or makes it under the given id.
    async fn enter(&self, room: Room) -> Result<Room, Fault>;
    async fn room(&self, id: &ChatId) -> Result<Option<Room>, Fault>;
    async fn rooms(&self, of: &InstanceId) -> Result<Vec<Room>, Fault>;
    /// Writes a line down. The same message id again changes nothing.
    async fn say(&self, room: &ChatId, line: Line) -> Result<(), Fault>;
    /// Rewrites the agent's own line; false when there is none of that id.
    async fn rewrite(
        &self,
        room: &ChatId,
        message: &MessageId,
        text: &str,
        at: Moment,
    ) -> Result<bool, Fault>;
    /// The latest lines, oldest first.
    async fn history(&self, room: &ChatId, at_most: u16) -> Result<Vec<Line>, Fault>;

    async fn invite(&self, invite: Invite) -> Result<(), Fault>;
    async fn invited(&self, hash: &str) -> Result<Option<Invite>, Fault>;
    async fn invites(&self) -> Result<Vec<Invite>, Fault>;
    async fn withdraw_invite(&self, person: &str) -> Result<bool, Fault>;
}
