//! State of Feishu: apps, tokens, people, chats, messages, files, cards.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde_json::{Value, json};

use super::settings::{FeishuApp, Settings};
use super::socket::FeishuSocket;
use crate::harness::{Recent, SlidingWindow};

/// A chat.
pub(super) struct StandInChat {
    pub name: String,
    pub is_direct: bool,
    /// Apps whose bots are in it.
    pub apps: Vec<String>,
    /// People who have written in it, by user id.
    pub members: Vec<String>,
}

/// A message of a person or a bot.
pub(super) struct StandInMessage {
    pub chat: String,
    pub thread: Option<String>,
    pub root: Option<String>,
    pub parent: Option<String>,
    pub kind: String,
    pub content: String,
    /// The app that sent it. `None`: a person.
    pub app: Option<String>,
    pub edits: u32,
    pub is_recalled: bool,
}

impl StandInMessage {
    pub fn object(&self, id: &str) -> Value {
        let mut object = json!({
            "message_id": id, "chat_id": self.chat, "msg_type": self.kind, "deleted": self.is_recalled,
            "updated": self.edits > 0, "body": {"content": self.content},
        });
        for (name, value) in
            [("thread_id", &self.thread), ("root_id", &self.root), ("parent_id", &self.parent)]
        {
            if let Some(value) = value {
                object[name] = json!(value);
            }
        }
        object
    }
}

/// A card entity.
pub(super) struct StandInCard {
    pub app: String,
    pub card: Value,
    pub sequence: i64,
    pub message: Option<String>,
}

/// The token of a press.
pub(super) struct StandInCardToken {
    pub app: String,
    pub message: String,
    pub at_ms: i64,
    pub uses: u32,
}

/// A file, uploaded by a bot or sent by a person.
pub(super) struct StandInResource {
    pub mime: String,
    pub content: Bytes,
}

pub(super) struct StandInReaction {
    pub id: String,
    pub message: String,
    pub emoji: String,
    pub app: String,
}

/// The complete state.
pub(super) struct FeishuWorld {
    pub apps: Vec<FeishuApp>,
    /// Access tokens, with their app and end.
    pub tokens: Recent<(String, i64)>,
    /// Names by `open_id`.
    pub people: Recent<String>,
    pub chats: Recent<StandInChat>,
    pub messages: Recent<StandInMessage>,
    pub cards: Recent<StandInCard>,
    pub card_tokens: Recent<StandInCardToken>,
    pub resources: Recent<StandInResource>,
    pub reactions: Recent<StandInReaction>,
    /// Messages by idempotency key.
    pub uuids: Recent<String>,
    pub windows: HashMap<String, SlidingWindow>,
    /// Addresses of events.
    pub urls: HashMap<String, String>,
    pub tickets: Recent<String>,
    pub sockets: BTreeMap<u64, FeishuSocket>,
}

impl FeishuWorld {
    pub fn new(settings: &Settings) -> FeishuWorld {
        FeishuWorld {
            apps: settings.apps.clone(),
            tokens: Recent::default(),
            people: Recent::default(),
            chats: Recent::default(),
            messages: Recent::default(),
            cards: Recent::default(),
            card_tokens: Recent::default(),
            resources: Recent::default(),
            reactions: Recent::default(),
            uuids: Recent::default(),
            windows: HashMap::new(),
            urls: HashMap::new(),
            tickets: Recent::default(),
            sockets: BTreeMap::new(),
        }
    }

    /// Deletes what was said. Apps, tokens, addresses and sockets stay.
    pub fn reset(&mut self) {
        self.people = Recent::default();
        self.chats = Recent::default();
        self.messages = Recent::default();
        self.cards = Recent::default();
        self.card_tokens = Recent::default();
        self.resources = Recent::default();
        self.reactions = Recent::default();
        self.uuids = Recent::default();
        self.windows.clear();
    }

    pub fn app(&self, id: &str) -> Option<&FeishuApp> {
        self.apps.iter().find(|app| app.id == id)
    }

    /// The app of an access token.
    pub fn app_of_token(&self, token: &str, now_ms: i64) -> Option<&FeishuApp> {
        let (app, until) = self.tokens.get(token)?;
        self.app(app).filter(|_| *until > now_ms)
    }

    /// The chat of an action of a bot, if the bot is in it.
    pub fn is_in(&self, app: &str, chat: &str) -> bool {
        self.chats.get(chat).is_some_and(|chat| chat.apps.iter().any(|member| member == app))
    }
}
