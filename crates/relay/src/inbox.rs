//! Inboxes: storing events until the agent acknowledges them, dead letters, recall.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use foldhash::fast::RandomState;
use identity::{Admitted, RosterView};
use ledger::{Append, Appended, BotRef, Entry, EntryTurn, Inbox, InboxLimits, Sighting};
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::passthrough::Forward;
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, session_key};
use quick_cache::sync::Cache;

use crate::admission::{Admission, NewEntry};
use crate::connections::Connections;
use crate::full_inboxes::FullInboxes;
use crate::media::{NamedAttachment, media_in_url};
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
    /// Conversations recorded recently.
    sighted: Cache<(InstanceId, ChatId), RecentSighting>,
    fingerprints: RandomState,
    full_inboxes: FullInboxes,
    metrics: Arc<Metrics>,
    timepiece: Timepiece,
}

/// Time for which a recorded conversation is not recorded again.
const SIGHTED_FOR: Duration = Duration::from_secs(60);

/// When a conversation was last recorded, and as what.
#[derive(Clone, Copy)]
struct RecentSighting {
    fingerprint: u64,
    at: Instant,
    /// Number of roster changes before that. The record of a conversation is deleted with its route, so a change of its bot
    /// makes this worthless.
    changes: u64,
}

/// A conversation of an agent, and the sighting to remember for it.
type NewSighting = ((InstanceId, ChatId), RecentSighting);

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
            sighted: Cache::new(100_000),
            fingerprints: RandomState::default(),
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
        self.records.follow(Arc::new(move |entry: Entry| {
            let Some((connections, wake_calls)) = connections.upgrade().zip(wake_calls.upgrade()) else {
                return;
            };
            let agent = connections.of(&entry.instance);
            if !agent.state.lock().appended(entry) {
                wake_calls.sleepers.note(&agent.instance);
            }
        }));
    }

    /// Stores an event that the gate has admitted. When this resolves, the entry survives a power loss.
    pub async fn admit(&self, admitted: &Admitted, new_entry: Box<NewEntry>) -> Result<Admission, Fault> {
        let (admission, _) = self.admit_with_attachments(admitted, new_entry).await?;
        Ok(admission)
    }

    /// As [`Self::admit`]. Also returns the attachments of the event, which are to be fetched early only if the event is
    /// [`Admission::Kept`].
    pub async fn admit_with_attachments(
        &self,
        admitted: &Admitted,
        new_entry: Box<NewEntry>,
    ) -> Result<(Admission, Vec<NamedAttachment>), Fault> {
        let stopping = self.stops.recognize(admitted.to(), admitted.on(), &new_entry);
        let stop_entry = stopping.as_ref().map(|stopping| stopping.entry.clone());
        let (append, attachments, sighting) = self.append_for(admitted, *new_entry, stop_entry);
        let admission = match self.records.append(append).await? {
            Appended::Kept(entry) => {
                // A repeated event writes no sighting, so the cache is updated only for a new entry.
                if let Some((conversation, sighting)) = sighting {
                    self.sighted.insert(conversation, sighting);
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
                self.full_inboxes.refused(&admitted.to().instance, self.timepiece.instant());
                Admission::Full(full)
            }
        };
        Ok((admission, attachments))
    }

    /// The row to store for an event. If its conversation was not recorded a moment ago, it is recorded with the row, and
    /// remembered once the row is stored. A stop has chosen the id of its entry.
    fn append_for(
        &self,
        admitted: &Admitted,
        new_entry: NewEntry,
        stop_entry: Option<EntryId>,
    ) -> (Append, Vec<NamedAttachment>, Option<NewSighting>) {
        let (to, on) = (admitted.to(), admitted.on());
        let sender = new_entry.sender();
        let NewEntry { event, id, dedup, references, album, forward, accepted, receipt, stale, .. } =
            new_entry;
        let mut event = event.into_event();
        if !references.is_empty() {
            self.media.name_attachments(&mut event, references.len());
        }
        let attachments = named(&event, &references);
        let chat = event.source.chat_id.clone().unwrap_or_else(|| ChatId::new(""));
        let conversation = (to.instance.clone(), chat.clone());
        let sighting = self.sighting_now(on, &event);
        let known = self.sighted.get(&conversation).filter(|known| known.fingerprint == sighting.fingerprint);
        let is_fresh = !known.is_some_and(|known| {
            sighting.at < known.at + SIGHTED_FOR && !self.roster.bot_changed_since(known.changes, on)
        });
        let append = Append {
            id: stop_entry.or(id),
            to: to.instance.clone(),
            platform: on.platform.clone(),
            bot: on.bot.clone(),
            chat,
            dedup,
            turn: EntryTurn::of(&event),
            event: Bytes::from(event.to_json()),
            references,
            album,
            forward: forward.and_then(|forward| written_forward(&forward)),
            accepted,
            sighting: is_fresh.then(|| Sighting {
                scope: event.source.scope_id.clone(),
                session_keys: session_key::plausible(&event.source),
            }),
            message: event.message_id,
            receipt,
            sender,
            limits: self.limits,
            stale,
        };
        (append, attachments, is_fresh.then_some((conversation, sighting)))
    }

    /// A conversation as it is seen now. A collision of two fingerprints costs a stale record for a minute.
    fn sighting_now(&self, on: &BotRef, event: &Event) -> RecentSighting {
        let source = &event.source;
        let identity = (on, &source.chat_type, &source.thread_id, &source.user_id, &source.user_id_alt);
        let rest = (&source.scope_id, &source.profile, &source.prospective_thread_id);
        RecentSighting {
            fingerprint: self.fingerprints.hash_one((identity, rest)),
            at: self.timepiece.instant(),
            changes: self.roster.change_count(),
        }
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
            self.wake_calls.sleepers.note(instance);
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

/// The attachments of an event, whose references are in the same order.
fn named(event: &Event, references: &[String]) -> Vec<NamedAttachment> {
    let attachments = event.media.iter().zip(references).filter_map(|(media, reference)| {
        let id = media_in_url(media.url.as_deref()?)?;
        Some(NamedAttachment { id, reference: reference.clone(), media: media.clone() })
    });
    attachments.collect()
}

/// The longest forward, in bytes. Of a longer one only the event is stored.
const LONGEST_FORWARD: usize = 256 * 1024;

fn written_forward(forward: &Forward) -> Option<Bytes> {
    let written = serde_json::to_vec(forward).expect("a forward holds only texts");
    (written.len() <= LONGEST_FORWARD).then(|| Bytes::from(written))
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
            }
            .deliverable()
            .unwrap(),
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
        let first = inboxes.admit(&admitted, Box::new(new_entry(&records, "one"))).await.unwrap();
        let Admission::Kept(entry) = first else { panic!("it was not kept: {first:?}") };
        let again = inboxes.admit(&admitted, Box::new(new_entry(&records, "one"))).await.unwrap();
        assert_eq!(again, Admission::Known(entry.clone()));
        let next = inboxes.admit(&admitted, Box::new(new_entry(&records, "two"))).await.unwrap();
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
