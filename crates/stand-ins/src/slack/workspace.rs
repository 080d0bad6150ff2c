//! State of Slack: apps, people, channels, messages, files, tickets.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    events::AppUrls,
    interactions::ResponseUrl,
    settings::{Settings, SlackApp},
    socket::{PendingEnvelope, SlackSocket},
};
use crate::harness::{Recent, SlidingWindow};

/// Messages of one channel that are kept.
const MOST_MESSAGES: usize = 5_000;
/// The most people that are remembered.
const MOST_PEOPLE: usize = 10_000;

/// A channel, group or direct message.
pub(super) struct StandInConversation {
    pub id: String,
    pub team: String,
    pub name: String,
    /// `im`, `mpim`, `channel` or `group`.
    pub kind: String,
    /// Users in it, bots included.
    pub members: Vec<String>,
    pub is_archived: bool,
    /// By `ts`, oldest first.
    pub messages: BTreeMap<String, Value>,
}

impl StandInConversation {
    pub fn object(&self) -> Value {
        let is = |kind: &str| self.kind == kind;
        let mut object = json!({
            "id": self.id, "is_channel": is("channel"), "is_group": is("group"), "is_im": is("im"),
            "is_mpim": is("mpim"), "is_private": !is("channel"), "is_archived": self.is_archived,
            "context_team_id": self.team, "created": 1_700_000_000,
        });
        if is("im") {
            object["user"] = self.members.iter().find(|one| !one.starts_with("UBOT")).cloned().into();
        } else {
            object["name"] = json!(self.name);
            object["name_normalized"] = json!(self.name);
            object["is_member"] = json!(true);
            object["num_members"] = json!(self.members.len());
            object["topic"] = json!({"value": "", "creator": "", "last_set": 0});
            object["purpose"] = object["topic"].clone();
        }
        object
    }

    pub fn store(&mut self, ts: String, message: Value) {
        self.messages.insert(ts, message);
        if self.messages.len() > MOST_MESSAGES {
            self.messages.pop_first();
        }
    }
}

/// A file.
pub(super) struct SharedFile {
    pub name: String,
    pub content: Bytes,
    pub object: Value,
}

/// A trigger: the right to open a form for a person who just acted.
pub(super) struct SlackTrigger {
    pub app: String,
    pub at_ms: i64,
    pub is_used: bool,
}

/// The complete state.
pub(super) struct SlackWorld {
    pub apps: Vec<SlackApp>,
    pub urls: HashMap<String, AppUrls>,
    people: HashMap<String, Value>,
    pub conversations: HashMap<String, StandInConversation>,
    pub files: Recent<SharedFile>,
    pub response_urls: Recent<ResponseUrl>,
    pub triggers: Recent<SlackTrigger>,
    /// Tickets of Socket Mode, with their apps.
    pub tickets: Recent<String>,
    pub sockets: BTreeMap<u64, SlackSocket>,
    pub envelopes: HashMap<String, PendingEnvelope>,
    pub windows: HashMap<String, SlidingWindow>,
    last_ts: i64,
}

impl SlackWorld {
    pub fn new(settings: &Settings) -> SlackWorld {
        SlackWorld {
            apps: settings.apps.clone(),
            urls: HashMap::new(),
            people: HashMap::new(),
            conversations: HashMap::new(),
            files: Recent::default(),
            response_urls: Recent::default(),
            triggers: Recent::default(),
            tickets: Recent::default(),
            sockets: BTreeMap::new(),
            envelopes: HashMap::new(),
            windows: HashMap::new(),
            last_ts: 0,
        }
    }

    pub fn app(&self, id: &str) -> Option<&SlackApp> {
        self.apps.iter().find(|app| app.id == id)
    }

    /// By bot token or app token.
    pub fn app_by_token(&self, token: &str) -> Option<&SlackApp> {
        self.apps.iter().find(|app| app.bot_token == token || app.app_token == token)
    }

    /// The time of a new message, which is also its id: microseconds, never the same twice.
    pub fn next_ts(&mut self, now_ms: i64) -> String {
        self.last_ts = (now_ms * 1000).max(self.last_ts + 1);
        format!("{}.{:06}", self.last_ts / 1_000_000, self.last_ts % 1_000_000)
    }

    /// Remembers a person.
    pub fn add_user(&mut self, user: &str, name: Option<&str>, team: &str) {
        if self.people.len() > MOST_PEOPLE || (name.is_none() && self.people.contains_key(user)) {
            return;
        }
        let name = name.map_or_else(|| format!("person_{}", user.to_lowercase()), str::to_owned);
        let object = json!({
            "id": user, "team_id": team, "name": name, "real_name": name, "deleted": false, "is_bot": false,
            "profile": {"real_name": name, "display_name": name, "team": team},
        });
        self.people.insert(user.to_owned(), object);
    }

    /// The user object of a person or of an app's bot.
    pub fn user(&self, id: &str) -> Option<Value> {
        if let Some(app) = self.apps.iter().find(|app| app.bot_user_id == id) {
            return Some(json!({
                "id": id, "team_id": app.team_id, "name": app.name, "real_name": app.name, "is_bot": true,
                "deleted": false,
                "profile": {"real_name": app.name, "display_name": app.name, "bot_id": app.bot_id, "api_app_id": app.id},
            }));
        }
        self.people.get(id).cloned()
    }

    pub fn name_of(&self, user: &str) -> String {
        self.user(user).and_then(|user| user["name"].as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The direct message of a person and a bot.
    pub fn direct_message(&mut self, app: &SlackApp, user: &str) -> String {
        let id = format!("D{}{}", app.id.trim_start_matches('A'), user.trim_start_matches('U'));
        self.conversation(&id, &app.team_id, "im", &[user.to_owned(), app.bot_user_id.clone()]);
        id
    }

    /// A conversation, created if it does not exist, with these members added.
    pub fn conversation(
        &mut self,
        id: &str,
        team: &str,
        kind: &str,
        members: &[String],
    ) -> &mut StandInConversation {
        let new = || StandInConversation {
            id: id.to_owned(),
            team: team.to_owned(),
            name: format!("channel-{}", id.to_lowercase()),
            kind: kind.to_owned(),
            members: Vec::new(),
            is_archived: false,
            messages: BTreeMap::new(),
        };
        let conversation = self.conversations.entry(id.to_owned()).or_insert_with(new);
        for member in members {
            if !conversation.members.contains(member) {
                conversation.members.push(member.clone());
            }
        }
        conversation
    }

    /// Deletes messages, people and files. Apps, URLs and sockets stay.
    pub fn reset(&mut self) {
        self.people.clear();
        self.conversations.clear();
        self.files = Recent::default();
        self.response_urls = Recent::default();
        self.triggers = Recent::default();
        self.envelopes.clear();
        self.windows.clear();
    }
}
