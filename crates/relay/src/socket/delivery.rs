//! Handing over: oldest first, so many outstanding and no more, forgotten when acknowledged.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use ledger::{Acknowledgement, Entry, Seq, Setback};
use posthouse_time::Moment;
use posthouse_wire::{EntryId, frame};
use serde_json::value::RawValue;

use super::{Ending, Socket};
use crate::desk::{Desk, Role};
use crate::{Config, Fault, Relay};

/// Entries read from the ledger at a time.
const BATCH: u16 = 128;
/// How long a superseded socket has to show that it is alive, which makes its entry suspect.
const PROBE: Duration = Duration::from_secs(5);
/// Between two tries to commit acknowledgements while the ledger refuses.
const AGAIN: Duration = Duration::from_millis(500);
/// Acknowledgements that may wait for the ledger; whatever comes beyond is handed over again.
const TAKEN: usize = 4096;
/// How long a socket that ends waits for its acknowledgements to be kept.
const KEPT_WITHIN: Duration = Duration::from_secs(3);

pub(super) struct Delivery {
    window: usize,
    /// Nothing is handed over before this moment.
    ready: Moment,
    pub idle: bool,
    /// The last entry handed over.
    cursor: Seq,
    outstanding: VecDeque<Outstanding>,
    /// Read from the ledger, not yet handed over.
    read: VecDeque<Entry>,
    /// The last read was full: there is more in the ledger.
    more: bool,
    reading: Option<BoxFuture<'static, Result<Vec<Entry>, ledger::Fault>>>,
    /// Taken by the agent, not yet on their way to the ledger.
    taken: Vec<Acknowledgement>,
    committing: Option<BoxFuture<'static, ()>>,
    /// An entry that was outstanding when this socket was superseded, and until when it may answer.
    suspect: Option<(EntryId, Moment)>,
    /// Made live again by another's end: handed nothing until it has answered a ping, by this moment.
    proving: Option<Moment>,
    /// In whose turn the ledger was read.
    turn: u64,
}

/// Where an entry to be handed over was found.
#[derive(Clone, Copy)]
enum Origin {
    Ledger,
    Tail,
}

struct Outstanding {
    id: EntryId,
    /// Where it lies in the ledger, and how long its event is.
    place: (Seq, i64),
    handed: Moment,
    /// Late in the lease the peer is asked whether it is there at all, and may answer.
    asked: bool,
    answered: bool,
}

impl Delivery {
    pub fn new(window: u16, ready: Moment, turn: u64) -> Self {
        Self {
            window: usize::from(window),
            ready,
            idle: false,
            cursor: Seq(0),
            outstanding: VecDeque::new(),
            read: VecDeque::new(),
            more: false,
            reading: None,
            taken: Vec::new(),
            committing: None,
            suspect: None,
            proving: None,
            turn,
        }
    }

    /// Nothing is handed over before `until`.
    pub fn settle(&mut self, until: Moment) {
        self.ready = until;
    }

    pub fn has_nothing_in_flight(&self) -> bool {
        self.outstanding.is_empty() && self.taken.is_empty() && self.committing.is_none()
    }

    /// The entry that this socket was handed and did not answer for.
    pub fn unanswered(&self) -> Option<EntryId> {
        let suspect = self.suspect.as_ref().map(|(entry, _)| entry);
        self.outstanding.front().map(|oldest| &oldest.id).or(suspect).cloned()
    }

    pub fn next_timer(&self, config: &Config) -> Option<Moment> {
        let lease = self.outstanding.front().map(|oldest| {
            oldest.handed + if oldest.asked { config.ack_lease.0 } else { asking_time(config.ack_lease.0) }
        });
        // Only until it has passed: `tick` clears it.
        let ready = (self.ready > Moment::default()).then_some(self.ready);
        [lease, ready, self.suspect.as_ref().map(|(_, until)| *until), self.proving]
            .into_iter()
            .flatten()
            .min()
    }

    /// Completes when a read or a commit has.
    pub async fn progress(&mut self) {
        tokio::select! {
            () = optional(&mut self.committing) => self.committing = None,
            read = optional(&mut self.reading) => {
                self.reading = None;
                match read {
                    Ok(entries) => {
                        self.more = entries.len() == usize::from(BATCH);
                        self.read.extend(entries);
                    }
                    Err(fault) => {
                        tracing::error!(%fault, "could not read an inbox");
                        self.more = true;
                    }
                }
            }
        }
    }

    fn forget_read(&mut self) {
        self.read.clear();
        self.reading = None;
        self.more = false;
    }

    /// May the next entry leave? With a window of one the previous must be committed first: that bounds
    /// what a stock agent can see twice to one entry per death (contract section 16.3).
    fn has_room(&self) -> bool {
        let settled = self.window > 1 || (self.taken.is_empty() && self.committing.is_none());
        self.outstanding.len() < self.window && settled
    }
}

/// When the peer is asked: late, so that one which froze meanwhile is not taken for one whose reader died.
fn asking_time(lease: Duration) -> Duration {
    lease - lease / 6
}

async fn optional<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    match future {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

impl Socket {
    /// Hands over whatever may leave now.
    pub(super) async fn pump(&mut self) -> Result<(), Ending> {
        let now = self.now();
        let mut fed = false;
        while let Some((entry, origin)) = self.next_entry(now) {
            let Some(line) = inbound(&entry, origin) else {
                // It was written by us as JSON; a row that is none can only be poison.
                self.set_back(&entry.id, Setback::Poison).await;
                continue;
            };
            self.feed(&line).await?;
            fed = true;
            if let Some(seated) = &mut self.seated {
                seated.delivery.outstanding.push_back(Outstanding {
                    id: entry.id,
                    place: (entry.seq, entry.event.len() as i64),
                    handed: now,
                    asked: false,
                    answered: false,
                });
            }
        }
        if fed {
            self.flush().await?;
        }
        Ok(())
    }

    fn next_entry(&mut self, now: Moment) -> Option<(Entry, Origin)> {
        let delivery = &mut self.seated.as_mut()?.delivery;
        if delivery.idle || delivery.proving.is_some() || now < delivery.ready {
            return None;
        }
        let mut state = self.desk.state.lock();
        // Asked under the lock: a socket that does not know yet that it was superseded must neither hand
        // over nor empty the tail that its successor counts on.
        if !state.is_live(self.id) {
            return None;
        }
        if delivery.turn != state.turn {
            // Another socket was served in between: what was read before may have been taken since.
            delivery.turn = state.turn;
            delivery.forget_read();
            state.behind = true;
        }
        if state.rewound {
            // Older entries are back in line: begin again once nothing is outstanding.
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
            if let Some(entry) = delivery.read.pop_front() {
                delivery.cursor = entry.seq;
                return Some((entry, Origin::Ledger));
            }
            if delivery.reading.is_some() {
                return None;
            }
            if state.behind || delivery.more {
                if state.behind {
                    state.catch_up();
                }
                delivery.more = false;
                delivery.reading =
                    Some(unread(self.relay.clone(), self.desk.instance.clone(), delivery.cursor));
                return None;
            }
            let entry = state.next()?;
            // What was committed while the ledger was being read stands in both.
            if entry.seq > delivery.cursor {
                delivery.cursor = entry.seq;
                return Some((entry, Origin::Tail));
            }
        }
    }

    /// The agent took it.
    pub(super) fn acknowledged(&mut self, entry: EntryId) {
        let now = self.now();
        let Some(seated) = &mut self.seated else { return };
        let delivery = &mut seated.delivery;
        if delivery.taken.len() >= TAKEN || entry.bytes().is_none() {
            return;
        }
        delivery.suspect.take_if(|(suspect, _)| *suspect == entry);
        let at = delivery.outstanding.iter().position(|outstanding| outstanding.id == entry);
        let (handed, place) = match at.and_then(|at| delivery.outstanding.remove(at)) {
            Some(outstanding) => (outstanding.handed, Some(outstanding.place)),
            // Taken on a socket that was superseded meanwhile: taken all the same.
            None => (now, None),
        };
        delivery.taken.push(Acknowledgement { entry, handed, place });
    }

    /// Starts whatever commit is due.
    pub(super) fn start_committing(&mut self) {
        let Some(seated) = &mut self.seated else { return };
        let delivery = &mut seated.delivery;
        if delivery.committing.is_none() && !delivery.taken.is_empty() {
            let taken = std::mem::take(&mut delivery.taken);
            delivery.committing = Some(Box::pin(commit(self.relay.clone(), Arc::clone(&self.desk), taken)));
        }
    }

    pub(super) async fn finish_acknowledging(&mut self, mut delivery: Delivery) {
        let relay = self.relay.clone();
        let taken = std::mem::take(&mut delivery.taken);
        let keeping = async {
            if let Some(committing) = delivery.committing.take() {
                committing.await;
            }
            if !taken.is_empty() {
                commit(relay.clone(), Arc::clone(&self.desk), taken).await;
            }
        };
        // A ledger that refuses must not keep the seat, nor the house from closing.
        if relay.0.timepiece.within(KEPT_WITHIN, keeping).await.is_err() {
            tracing::error!(instance.id = %self.holder.instance, "acknowledgements were not kept: entries will be handed over again");
        }
    }

    /// A socket that took an entry and says nothing for the lease is bad: closed, the entry kept. If it
    /// answers pings its reader is dead, which is a sign of poison; a frozen peer is none.
    pub(super) async fn check_lease(&mut self, now: Moment) -> Result<(), Ending> {
        let lease = self.relay.0.config.ack_lease.0;
        let Some(seated) = &mut self.seated else { return Ok(()) };
        let delivery = &mut seated.delivery;
        if now >= delivery.ready {
            delivery.ready = Moment::default();
        }
        if delivery.proving.is_some_and(|until| now >= until) {
            return Err(Ending::Close { code: 1011, reason: "a ping was not answered" });
        }
        if let Some((entry, _)) = delivery.suspect.take_if(|(_, until)| now >= *until) {
            self.set_back(&entry, Setback::Loss).await;
            return Ok(());
        }
        let Some(oldest) = delivery.outstanding.front_mut() else { return Ok(()) };
        if now >= oldest.handed + lease {
            let (entry, answers) = (oldest.id.clone(), oldest.answered);
            delivery.outstanding.clear();
            if answers {
                self.set_back(&entry, Setback::Poison).await;
            }
            return Err(Ending::Close { code: 1011, reason: "an entry was not acknowledged" });
        }
        if !oldest.asked && now >= oldest.handed + asking_time(lease) {
            oldest.asked = true;
            return self.ping().await;
        }
        Ok(())
    }

    pub(super) async fn change_role(&mut self, role: Role) -> Result<(), Ending> {
        let now = self.now();
        let Some(seated) = self.seated.as_mut().filter(|seated| seated.role != role) else { return Ok(()) };
        seated.role = role;
        let delivery = &mut seated.delivery;
        if role == Role::Live {
            // Begin again from whatever is unread, if it is there at all (contract section 16.5).
            delivery.cursor = Seq(0);
            delivery.proving = Some(now + PROBE);
            return self.ping().await;
        }
        delivery.proving = None;
        self.asked = now;
        // A second socket appeared while this one is open. If this one is alive, its reader died of what
        // it was handed (contract section 16.4); if not, it was merely lost.
        let suspect = delivery.outstanding.front().map(|oldest| oldest.id.clone());
        delivery.outstanding.clear();
        if let (Some(entry), Role::Standby) = (suspect, role) {
            delivery.suspect = Some((entry, now + PROBE));
            return self.ping().await;
        }
        Ok(())
    }

    pub(super) async fn ponged(&mut self) -> Result<(), Ending> {
        let Some(seated) = &mut self.seated else { return Ok(()) };
        seated.delivery.proving = None;
        if let Some(oldest) = seated.delivery.outstanding.front_mut() {
            oldest.answered |= oldest.asked;
        }
        if let Some((entry, _)) = seated.delivery.suspect.take() {
            self.set_back(&entry, Setback::Poison).await;
        }
        Ok(())
    }

    pub(super) async fn set_back(&mut self, entry: &EntryId, how: Setback) {
        match self.relay.0.inbox.set_back(&self.holder.instance, entry, how).await {
            Ok(true) => {
                self.relay.0.metrics.entries_dead.inc();
                tracing::warn!(instance.id = %self.holder.instance, entry.id = %entry, "an entry became a dead letter");
            }
            Ok(false) => {}
            Err(fault) => tracing::error!(%fault, entry.id = %entry, "could not note a setback"),
        }
    }
}

/// The line that hands an entry over. What lay on a disk is looked at first; what this house wrote a
/// moment ago is not.
fn inbound(entry: &Entry, origin: Origin) -> Option<String> {
    match origin {
        Origin::Tail => frame::inbound_line_around(&entry.event, &entry.id),
        Origin::Ledger => {
            let event = serde_json::from_slice::<&RawValue>(&entry.event).ok()?;
            Some(frame::inbound_line(event, &entry.id))
        }
    }
}

fn unread(
    relay: Relay,
    of: posthouse_wire::InstanceId,
    after: Seq,
) -> BoxFuture<'static, Result<Vec<Entry>, ledger::Fault>> {
    Box::pin(async move { relay.0.inbox.unread(&of, after, BATCH).await })
}

/// Tries until the ledger takes it: what an agent took must not be handed to it again.
async fn commit(relay: Relay, desk: Arc<Desk>, taken: Vec<Acknowledgement>) {
    loop {
        match relay.acknowledge(&desk, taken.clone()).await {
            Ok(()) => return,
            Err(Fault::Ledger(ledger::Fault::Closed)) => return,
            Err(fault) => {
                tracing::error!(%fault, "could not note acknowledgements; trying again");
                relay.0.timepiece.after(AGAIN).await;
            }
        }
    }
}
