//! Gateway sessions: which events a bot gets, and the frames kept for a client that resumes.

use std::{collections::VecDeque, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{DiscordPlatform, world::DiscordWorld};

pub(super) const GUILDS: u64 = 1 << 0;
pub(super) const GUILD_MEMBERS: u64 = 1 << 1;
pub(super) const GUILD_PRESENCES: u64 = 1 << 8;
const GUILD_MESSAGES: u64 = 1 << 9;
const GUILD_MESSAGE_REACTIONS: u64 = 1 << 10;
const GUILD_MESSAGE_TYPING: u64 = 1 << 11;
const DIRECT_MESSAGES: u64 = 1 << 12;
const DIRECT_MESSAGE_REACTIONS: u64 = 1 << 13;
const DIRECT_MESSAGE_TYPING: u64 = 1 << 14;
pub(super) const MESSAGE_CONTENT: u64 = 1 << 15;

/// The most sessions of all bots that are kept for a client that resumes.
const MOST_SESSIONS: usize = 256;
/// The most orders that wait for one connection.
const MOST_ORDERS: usize = 64;

/// An order for the gateway: what it does to a connection.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum SocketOrder {
    /// Asks the client to reconnect and resume (op 7).
    Reconnect,
    /// Declares the session invalid (op 9).
    InvalidSession {
        /// Whether the client may resume.
        resumable: bool,
    },
    /// Closes with this code.
    Close {
        /// For example 4000, or 4014.
        code: u16,
    },
    /// Ends the connection without a close frame.
    Cut,
    /// Acknowledges no heartbeat from now on.
    Mute,
    /// Asks for a heartbeat at once (op 1).
    RequestHeartbeat,
    /// Sends this frame.
    Send {
        /// The frame.
        frame: Value,
    },
    /// Adds an event that cannot be read to the session, so that every resume sends it again.
    Garble,
    /// Sends an event with a text of this size.
    Flood {
        /// Size.
        mebibytes: usize,
    },
}

/// A gateway session, for tests.
#[derive(Clone, Debug, Serialize)]
pub struct GatewaySession {
    /// The application.
    pub application: String,
    /// Number of this shard, and of all shards.
    pub shard: (u64, u64),
    /// Intents that the client asked for.
    pub intents: u64,
    /// Number of the last event.
    pub seq: u64,
    /// Whether a client is connected to it.
    pub connected: bool,
    /// Number of heartbeats that came over all its connections.
    pub heartbeats: u64,
}

/// State of a session.
pub(super) struct Session {
    pub bot: String,
    pub intents: u64,
    pub shard: (u64, u64),
    pub seq: u64,
    pub frames: VecDeque<(u64, Arc<str>)>,
    pub connection: Option<u64>,
    pub started: u64,
    pub heartbeats: u64,
}

/// A connected client.
#[derive(Default)]
pub(super) struct GatewayConnection {
    pub session: Option<String>,
    pub orders: VecDeque<SocketOrder>,
    pub wake: Arc<Notify>,
}

impl Session {
    /// Adds an event and returns its number.
    pub fn push(&mut self, event: &str, payload: &Value, keep: usize) -> u64 {
        self.seq += 1;
        let frame = json!({"op": 0, "s": self.seq, "t": event, "d": payload}).to_string();
        self.frames.push_back((self.seq, frame.into()));
        if self.frames.len() > keep.max(1) {
            self.frames.pop_front();
        }
        self.seq
    }

    fn wants(&self, event: &str, guild: Option<&str>) -> bool {
        let in_guild = guild.is_some();
        let needed = match event {
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" if in_guild => GUILD_MESSAGES,
            "MESSAGE_CREATE" | "MESSAGE_UPDATE" | "MESSAGE_DELETE" => DIRECT_MESSAGES,
            "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" if in_guild => GUILD_MESSAGE_REACTIONS,
            "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" => DIRECT_MESSAGE_REACTIONS,
            "TYPING_START" if in_guild => GUILD_MESSAGE_TYPING,
            "TYPING_START" => DIRECT_MESSAGE_TYPING,
            event if event.starts_with("GUILD_MEMBER_") => GUILD_MEMBERS,
            "INTERACTION_CREATE" => 0,
            event if ["GUILD_", "CHANNEL_", "THREAD_"].iter().any(|start| event.starts_with(start)) => GUILDS,
            _ => 0,
        };
        let (number, of) = self.shard;
        let shard = guild.and_then(|id| id.parse::<u64>().ok()).map_or(0, |id| (id >> 22) % of.max(1));
        self.intents & needed == needed && shard == number
    }
}

impl DiscordWorld {
    /// Sends an event to the sessions of a bot that want it. Returns their number.
    pub(super) fn dispatch(&mut self, bot: &str, event: &str, guild: Option<&str>, payload: &Value) -> usize {
        let keep = self.replay_frames;
        let mut sent = 0;
        for session in self.sessions.values_mut() {
            if session.bot != bot || !session.wants(event, guild) {
                continue;
            }
            let hides = session.intents & MESSAGE_CONTENT == 0 && guild.is_some();
            if hides && event.starts_with("MESSAGE_") {
                session.push(event, &without_content(payload, bot), keep);
            } else {
                session.push(event, payload, keep);
            }
            sent += 1;
            if let Some(connection) = session.connection.and_then(|id| self.connections.get(&id)) {
                connection.wake.notify_one();
            }
        }
        sent
    }

    /// Stores a new session. The oldest one without a client makes room.
    pub(super) fn add_session(&mut self, id: String, session: Session) {
        if self.sessions.len() >= MOST_SESSIONS {
            let idle = self.sessions.iter().filter(|(_, one)| one.connection.is_none());
            if let Some(oldest) = idle.min_by_key(|(_, one)| one.started).map(|(id, _)| id.clone()) {
                self.sessions.remove(&oldest);
            }
        }
        self.sessions.insert(id, session);
    }

    pub(super) fn sessions(&self) -> Vec<GatewaySession> {
        let mut sessions: Vec<&Session> = self.sessions.values().collect();
        sessions.sort_by_key(|session| session.started);
        let describe = |session: &Session| GatewaySession {
            application: session.bot.clone(),
            shard: session.shard,
            intents: session.intents,
            seq: session.seq,
            connected: session.connection.is_some(),
            heartbeats: session.heartbeats,
        };
        sessions.into_iter().map(describe).collect()
    }
}

/// The message as a bot without the intent MESSAGE_CONTENT gets it, if the message does not mention the bot.
fn without_content(message: &Value, bot: &str) -> Value {
    let mentions = message["mentions"].as_array();
    let concerns = message["author"]["id"] == bot
        || mentions.is_some_and(|mentions| mentions.iter().any(|user| user["id"] == bot));
    let mut seen = message.clone();
    if !concerns && message.get("content").is_some() {
        seen["content"] = json!("");
        for list in ["attachments", "embeds", "components"] {
            seen[list] = json!([]);
        }
    }
    seen
}

impl DiscordPlatform {
    /// Carries out an order on the connections of one application or of all. Returns the number of connections.
    pub(super) fn order(&self, application: Option<&str>, order: &SocketOrder) -> usize {
        let mut world = self.world.lock();
        let world = &mut *world;
        let mut reached = 0;
        for session in world.sessions.values() {
            if application.is_some_and(|only| only != session.bot) {
                continue;
            }
            let Some(connection) = session.connection.and_then(|id| world.connections.get_mut(&id)) else {
                continue;
            };
            if connection.orders.len() < MOST_ORDERS {
                connection.orders.push_back(order.clone());
                connection.wake.notify_one();
                reached += 1;
            }
        }
        reached
    }
}
