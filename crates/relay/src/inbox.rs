//! Inbox: storing events until the agent acknowledges them, dead letters, recall.

use bytes::Bytes;
use identity::Admitted;
use ledger::{Acknowledgement, Append, Appended, BotRef, Entry, InboxLimits, Sighting};
use posthouse_wire::{ChatId, EntryId, Event, InstanceId, session_key};

use crate::admission::{Admission, Entrant};
use crate::agent_connections::AgentConnections;
use crate::{Fault, Relay};

impl Relay {
    /// Stores an event that the gate has admitted. When this resolves, the entry survives a power loss.
    pub async fn admit(&self, admitted: &Admitted, entrant: Entrant) -> Result<Admission, Fault> {
        if entrant.event.deliverable().is_err() {
            return Ok(Admission::Undeliverable);
        }
        let (to, on) = (admitted.to(), admitted.on());
        let stopping = self.as_stop(to, on, &entrant);
        let sender = entrant.sender();
        let Entrant { event, id, dedup, references, accepted, receipt, .. } = entrant;
        let chat = event.source.chat_id.clone().unwrap_or_else(|| ChatId::new(""));
        let sighted = (to.instance.clone(), chat.clone());
        let print = fingerprint(self.0.identity.roster.bot_version(on), on, &event);
        let fresh = self.0.sighted.get(&sighted) != Some(print);
        let appended = self
            .0
            .inbox
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
                accepted,
                sighting: fresh.then(|| Sighting {
                    scope: event.source.scope_id.clone(),
                    session_keys: session_key::plausible(&event.source),
                }),
                receipt,
                sender,
                limits: InboxLimits {
                    entries: self.0.config.inbox_entries,
                    bytes: self.0.config.inbox_bytes,
                },
            })
            .await?;
        Ok(match appended {
            Appended::Kept(entry) => {
                // A repeated event writes no sighting, so the cache is updated only for a new entry.
                if fresh {
                    self.0.sighted.insert(sighted, print);
                }
                if let Some(stopping) = stopping {
                    self.interrupt_turn(stopping);
                }
                self.0.metrics.entries_kept.inc();
                Admission::Kept(entry)
            }
            Appended::Known(entry) => Admission::Known(entry),
            Appended::Refused(full) => {
                if let Some(stopping) = stopping {
                    self.interrupt_unkept(stopping);
                }
                self.0.metrics.entries_refused(full);
                self.0.full_inboxes.refused(&to.instance, self.0.timepiece.instant());
                Admission::Full(full)
            }
        })
    }

    /// Called for every committed entry, on the ledger's writer thread.
    pub(crate) fn appended(&self, entry: &Entry) {
        let connections = self.connections(&entry.instance);
        let taken = connections.state.lock().appended(entry);
        if !taken {
            self.0.wake_calls.note(&entry.instance);
        }
    }

    /// Commits acknowledgements of the agent. The server's responsibility for the entries ends with the commit.
    pub(crate) async fn acknowledge(
        &self,
        connections: &AgentConnections,
        taken: Vec<Acknowledgement>,
    ) -> Result<(), Fault> {
        let entries: Vec<EntryId> = taken.iter().map(|taken| taken.entry.clone()).collect();
        let gone = self.0.inbox.acknowledge(&connections.instance, taken).await?;
        self.0.ack_waiters.tell(&entries);
        self.0.metrics.entries_acknowledged.inc_by(gone.entries.unsigned_abs());
        Ok(())
    }

    /// Puts a dead letter back into the queue and delivers it if its agent is connected.
    pub async fn redrive(&self, entry: &EntryId) -> Result<Option<InstanceId>, Fault> {
        let instance = self.0.inbox.redrive(entry).await?;
        if let Some(instance) = &instance {
            self.rewind(instance);
        }
        Ok(instance)
    }

    /// Makes the live socket start again from the first unread entry.
    pub(crate) fn rewind(&self, instance: &InstanceId) {
        let connections = self.connections(instance);
        let mut state = connections.state.lock();
        state.behind = true;
        state.rewound = true;
        match state.live().filter(|_| !state.idle) {
            Some(live) => live.look(),
            None => self.0.wake_calls.note(instance),
        }
    }

    /// Removes an entry that nobody needs any more from the inbox of a disconnected agent. A connected agent may have
    /// got it already, so nothing is removed then.
    pub async fn recall(&self, of: &InstanceId, entry: &EntryId) -> Result<bool, Fault> {
        if self.presence(of).connected {
            return Ok(false);
        }
        let gone = self.0.inbox.recall(of, entry).await?;
        Ok(gone.entries > 0)
    }
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
