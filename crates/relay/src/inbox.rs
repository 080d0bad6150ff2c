//! Inboxes: storing events until the agent acknowledges them, dead letters, recall.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use identity::{Admitted, RosterView};
use ledger::{Append, Appended, BotRef, Entry, Inbox, InboxLimits, Sighting};
use moka::sync::Cache;
use posthouse_time::Timepiece;
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, session_key};

use crate::admission::{Admission, NewEntry};
use crate::connections::Connections;
use crate::full_inboxes::FullInboxes;
use crate::stop_command::Stops;
use crate::wake_calls::WakeCalls;
use crate::{Fault, MediaStore, Metrics};

/// The stored messages of all agents.
pub struct Inboxes {
    records: Arc<dyn Inbox>,
    roster: RosterView,
    connections: Arc<Connections>,
    wake_calls: Arc<WakeCalls>,
    stops: Arc<Stops>,
    media: MediaStore,
    limits: InboxLimits,
    /// Conversations recorded recently, with a fingerprint of the identity they were last seen under.
    sighted: Cache<(InstanceId, ChatId), u64>,
    full_inboxes: FullInboxes,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

/// Dependencies of the inboxes.
pub(crate) struct InboxParts {
    pub records: Arc<dyn Inbox>,
    pub roster: RosterView,
    pub connections: Arc<Connections>,
    pub wake_calls: Arc<WakeCalls>,
    pub stops: Arc<Stops>,
    pub media: MediaStore,
    pub limits: InboxLimits,
    pub metrics: Arc<Metrics>,
    pub timepiece: Timepiece,
}

impl Inboxes {
    pub(crate) fn new(parts: InboxParts) -> Self {
        let InboxParts { records, roster, connections, wake_calls, stops, media, limits, metrics, timepiece } =
            parts;
        Self {
            sighted: Cache::builder().max_capacity(100_000).time_to_live(Duration::from_secs(60)).build(),
            full_inboxes: FullInboxes::default(),
            records,
            roster,
            connections,
            wake_calls,
            stops,
            media,
            limits,
            metrics,
            timepiece,
        }
    }

    /// The verbs of the ledger.
    pub fn records(&self) -> &Arc<dyn Inbox> {
        &self.records
    }

    /// Follows the commits of entries: each is queued for the agent's live socket, or the agent is woken.
    pub(crate) fn follow_commits(&self) {
        let (connections, wake_calls) = (Arc::downgrade(&self.connections), Arc::downgrade(&self.wake_calls));
        // The ledger calls this from its writer thread in commit order, which is the order of the inbox.
        self.records.follow(Arc::new(move |entry: &Entry| {
            if let (Some(connections), Some(wake_calls)) = (connections.upgrade(), wake_calls.upgrade())
                && !connections.appended(entry)
            {
                wake_calls.note(&entry.instance);
            }
        }));
    }

    /// Stores an event that the gate has admitted. When this resolves, the entry survives a power loss.
    pub async fn admit(&self, admitted: &Admitted, new_entry: NewEntry) -> Result<Admission, Fault> {
        if new_entry.event.deliverable().is_err() {
            return Ok(Admission::Undeliverable);
        }
        let (to, on) = (admitted.to(), admitted.on());
        let stopping = self.stops.recognize(to, on, &new_entry);
        let sender = new_entry.sender();
        let NewEntry { mut event, id, dedup, references, album, forward, accepted, receipt, stale, .. } =
            new_entry;
        let forward = forward.and_then(|forward| written_forward(&forward));
        if !references.is_empty() {
            self.media.name_attachments(&mut event, references.len());
        }
        let chat = event.source.chat_id.clone().unwrap_or_else(|| ChatId::new(""));
        let sighted = (to.instance.clone(), chat.clone());
        let print = fingerprint(self.roster.bot_version(on), on, &event);
        let fresh = self.sighted.get(&sighted) != Some(print);
        let appended = self
            .records
            .append(Append {
                id: stopping.as_ref().map(|stopping| stopping.entry.clone()).or(id),
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
                album,
                forward,
                accepted,
                sighting: fresh.then(|| Sighting {
                    scope: event.source.scope_id.clone(),
                    session_keys: session_key::plausible(&event.source),
                }),
                receipt,
                sender,
                limits: self.limits,
                stale,
            })
            .await?;
        Ok(match appended {
            Appended::Kept(entry) => {
                // A repeated event writes no sighting, so the cache is updated only for a new entry.
                if fresh {
                    self.sighted.insert(sighted, print);
                }
                if let Some(stopping) = stopping {
                    self.stops.interrupt_turn(stopping);
                }
                self.metrics.entries_kept.inc();
                Admission::Kept(entry)
            }
            Appended::Known(entry) => Admission::Known(entry),
            Appended::Refused(full) => {
                if let Some(stopping) = stopping {
                    self.stops.interrupt_unkept(stopping);
                }
                self.metrics.entries_refused(full);
                self.full_inboxes.refused(&to.instance, self.timepiece.instant());
                Admission::Full(full)
            }
        })
    }

    /// Puts a dead letter back into the queue and delivers it if its agent is connected.
    pub async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault> {
        let instance = self.records.redrive(entry).await?;
        if let Some(instance) = &instance {
            self.rewind(instance);
        }
        Ok(instance)
    }

    /// Delivers entries that were put back into the queue, or wakes the agent for them.
    pub(crate) fn rewind(&self, instance: &InstanceId) {
        if !self.connections.rewind(instance) {
            self.wake_calls.note(instance);
        }
    }

    /// Removes an entry that nobody needs any more from the inbox of a disconnected agent. A connected agent may have
    /// got it already, so nothing is removed then.
    pub async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<bool, Fault> {
        if self.connections.presence(of).connected {
            return Ok(false);
        }
        let gone = self.records.recall(of, entry).await?;
        Ok(gone.entries > 0)
    }
}

/// The longest forward, in bytes. Of a longer one only the event is stored.
const LONGEST_FORWARD: usize = 256 * 1024;

fn written_forward(forward: &Forward) -> Option<Bytes> {
    let written = serde_json::to_vec(forward).expect("a forward holds only texts");
    (written.len() <= LONGEST_FORWARD).then(|| Bytes::from(written))
}

/// Cheap hash of a conversation. A collision costs a stale sighting for a minute. The bot's version is part of it,
/// because the record of a conversation is deleted with its route.
fn fingerprint(version: u64, on: &BotRef, event: &Event) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let source = &event.source;
    let mut hasher = DefaultHasher::new();
    (
        version,
        on,
        &source.chat_type,
        &source.thread_id,
        &source.user_id,
        &source.user_id_alt,
        &source.scope_id,
    )
        .hash(&mut hasher);
    (&source.profile, &source.prospective_thread_id).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use identity::Gate;
    use ledger::LimitReached;
    use posthouse_wire::Source;

    use super::*;
    use crate::acknowledgements::Acknowledgements;
    use crate::media::MediaParts;
    use crate::tests::{Records, bot_of};
    use crate::{NewEntry, StopRule};

    fn inboxes(records: &Records, connections: &Arc<Connections>, entries: i64) -> Inboxes {
        let (inbox, ledger) = (records.ledger.inbox(), &records.ledger);
        let acknowledgements =
            Arc::new(Acknowledgements::new(Arc::clone(&inbox), Arc::default(), records.clock.clone()));
        let media = MediaParts {
            records: ledger.media(),
            usage: ledger.usage(),
            folder: "never-written".into(),
            public_url: "https://server.example".to_owned(),
        };
        Inboxes::new(InboxParts {
            records: inbox,
            roster: records.identity.roster.clone(),
            connections: Arc::clone(connections),
            wake_calls: records.wake_calls(connections),
            stops: Arc::new(Stops::new(Arc::clone(connections), acknowledgements, records.background())),
            media: MediaStore::new(media, records.errand.clone(), records.clock.clone()),
            limits: InboxLimits { entries, bytes: i64::MAX },
            metrics: Arc::default(),
            timepiece: records.clock.clone(),
        })
    }

    fn new_entry(records: &Records, text: &str) -> NewEntry {
        NewEntry {
            event: Event {
                text: text.to_owned(),
                source: Source {
                    platform: "telegram".into(),
                    chat_id: Some("c1".into()),
                    chat_type: "dm".to_owned(),
                    ..Source::default()
                },
                ..Event::default()
            },
            id: None,
            dedup: text.into(),
            references: Vec::new(),
            album: None,
            forward: None,
            accepted: records.clock.now(),
            receipt: None,
            stop: StopRule::Text,
            stale: None,
        }
    }

    #[tokio::test]
    async fn a_repeated_event_is_one_entry_and_a_full_inbox_refuses_the_next() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await;
        let connections = records.connections();
        let inboxes = inboxes(&records, &connections, 1);
        let agent = records.ledger.roster().instance(&heron.instance).await.unwrap().unwrap();
        let admitted = Gate::admit_program(&heron.tenant, &agent, bot_of("heron")).unwrap();
        let first = inboxes.admit(&admitted, new_entry(&records, "one")).await.unwrap();
        let Admission::Kept(entry) = first else { panic!("it was not kept: {first:?}") };
        let again = inboxes.admit(&admitted, new_entry(&records, "one")).await.unwrap();
        assert_eq!(again, Admission::Known(entry.clone()));
        let next = inboxes.admit(&admitted, new_entry(&records, "two")).await.unwrap();
        assert!(matches!(next, Admission::Full(LimitReached::Inbox | LimitReached::Share)), "{next:?}");
        assert_eq!(inboxes.metrics.entries_kept.get(), 1);
    }

    #[tokio::test]
    async fn an_entry_is_recalled_only_while_its_agent_is_not_connected() {
        let records = Records::open().await;
        let heron = records.enrol("heron").await.instance;
        let connections = records.connections();
        let inboxes = inboxes(&records, &connections, 9);
        let entry = records.append(&heron, &bot_of("heron"), None).await;
        let socket = connections.with_live_socket(&heron, |_| {});
        assert!(!inboxes.recall(&heron, &entry).await.unwrap());
        connections.of(&heron).state.lock().remove(socket, records.clock.instant());
        assert!(inboxes.recall(&heron, &entry).await.unwrap());
        assert_eq!(records.waiting(&heron).await, 0);
    }
}
