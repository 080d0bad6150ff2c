//! State of Discord: applications, people, servers, messages, gateway sessions.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    buckets::Buckets,
    guilds::{StandInChannel, StandInGuild},
    injection::DiscordPerson,
    interactions::StandInInteraction,
    session::{GatewayConnection, Session},
    settings::{DiscordBot, Settings},
    signing::SigningKey,
};
use crate::harness::Recent;

/// Unix time at which snowflake ids begin.
const EPOCH_MS: i64 = 1_420_070_400_000;
/// The most people that are remembered.
const MOST_PEOPLE: usize = 20_000;

/// State of one application.
pub(super) struct ApplicationState {
    pub settings: DiscordBot,
    pub key: SigningKey,
    pub public_key: String,
    pub interactions_url: Option<String>,
    /// Commands, globally under the empty id and by server.
    pub commands: HashMap<String, Vec<Value>>,
}

/// A file of a message.
pub(super) struct StandInFile {
    pub content: Bytes,
    pub content_type: String,
    /// The signature in the link, which proves that this stand-in issued it.
    pub signature: String,
}

/// The complete state.
pub(super) struct DiscordWorld {
    pub bots: Vec<ApplicationState>,
    people: HashMap<String, Value>,
    pub guilds: BTreeMap<String, StandInGuild>,
    pub channels: HashMap<String, StandInChannel>,
    /// Message objects by id.
    pub messages: Recent<Value>,
    pub files: Recent<StandInFile>,
    /// By token.
    pub interactions: Recent<StandInInteraction>,
    /// Message ids by author and nonce.
    pub nonces: Recent<(i64, String)>,
    pub buckets: Buckets,
    pub sessions: HashMap<String, Session>,
    pub connections: HashMap<u64, GatewayConnection>,
    pub replay_frames: usize,
    last_snowflake: i64,
}

impl DiscordWorld {
    pub fn new(settings: &Settings, now_ms: i64) -> DiscordWorld {
        let bots = settings.bots.iter().map(|bot| {
            let key = SigningKey::new(bot.signing_seed, &bot.id);
            ApplicationState {
                public_key: key.public_key(),
                key,
                interactions_url: bot.interactions_url.clone(),
                commands: HashMap::new(),
                settings: bot.clone(),
            }
        });
        DiscordWorld {
            bots: bots.collect(),
            people: HashMap::new(),
            guilds: BTreeMap::new(),
            channels: HashMap::new(),
            messages: Recent::default(),
            files: Recent::default(),
            interactions: Recent::default(),
            nonces: Recent::default(),
            buckets: Buckets::default(),
            sessions: HashMap::new(),
            connections: HashMap::new(),
            replay_frames: settings.replay_frames,
            last_snowflake: (now_ms - EPOCH_MS) << 22,
        }
    }

    /// A new id. Ids grow with time.
    pub fn snowflake(&mut self, now_ms: i64) -> String {
        self.last_snowflake = ((now_ms - EPOCH_MS) << 22).max(self.last_snowflake + 1);
        self.last_snowflake.to_string()
    }

    pub fn bot(&self, id: &str) -> Option<&ApplicationState> {
        self.bots.iter().find(|bot| bot.settings.id == id)
    }

    pub fn bot_mut(&mut self, id: &str) -> Option<&mut ApplicationState> {
        self.bots.iter_mut().find(|bot| bot.settings.id == id)
    }

    pub fn bot_by_token(&self, token: &str) -> Option<&ApplicationState> {
        self.bots.iter().find(|bot| bot.settings.token == token)
    }

    /// Remembers a person.
    pub fn add_person(&mut self, person: &DiscordPerson) {
        if self.people.len() < MOST_PEOPLE {
            self.people.insert(person.id.clone(), person.object());
        }
    }

    pub fn knows(&self, user: &str) -> bool {
        self.people.contains_key(user) || self.bot(user).is_some()
    }

    /// The user object.
    pub fn user(&self, id: &str) -> Value {
        if let Some(bot) = self.bot(id) {
            return json!({
                "id": id, "username": bot.settings.username, "discriminator": "0", "global_name": null,
                "avatar": null, "bot": true, "public_flags": 0,
            });
        }
        let unknown = || DiscordPerson { id: id.to_owned(), ..DiscordPerson::default() }.object();
        self.people.get(id).cloned().unwrap_or_else(unknown)
    }

    /// The direct message of a bot and a person.
    pub fn direct_message(&mut self, bot: &str, user: &str, id: Option<String>, now_ms: i64) -> String {
        let both = |channel: &&StandInChannel| {
            channel.kind == 1 && [bot, user].iter().all(|one| channel.recipients.iter().any(|id| id == one))
        };
        if let Some(known) = self.channels.values().find(both) {
            return known.id.clone();
        }
        let id = id.unwrap_or_else(|| self.snowflake(now_ms));
        let channel = StandInChannel {
            id: id.clone(),
            kind: 1,
            guild_id: None,
            name: String::new(),
            topic: None,
            parent_id: None,
            owner_id: None,
            overwrites: Vec::new(),
            recipients: vec![bot.to_owned(), user.to_owned()],
            last_message_id: None,
        };
        self.channels.insert(id.clone(), channel);
        id
    }

    /// Deletes messages, people and servers. Applications, their commands and their connections stay.
    pub fn reset(&mut self) {
        self.messages = Recent::default();
        self.files = Recent::default();
        self.interactions = Recent::default();
        self.nonces = Recent::default();
        self.buckets = Buckets::default();
        self.guilds.clear();
        self.channels.clear();
        self.people.clear();
    }
}

/// A time as the API writes it.
pub(super) fn timestamp(at_ms: i64) -> String {
    jiff::Timestamp::from_millisecond(at_ms)
        .unwrap_or_default()
        .strftime("%Y-%m-%dT%H:%M:%S%.6f+00:00")
        .to_string()
}
