//! Delivery of inbox entries: oldest first, within a window, until each is acknowledged.

mod acknowledging;
mod forwards;
mod held;
mod lease;
mod preparation;
mod presses;
mod stale;
mod succession;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ledger::{Acknowledgement, Entry, FailedDelivery, Inbox, Seq};
use posthouse_time::{Instant, Moment, Timepiece};
use posthouse_wire::{EntryId, InstanceId, frame};
use serde_json::value::RawValue;

use super::{Ending, Socket};
use crate::Config;
use crate::agent_connections::{Role, State};
use crate::media::PreparedEvent;
use held::{HeldEntries, NextEntry};
use lease::Lease;
use preparation::Preparer;

/// Entries read from the ledger at a time.
const BATCH: u16 = 128;
/// First pause before an inbox that could not be read is read again. It doubles after each failure, up to the longest.
const READ_AGAIN: Duration = Duration::from_millis(250);
const READ_AGAIN_AT_MOST: Duration = Duration::from_secs(30);

pub(super) struct Delivery {
    window: usize,
    /// Nothing is delivered before this time.
    ready: Instant,
    pub idle: bool,
    /// The last delivered entry.
    cursor: Seq,
    outstanding: VecDeque<Outstanding>,
    /// Lease of the oldest outstanding entry.
    lease: Lease,
    /// Read from the ledger, not yet delivered.
    read: VecDeque<Entry>,
    /// Set aside while entries of other chats pass.
    held: HeldEntries,
    /// Earliest time at which one of these may be delivered.
    look_again: Option<Instant>,
    /// This socket sends typing signs, so their absence shows that a turn has ended.
    pub has_typed: bool,
    /// The last read was full: there is more in the ledger.
    more: bool,
    reading: Option<BoxFuture<'static, Result<Vec<Entry>, ledger::Fault>>>,
    /// Number of reads that failed in a row, and time of the next attempt.
    failed_reads: u32,
    read_again: Option<Instant>,
    /// Acknowledged by the agent, not yet given to the ledger.
    uncommitted: Vec<Acknowledgement>,
    committing: Option<BoxFuture<'static, ()>>,
    /// An entry that was outstanding when this socket was superseded, and the time limit for the socket's pong.
    suspect: Option<(EntryId, Instant)>,
    /// Albums that were outstanding when this socket was superseded. Their acknowledgement still ends all their parts.
    superseded_albums: Box<[Outstanding]>,
    /// Set when this socket became live again because another one ended. It gets nothing until it answers a ping, for
    /// which this is the deadline.
    proving: Option<Instant>,
    /// The turn number of the agent's connections at which the ledger was read.
    turn: u64,
}

/// Source of an entry to be delivered.
#[derive(Clone, Copy)]
enum Origin {
    Ledger,
    Tail,
}

struct Outstanding {
    id: EntryId,
    /// Its position in the ledger, and its size.
    place: (Seq, i64),
    /// Time of delivery, for its record.
    handed: Moment,
    /// Further parts of the same album, which the same acknowledgement ends.
    parts: Vec<(EntryId, (Seq, i64))>,
}

impl Delivery {
    pub fn new(window: u16, ready: Instant, turn: u64) -> Self {
        Self {
            window: usize::from(window),
            ready,
            idle: false,
            cursor: Seq(0),
            outstanding: VecDeque::new(),
            lease: Lease::default(),
            read: VecDeque::new(),
            held: HeldEntries::default(),
            look_again: None,
            has_typed: false,
            more: false,
            reading: None,
            failed_reads: 0,
            read_again: None,
            uncommitted: Vec::new(),
            committing: None,
            suspect: None,
            superseded_albums: Box::default(),
            proving: None,
            turn,
        }
    }

    /// Delivers nothing before `until`.
    pub fn settle(&mut self, until: Instant) {
        self.ready = until;
    }

    pub fn has_nothing_in_flight(&self) -> bool {
        self.outstanding.is_empty() && self.uncommitted.is_empty() && self.committing.is_none()
    }

    /// The oldest entry that this socket got and did not acknowledge.
    pub fn unanswered(&self) -> Option<EntryId> {
        let suspect = self.suspect.as_ref().map(|(entry, _)| entry);
        self.outstanding.front().map(|oldest| &oldest.id).or(suspect).cloned()
    }

    pub fn next_timer(&self, config: &Config) -> Option<Instant> {
        let lease = self.outstanding.front().map(|_| self.lease.next_timer(config.ack_lease.0));
        // `check_lease` clears these times once they have passed.
        let ready = (self.ready > Instant::default()).then_some(self.ready);
        [
            lease,
            ready,
            self.read_again,
            self.look_again,
            self.suspect.as_ref().map(|(_, until)| *until),
            self.proving,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Completes when a read or a commit completes.
    pub async fn progress(&mut self, timepiece: &Timepiece) {
        tokio::select! {
            () = optional(&mut self.committing) => self.committing = None,
            read = optional(&mut self.reading) => {
                self.reading = None;
                match read {
                    Ok(entries) => {
                        self.failed_reads = 0;
                        self.more = entries.len() == usize::from(BATCH);
                        self.read.extend(entries);
                    }
                    Err(fault) => {
                        let pause = READ_AGAIN.saturating_mul(2_u32.saturating_pow(self.failed_reads));
                        let pause = pause.min(READ_AGAIN_AT_MOST);
                        tracing::error!(%fault, "could not read an inbox; trying again in {pause:?}");
                        self.failed_reads = self.failed_reads.saturating_add(1);
                        self.read_again = Some(timepiece.instant() + pause);
                        self.more = true;
                    }
                }
            }
        }
    }

    fn forget_read(&mut self) {
        self.read.clear();
        self.held.clear();
        self.reading = None;
        self.more = false;
    }

    /// Whether the next entry may be delivered. With a window of one, the previous acknowledgement must be committed
    /// first: that limits what a stock agent can see twice to one entry per crash (contract section 16.3).
    fn has_room(&self) -> bool {
        let settled = self.window > 1 || (self.uncommitted.is_empty() && self.committing.is_none());
        self.outstanding.len() < self.window && settled
    }
}

async fn optional<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl Socket {
    /// Delivers all entries that may be delivered now.
    pub(super) async fn pump(&mut self) -> Result<(), Ending> {
        let (now, handed) = (self.now(), self.components.timepiece.now());
        let mut fed = false;
        while let Some(next) = self.next_entry(now) {
            let NextEntry { entry, origin, event, parts } = next;
            let marked = stale::marked(&entry, event.as_ref(), now);
            let is_late = marked.is_some();
            let event = marked.or(event);
            let forward = self.forward_line(&entry);
            let is_forward = forward.is_some();
            let Some(line) = forward.or_else(|| inbound(&entry, event.as_ref(), origin)) else {
                // The server wrote the row as JSON. A row that is not JSON can only be poison.
                self.record_failed_delivery(&entry.id, FailedDelivery::Poison).await;
                continue;
            };
            self.feed(&line).await?;
            fed = true;
            if is_late {
                self.components.expirations.handed_late(&entry);
            }
            if is_forward {
                self.ask_for_pong(&entry.id).await?;
            }
            if let Some(seated) = &mut self.seated {
                let delivery = &mut seated.delivery;
                if delivery.outstanding.is_empty() {
                    delivery.lease = Lease::starting(now);
                }
                let parts =
                    parts.into_iter().map(|part| (part.id.clone(), (part.seq, part.size()))).collect();
                let place = (entry.seq, entry.size());
                delivery.outstanding.push_back(Outstanding { id: entry.id, place, handed, parts });
            }
        }
        if fed {
            self.flush().await?;
        }
        Ok(())
    }

    /// Takes the next entry to deliver and records it as the agent's current work.
    fn next_entry(&mut self, now: Instant) -> Option<NextEntry> {
        // A socket that was made live again and has not heeded that order yet would go on after the last entry it got.
        let seated = self.seated.as_mut().filter(|seated| seated.role == Role::Live)?;
        let delivery = &mut seated.delivery;
        delivery.look_again = None;
        if delivery.idle || delivery.proving.is_some() || now < delivery.ready {
            return None;
        }
        let preparer = Preparer {
            components: &self.components,
            egress: &self.egress,
            tenant: &self.holder.tenant,
            ready: &self.orders_ready,
        };
        let expirations = &self.components.expirations;
        let mut state = self.connections.state.lock();
        // Checked under the lock: a socket that does not know yet that it was superseded must neither deliver
        // entries nor empty the tail that its successor needs.
        if !state.is_live(self.id) {
            return None;
        }
        if delivery.turn != state.turn {
            // Another socket was live in between, so entries read before may have been acknowledged since.
            delivery.turn = state.turn;
            state.rewound |= !delivery.held.is_empty();
            delivery.forget_read();
            state.behind = true;
        }
        if state.rewound {
            // Older entries were put back into the queue: start from the beginning once nothing is outstanding.
            if !delivery.has_nothing_in_flight() {
                return None;
            }
            state.rewound = false;
            state.behind = true;
            delivery.forget_read();
            delivery.cursor = Seq(0);
        }
        loop {
            if !delivery.has_room() {
                return None;
            }
            if let Some(next) = delivery.release_held(&mut state, self.id, &preparer, now) {
                if stale::is_expired(&next.entry, now) {
                    expirations.skipped(&next.entry);
                    continue;
                }
                return Some(noted(&mut state, self.id, next, now));
            }
            let (entry, origin) = if let Some(entry) = delivery.read.pop_front() {
                (entry, Origin::Ledger)
            } else {
                if delivery.reading.is_some() || delivery.read_again.is_some() {
                    return None;
                }
                if state.behind || delivery.more {
                    if state.behind {
                        state.catch_up();
                    }
                    delivery.more = false;
                    delivery.reading =
                        Some(unread(&self.components.inbox, &self.connections.instance, delivery.cursor));
                    return None;
                }
                let entry = state.next()?;
                // An entry that was committed during the read of the ledger is in both.
                if entry.seq <= delivery.cursor {
                    continue;
                }
                (entry, Origin::Tail)
            };
            delivery.cursor = entry.seq;
            if stale::is_expired(&entry, now) {
                expirations.skipped(&entry);
                continue;
            }
            if let Some(entry) = delivery.hold_or_return(&mut state, self.id, entry, origin, now) {
                return Some(noted(&mut state, self.id, NextEntry::new(entry, origin), now));
            }
        }
    }

    /// Records that the agent sent a request that is being carried out.
    pub(super) fn works(&mut self, types: bool) {
        if let Some(seated) = &mut self.seated {
            seated.delivery.lease.works = true;
            seated.delivery.has_typed |= types;
        }
    }

    pub(super) async fn record_failed_delivery(&mut self, entry: &EntryId, failure: FailedDelivery) {
        let inbox = &self.components.inbox;
        match inbox.record_failed_delivery(&self.holder.instance, entry, failure).await {
            Ok(true) => {
                self.components.metrics.entries_dead.inc();
                tracing::warn!(instance.id = %self.holder.instance, entry.id = %entry, "an entry became a dead letter");
            }
            Ok(false) => {}
            Err(fault) => {
                tracing::error!(%fault, entry.id = %entry, "could not record the failed delivery of an entry");
            }
        }
    }
}

/// Records that an entry is delivered to this socket.
fn noted(state: &mut State, socket: u64, next: NextEntry, now: Instant) -> NextEntry {
    state.turns.handed(&next.entry.chat, next.entry.turn.session, socket, now);
    next
}

/// The line that delivers an entry. An entry from the disk is checked to be JSON; one that was just written is not.
fn inbound(entry: &Entry, prepared: Option<&PreparedEvent>, origin: Origin) -> Option<String> {
    if let Some(event) = prepared {
        return frame::inbound_line_around(event, &entry.id);
    }
    match origin {
        Origin::Tail => frame::inbound_line_around(&entry.event, &entry.id),
        Origin::Ledger => {
            let event = serde_json::from_slice::<&RawValue>(&entry.event).ok()?;
            Some(frame::inbound_line(event, &entry.id))
        }
    }
}

fn unread(
    inbox: &Arc<dyn Inbox>,
    of: &InstanceId,
    after: Seq,
) -> BoxFuture<'static, Result<Vec<Entry>, ledger::Fault>> {
    let (inbox, of) = (Arc::clone(inbox), of.clone());
    Box::pin(async move { inbox.unread(&of, after, BATCH).await })
}
