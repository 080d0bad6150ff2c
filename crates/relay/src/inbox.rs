//! Keep until acknowledged.

use std::time::Duration;

use bytes::Bytes;
use ledger::{Acknowledgement, Append, Appended, Entry, Identity, RouteTo, Sighting, Unread};
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, session_key};

use crate::desk::Desk;
use crate::gate::{Admission, Entrant};
use crate::{Fault, Relay};

/// How long a count of an inbox is believed before something is dropped from it.
const RECOUNT: Duration = Duration::from_secs(60);

impl Relay {
    /// Lets an event in and keeps it. When this resolves it survives power loss.
    pub async fn admit(&self, to: &RouteTo, on: &Identity, entrant: Entrant) -> Result<Admission, Fault> {
        if let Some(reason) = entrant.refusal() {
            return Ok(Admission::Refused(reason));
        }
        let Entrant { event, id, dedup, references, accepted, receipt, .. } = entrant;
        let chat = event.source.chat_id.clone().unwrap_or_else(|| ChatId::new(""));
        let sighted = (to.instance.clone(), chat.clone());
        let print = fingerprint(on, &event);
        let fresh = self.0.sighted.get(&sighted) != Some(print);
        let appended = self
            .0
            .inbox
            .append(Append {
                id,
                to: to.instance.clone(),
                platform: on.platform.clone(),
                bot: on.bot.clone(),
                chat,
                message: event.message_id.clone(),
                dedup,
                event: Bytes::from(
                    serde_json::to_vec(&event).expect("an event holds only texts and numbers"),
                ),
                references,
                accepted,
                sighting: fresh.then(|| Sighting {
                    scope: event.source.scope_id.clone(),
                    session_keys: session_key::plausible(&event.source),
                }),
                receipt,
            })
            .await?;
        if fresh {
            self.0.sighted.insert(sighted, print);
        }
        if matches!(appended, Appended::Kept(_)) {
            self.0.metrics.entries_kept.inc();
            self.make_room(&to.instance).await?;
        }
        Ok(Admission::Kept(appended))
    }

    /// Hears of every committed entry, on the ledger's writer thread.
    pub(crate) fn appended(&self, entry: &Entry) {
        let desk = self.desk(&entry.instance);
        let taken = desk.state.lock().appended(entry);
        if !taken {
            self.0.rouse.note(&entry.instance);
        }
    }

    /// Entries the agent took. Ends our responsibility for them once committed.
    pub(crate) async fn acknowledge(&self, desk: &Desk, taken: Vec<Acknowledgement>) -> Result<(), Fault> {
        let entries: Vec<EntryId> = taken.iter().map(|taken| taken.entry.clone()).collect();
        let gone = self.0.inbox.acknowledge(&desk.instance, taken).await?;
        self.0.taken.tell(&entries);
        self.0.metrics.entries_acknowledged.inc_by(gone.entries.unsigned_abs());
        desk.state.lock().forgotten(gone);
        Ok(())
    }

    /// Puts a dead letter back in line and has it delivered if its agent is there.
    pub async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault> {
        let instance = self.0.inbox.redrive(entry).await?;
        if let Some(instance) = &instance {
            self.rewind(instance);
        }
        Ok(instance)
    }

    /// Has the live socket look again from the very first unread entry.
    pub(crate) fn rewind(&self, instance: &InstanceId) {
        let desk = self.desk(instance);
        let mut state = desk.state.lock();
        state.behind = true;
        state.rewound = true;
        // What was counted did not include it.
        state.unread = None;
        match state.live().filter(|_| !state.idle) {
            Some(live) => live.look(),
            None => self.0.rouse.note(instance),
        }
    }

    /// Takes an entry back that nobody needs any more, from an agent that is not here. One that is may have it
    /// in its hands already, and keeps it.
    pub async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<bool, Fault> {
        if self.presence(of).connected {
            return Ok(false);
        }
        let gone = self.0.inbox.recall(of, entry).await?;
        self.desk(of).state.lock().forgotten(gone);
        Ok(gone.entries > 0)
    }

    /// An inbox holds so much and no more; the oldest go first, and are counted.
    async fn make_room(&self, of: &InstanceId) -> Result<(), Fault> {
        let desk = self.desk(of);
        let Some(surplus) = self.surplus(&desk).await? else { return Ok(()) };
        let dropped = self.0.inbox.drop_oldest(of, surplus).await;
        let mut state = desk.state.lock();
        state.making_room = false;
        let gone = dropped?;
        state.forgotten(gone);
        if gone.entries > 0 {
            self.0.metrics.entries_dropped.inc_by(gone.entries.unsigned_abs());
            tracing::warn!(instance.id = %of, entries = gone.entries, "an inbox was full: its oldest entries were dropped");
        }
        Ok(())
    }

    /// What is too much, for the one caller that shall drop it; nothing while there is room or while
    /// another does.
    async fn surplus(&self, desk: &Desk) -> Result<Option<Unread>, Fault> {
        let most = Unread { entries: self.0.config.inbox_entries, bytes: self.0.config.inbox_bytes };
        let over = |held: Unread| Unread {
            entries: (held.entries - most.entries).max(0),
            bytes: (held.bytes - most.bytes).max(0),
        };
        let now = self.0.timepiece.now();
        {
            let mut state = desk.state.lock();
            if let Some(held) = state.unread {
                if over(held) == Unread::default() || state.making_room {
                    return Ok(None);
                }
                if now < state.counted + RECOUNT {
                    state.making_room = true;
                    return Ok(Some(over(held)));
                }
            }
        }
        // Counted for the first time, or again: dead letters and lapsed entries leave without a word, and
        // nothing may be dropped on the strength of an old count.
        let counted = self.0.inbox.size(&desk.instance).await?;
        let mut state = desk.state.lock();
        state.unread = Some(counted);
        state.counted = now;
        if over(counted) == Unread::default() || state.making_room {
            return Ok(None);
        }
        state.making_room = true;
        Ok(Some(over(counted)))
    }
}

/// Tells one conversation from another cheaply; a collision costs a stale sighting for a minute.
fn fingerprint(on: &Identity, event: &Event) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let source = &event.source;
    let mut hasher = DefaultHasher::new();
    (on, &source.chat_type, &source.thread_id, &source.user_id, &source.user_id_alt, &source.scope_id)
        .hash(&mut hasher);
    (&source.profile, &source.prospective_thread_id).hash(&mut hasher);
    hasher.finish()
}
