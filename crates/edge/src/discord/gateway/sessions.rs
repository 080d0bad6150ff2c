//! Sessions of the shards: where each continues after a lost connection or a restart of the server.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex as AsyncMutex;

use crate::bots::OpenedBot;
use crate::event_feed::EventFeed;
use crate::intake::Intake;

/// A session that can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ShardSession {
    pub id: String,
    /// The address at which it is resumed.
    pub url: String,
    /// The last event that is stored.
    pub seq: u64,
}

/// The position of a feed, as it is saved.
#[derive(Default, Serialize, Deserialize)]
struct SavedShardSessions {
    shards: u32,
    sessions: BTreeMap<u32, ShardSession>,
}

/// The sessions of all shards of one feed.
pub(super) struct ShardSessions<'a> {
    bot: Arc<OpenedBot>,
    intake: Intake,
    current: Mutex<SavedShardSessions>,
    feed: AsyncMutex<&'a mut EventFeed>,
}

impl<'a> ShardSessions<'a> {
    /// The saved sessions, if they belong to the same number of shards.
    pub fn open(feed: &'a mut EventFeed, shards: u32) -> Self {
        let saved = feed.cursor().and_then(|cursor| serde_json::from_str::<SavedShardSessions>(cursor).ok());
        let current = saved.filter(|saved| saved.shards == shards);
        let current =
            current.unwrap_or_else(|| SavedShardSessions { shards, ..SavedShardSessions::default() });
        let (bot, intake) = (Arc::clone(&feed.bot), feed.intake.clone());
        Self { bot, intake, current: Mutex::new(current), feed: AsyncMutex::new(feed) }
    }

    pub fn bot(&self) -> &Arc<OpenedBot> {
        &self.bot
    }

    pub fn intake(&self) -> &Intake {
        &self.intake
    }

    pub fn session(&self, shard: u32) -> Option<ShardSession> {
        self.current.lock().sessions.get(&shard).cloned()
    }

    pub fn all_known(&self) -> bool {
        let current = self.current.lock();
        current.sessions.len() as u32 == current.shards
    }

    /// A new session, which begins with the event `seq`.
    pub async fn begin(&self, shard: u32, session: ShardSession) {
        self.current.lock().sessions.insert(shard, session);
        self.works().await;
        self.save().await;
    }

    /// Notes that the events up to this one are stored.
    pub fn stored(&self, shard: u32, seq: u64) {
        if let Some(session) = self.current.lock().sessions.get_mut(&shard) {
            session.seq = session.seq.max(seq);
        }
    }

    pub fn forget(&self, shard: u32) {
        self.current.lock().sessions.remove(&shard);
    }

    pub fn forget_all(&self) {
        self.current.lock().sessions.clear();
    }

    pub async fn works(&self) {
        self.feed.lock().await.works();
    }

    /// Saves the sessions. After a crash Discord sends later events again, and they are recognised as repeats.
    pub async fn save(&self) {
        let written = serde_json::to_string(&*self.current.lock()).expect("it has only texts and numbers");
        if let Err(fault) = self.feed.lock().await.save_cursor(Some(written)).await {
            tracing::error!(%fault, bot.id = %self.bot.id, "could not save the position of a gateway session");
        }
    }
}
