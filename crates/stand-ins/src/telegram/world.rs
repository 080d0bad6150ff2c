//! State of the platform: bots, their chats, messages and pending updates.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use serde_json::{Map, Value, json, value::RawValue};
use tokio::sync::Notify;

use super::{
    faults::Faults,
    files::Files,
    limits::Windows,
    moment::unix_ms,
    settings::{Settings, StandInBot},
    transcript::{Confirmed, Deliveries, LatestItems, RowKind, TranscriptRow, WebhookAttempt},
    webhook::BotWebhook,
};

/// Larger ids are accepted but not counted on from, because JSON readers lose their exact value.
pub(super) const LARGEST_ID: i64 = 1 << 53;

/// A chat as one bot sees it.
pub(super) struct BotChat {
    /// The `BotChat` object as it appears in messages.
    pub object: Value,
    /// Forum topics by thread id.
    pub topics: BTreeMap<i64, String>,
    /// The business connection over which the person writes, if they do.
    pub business: Option<String>,
    /// The person has written to the bot itself.
    pub is_own: bool,
    last_message: i64,
}

impl BotChat {
    pub fn new(object: Value) -> BotChat {
        BotChat { object, topics: BTreeMap::new(), business: None, is_own: false, last_message: 0 }
    }

    pub fn kind(&self) -> &str {
        self.object["type"].as_str().unwrap_or("private")
    }

    pub fn is_forum(&self) -> bool {
        self.object["is_forum"] == true
    }

    /// Supergroups and channels count their own messages. All other chats share the account's counter.
    fn counts_its_own(&self) -> bool {
        matches!(self.kind(), "supergroup" | "channel")
    }
}

/// A message that can still be edited, replied to, or reacted to.
pub(super) struct ChatMessage {
    pub object: Box<RawValue>,
    /// Whether the bot wrote it.
    pub own: bool,
}

/// The state of one bot.
pub(super) struct BotState {
    pub bot: StandInBot,
    pub chats: HashMap<i64, BotChat>,
    pub messages: HashMap<(i64, i64), ChatMessage>,
    last_message: i64,
    pub next_update: i64,
    /// The last `allowed_updates`. Empty means the platform's default.
    pub allowed: Vec<String>,
    pub pending: BTreeMap<i64, (i64, Bytes)>,
    pub webhook: Option<BotWebhook>,
    /// Grows with every getUpdates, so that an older call notices that it was replaced.
    pub polls: u64,
    pub arrived: Arc<Notify>,
    /// Pressed buttons that are not answered yet.
    pub callbacks: HashSet<String>,
    pub windows: Windows,
}

impl BotState {
    fn new(bot: StandInBot, first_update: i64) -> BotState {
        BotState {
            bot,
            chats: HashMap::new(),
            messages: HashMap::new(),
            last_message: 0,
            next_update: first_update,
            allowed: Vec::new(),
            pending: BTreeMap::new(),
            webhook: None,
            polls: 0,
            arrived: Arc::new(Notify::new()),
            callbacks: HashSet::new(),
            windows: Windows::default(),
        }
    }

    /// The bot as a `User`.
    pub fn user(&self) -> Map<String, Value> {
        let Value::Object(user) = json!({
            "id": self.bot.id,
            "is_bot": true,
            "first_name": self.bot.username,
            "username": self.bot.username,
        }) else {
            unreachable!("an object was just written")
        };
        user
    }

    /// The next message id of a known chat.
    pub fn next_message_id(&mut self, chat: i64) -> i64 {
        let counter = match self.chats.get_mut(&chat) {
            Some(chat) if chat.counts_its_own() => &mut chat.last_message,
            _ => &mut self.last_message,
        };
        *counter += 1;
        *counter
    }

    /// Records an id that the caller chose, so that it is not given out again.
    pub fn saw_message_id(&mut self, chat: i64, id: i64) {
        let counter = match self.chats.get_mut(&chat) {
            Some(chat) if chat.counts_its_own() => &mut chat.last_message,
            _ => &mut self.last_message,
        };
        if id < LARGEST_ID {
            *counter = (*counter).max(id);
        }
    }

    /// Whether the bot wants updates of this kind.
    pub fn allows(&self, kind: &str) -> bool {
        if self.allowed.is_empty() {
            !matches!(kind, "chat_member" | "message_reaction" | "message_reaction_count")
        } else {
            self.allowed.iter().any(|allowed| allowed == kind)
        }
    }
}

/// The complete state of the platform.
pub(super) struct World {
    pub bots: Vec<BotState>,
    by_token: HashMap<String, usize>,
    by_id: HashMap<i64, usize>,
    pub transcript: LatestItems<TranscriptRow>,
    pub refusals: LatestItems<TranscriptRow>,
    attempts: LatestItems<WebhookAttempt>,
    confirmed: LatestItems<Confirmed>,
    confirmed_ever: u64,
    pub faults: Faults,
    pub files: Files,
    last_seq: u64,
}

impl World {
    pub fn new(settings: &Settings) -> World {
        let first_update = settings.first_update_id.unwrap_or_else(unix_ms);
        let rows = settings.transcript_rows;
        let bots: Vec<_> = settings.bots.iter().map(|bot| BotState::new(bot.clone(), first_update)).collect();
        World {
            by_token: bots.iter().enumerate().map(|(at, state)| (state.bot.token.clone(), at)).collect(),
            by_id: bots.iter().enumerate().map(|(at, state)| (state.bot.id, at)).collect(),
            bots,
            transcript: LatestItems::new(rows),
            refusals: LatestItems::new(rows),
            attempts: LatestItems::new(rows),
            confirmed: LatestItems::new(rows),
            confirmed_ever: 0,
            faults: Faults::default(),
            files: Files::default(),
            last_seq: 0,
        }
    }

    pub fn bot_by_token(&self, token: &str) -> Option<usize> {
        self.by_token.get(token).copied()
    }

    pub fn bot_by_id(&self, id: i64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    /// By id in digits, or by username.
    pub fn bot_by_name(&self, name: &str) -> Option<usize> {
        let name = name.trim_start_matches('@');
        name.parse()
            .ok()
            .and_then(|id| self.bot_by_id(id))
            .or_else(|| self.bots.iter().position(|state| state.bot.username.eq_ignore_ascii_case(name)))
    }

    /// Adds a row. A message is deleted together with the row that created it.
    pub fn record(&mut self, mut row: TranscriptRow) {
        self.last_seq += 1;
        row.seq = self.last_seq;
        let Some(gone) = self.transcript.push(row) else { return };
        let made_a_message = matches!(gone.kind, RowKind::Received | RowKind::Sent | RowKind::TopicCreated);
        if let (true, Some(chat), Some(message)) = (made_a_message, gone.chat, gone.message_id)
            && let Some(at) = self.bot_by_id(gone.bot)
        {
            self.bots[at].messages.remove(&(chat, message));
        }
    }

    /// Records a refused call, separately from the transcript.
    pub fn record_refusal(&mut self, mut row: TranscriptRow) {
        self.last_seq += 1;
        row.seq = self.last_seq;
        self.refusals.push(row);
    }

    pub fn record_attempt(&mut self, attempt: WebhookAttempt) {
        self.attempts.push(attempt);
    }

    /// The receiver has taken over this update. Only the first time counts.
    pub fn confirm(&mut self, at: usize, update_id: i64, by: &'static str) {
        if self.bots[at].pending.remove(&update_id).is_some() {
            let bot = self.bots[at].bot.id;
            self.confirmed.push(Confirmed { bot, update_id, at_ms: unix_ms(), by });
            self.confirmed_ever += 1;
        }
    }

    /// Number of updates confirmed since the start or the last reset.
    pub fn confirmed_ever(&self) -> u64 {
        self.confirmed_ever
    }

    pub fn deliveries(&self, bot: Option<i64>) -> Deliveries {
        let wanted = |id: i64| bot.is_none_or(|only| only == id);
        Deliveries {
            attempts: self.attempts.iter().filter(|attempt| wanted(attempt.bot)).cloned().collect(),
            confirmed: self.confirmed.iter().filter(|one| wanted(one.bot)).cloned().collect(),
            pending: self.bots.iter().filter(|one| wanted(one.bot.id)).map(|one| one.pending.len()).sum(),
        }
    }

    /// Deletes everything that happened. Bots, webhooks and the update counter stay.
    pub fn reset(&mut self) {
        self.transcript.clear();
        self.refusals.clear();
        self.attempts.clear();
        self.confirmed.clear();
        self.confirmed_ever = 0;
        self.faults.clear();
        self.files = Files::default();
        for state in &mut self.bots {
            state.chats.clear();
            state.messages.clear();
            state.pending.clear();
            state.callbacks.clear();
            state.windows = Windows::default();
            if let Some(webhook) = &mut state.webhook {
                webhook.forget_waiting();
            }
        }
    }
}
