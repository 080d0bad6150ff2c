//! Entries held back while entries of other chats are delivered (relay contract section 13.1).
//!
//! These wait here: a `/stop` that is being tried as an interrupt, entries for a chat whose turn is running, entries whose
//! attachments are being fetched, and parts of albums.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ledger::{Entry, HoldBack, Seq};
use posthouse_time::Instant;
use posthouse_wire::ChatId;

use super::preparation::{ALBUM_QUIET, Preparation, Preparer};
use super::{Delivery, Origin, inbound};
use crate::agent_connections::State;
use crate::generation::Proof;
use crate::media::{PreparedEvent, merged};
use crate::stop_command::is_stop;

/// Longest time for which an entry is held back because its chat is busy.
const LONGEST_HOLD: Duration = Duration::from_secs(120);
/// Maximum number of held entries per socket, and per chat. Further ones are left in the ledger and read again later,
/// so that no backlog, however long, forces an entry into a busy chat.
const HELD: usize = 128;
const HELD_OF_A_CHAT: usize = 16;

/// The held entries of one socket.
#[derive(Default)]
pub(super) struct HeldEntries {
    /// Oldest first in each chat.
    entries: VecDeque<HeldEntry>,
    /// For each chat with more waiting entries than fit here, the first entry that was left in the ledger.
    skipped: HashMap<ChatId, Seq>,
    /// Time at which the first entry was skipped.
    skipped_since: Instant,
    /// An entry was released since the skipped ones were last considered.
    has_room: bool,
    /// Position up to which the ledger had been read before it was read again.
    read_before: Option<Seq>,
}

/// One held entry.
struct HeldEntry {
    entry: Entry,
    origin: Origin,
    since: Instant,
    /// It is a stop, which is delivered even to a busy chat.
    is_stop: bool,
    /// It is a stop that arrived while the agent was connected. It overtakes the held entries of its chat.
    overtakes: bool,
    /// Set when the entry is the next of its chat and has attachments.
    preparation: Option<Preparation>,
}

/// What is delivered next: one entry, or an album.
pub(super) struct NextEntry {
    pub entry: Entry,
    pub origin: Origin,
    /// The event for the wire, if it is not the stored one.
    pub event: Option<PreparedEvent>,
    /// Further parts of the same album. They are acknowledged together with the entry.
    pub parts: Vec<Entry>,
}

impl NextEntry {
    pub fn new(entry: Entry, origin: Origin) -> Self {
        Self { entry, origin, event: None, parts: Vec::new() }
    }
}

impl HeldEntries {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.skipped.is_empty()
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn of<'a>(&'a self, chat: &'a ChatId) -> impl Iterator<Item = &'a HeldEntry> {
        self.entries.iter().filter(move |held| held.entry.chat == *chat)
    }

    fn has(&self, chat: &ChatId) -> bool {
        self.of(chat).next().is_some() || self.skipped.contains_key(chat)
    }

    /// Whether the entry is already held and was read again.
    fn knows(&self, entry: &Entry) -> bool {
        self.read_before.is_some_and(|before| entry.seq <= before)
            && self.entries.iter().any(|held| held.entry.seq == entry.seq)
    }

    /// Holds an entry, or leaves it in the ledger. A stop that is being tried as an interrupt is always held here, so
    /// that it can be released as soon as the outcome is known.
    fn take(&mut self, mut held: HeldEntry, is_stopping: bool, now: Instant) {
        let chat = &held.entry.chat;
        let is_full = self.entries.len() >= HELD || self.of(chat).count() >= HELD_OF_A_CHAT;
        if !is_stopping && (is_full || self.skipped.contains_key(chat)) {
            let is_new = self.read_before.is_none_or(|before| held.entry.seq > before);
            if self.skipped.is_empty() && is_new {
                (self.skipped_since, self.read_before) = (now, None);
            }
            self.skipped.entry(held.entry.chat).or_insert(held.entry.seq);
            return;
        }
        if self.read_before.is_some_and(|before| held.entry.seq <= before) {
            held.since = self.skipped_since;
        }
        self.entries.push_back(held);
    }

    /// The first entry to read again, once a chat with skipped entries has no held ones left.
    fn first_skipped(&mut self) -> Option<Seq> {
        if !std::mem::take(&mut self.has_room) || self.entries.len() >= HELD {
            return None;
        }
        let (entries, mut first) = (&self.entries, None::<Seq>);
        self.skipped.retain(|chat, seq| {
            let waits = entries.iter().any(|held| held.entry.chat == *chat);
            if !waits {
                first = Some(first.map_or(*seq, |first| first.min(*seq)));
            }
            waits
        });
        first
    }
}

impl HeldEntries {
    /// The positions of the entry and of the parts of its album that follow it in its chat.
    fn album_at(&self, at: usize) -> Vec<usize> {
        let Some(first) = self.entries.get(at) else { return Vec::new() };
        let of_its_chat = self.entries.iter().enumerate().skip(at + 1);
        let of_its_chat = of_its_chat.filter(|(_, held)| held.entry.chat == first.entry.chat);
        let parts = of_its_chat.take_while(|(_, held)| {
            first.entry.album.is_some() && held.entry.album == first.entry.album && !held.is_stop
        });
        std::iter::once(at).chain(parts.map(|(at, _)| at)).collect()
    }

    /// Starts to fetch what these entries need, and returns the time until which they wait for it. The parts of an album
    /// also wait for further parts.
    fn prepare(&mut self, parts: &[usize], preparer: &Preparer<'_>, now: Instant) -> Instant {
        let mut until = now;
        for at in parts {
            let Some(held) = self.entries.get_mut(*at) else { continue };
            if held.entry.album.is_some() {
                until = until.max(held.since + ALBUM_QUIET);
            }
            if !held.entry.references.is_empty() {
                let preparation = held.preparation.get_or_insert_with(|| preparer.start(&held.entry, now));
                until = until.max(preparation.waits_until().unwrap_or(now));
            }
        }
        until
    }

    /// Takes an entry, or an album, out of the held ones.
    fn remove(&mut self, parts: &[usize]) -> Option<NextEntry> {
        let mut taken = Vec::with_capacity(parts.len());
        for at in parts.iter().rev() {
            taken.extend(self.entries.remove(*at));
        }
        taken.reverse();
        let event = |held: &HeldEntry| held.preparation.as_ref().and_then(Preparation::event);
        let event = match &taken[..] {
            [one] => event(one),
            several => {
                let events: Vec<_> = several
                    .iter()
                    .map(|held| {
                        let stored = held.entry.event.clone();
                        (event(held).unwrap_or_else(|| stored.clone()), stored)
                    })
                    .collect();
                merged(&events)
            }
        };
        let mut taken = taken.into_iter();
        let HeldEntry { entry, origin, .. } = taken.next()?;
        Some(NextEntry { entry, origin, event, parts: taken.map(|held| held.entry).collect() })
    }
}

/// Rule for holding back entries from busy chats on one socket.
struct HoldRule {
    socket: u64,
    mode: HoldBack,
    /// The first entry that arrived after the socket's hello.
    first_live: Option<Seq>,
}

impl HoldRule {
    /// Nothing is held back from an SDK agent, which separates turns itself. Nor from a gateway that sends no typing
    /// signs, because it would not show when a turn ends.
    fn on(delivery: &Delivery, state: &State, socket: u64) -> Option<Self> {
        if !delivery.has_typed {
            return None;
        }
        let seat = state.seats.iter().find(|seat| seat.socket == socket)?;
        let applies = seat.proof != Proof::Client && seat.hold_back != HoldBack::Off;
        applies.then_some(Self { socket, mode: seat.hold_back, first_live: seat.first_live })
    }

    fn until(&self, entry: &Entry, state: &State, now: Instant) -> Option<Instant> {
        let is_backlog = self.first_live.is_none_or(|first| entry.seq < first);
        let concerned = self.mode == HoldBack::On || is_backlog;
        state.turns.busy_until(&entry.chat, self.socket, now).filter(|_| concerned)
    }
}

impl Delivery {
    /// Returns the entry unless it has to wait. Then it is held, and so are all later entries of its chat.
    pub(super) fn hold_or_return(
        &mut self,
        state: &mut State,
        socket: u64,
        entry: Entry,
        origin: Origin,
        now: Instant,
    ) -> Option<Entry> {
        if state.has_served(&entry.id) || self.held.knows(&entry) {
            return None;
        }
        // A press is never held back: the running turn waits for it.
        if let Some(prompt) = &entry.turn.pressed {
            let line = inbound(&entry, None, origin);
            return (!state.hand_to_asker(socket, prompt, &entry, line)).then_some(entry);
        }
        let (behind, is_stopping) = (self.held.has(&entry.chat), state.is_stopping(&entry.id));
        let has_files = !entry.references.is_empty() || entry.album.is_some();
        let waits = behind || is_stopping || has_files || {
            HoldRule::on(self, state, socket)
                .is_some_and(|holding| holding.until(&entry, state, now).is_some())
        };
        if !waits {
            return Some(entry);
        }
        let is_stop = is_stopping || is_stop(&entry.event);
        let seat = state.seats.iter().find(|seat| seat.socket == socket);
        let first_live = seat.and_then(|seat| seat.first_live);
        let overtakes = is_stop && first_live.is_some_and(|first| entry.seq >= first);
        let held = HeldEntry { entry, origin, since: now, is_stop, overtakes, preparation: None };
        if is_stop && !is_stopping && (!behind || overtakes && !self.is_stopped(state, &held.entry.chat)) {
            return Some(held.entry);
        }
        self.held.take(held, is_stopping, now);
        None
    }

    /// Whether a held stop of this chat is being tried as an interrupt.
    fn is_stopped(&self, state: &State, chat: &ChatId) -> bool {
        self.held.of(chat).any(|held| state.is_stopping(&held.entry.id))
    }

    /// Releases the oldest held entry that may be delivered now. Entries of one chat keep their order, except that a
    /// stop overtakes, because it concerns the running turn. If none may go, records when to look again, and whether the
    /// ledger must be read again for skipped entries.
    pub(super) fn release_held(
        &mut self,
        state: &mut State,
        socket: u64,
        preparer: &Preparer<'_>,
        now: Instant,
    ) -> Option<NextEntry> {
        if self.held.is_empty() {
            return None;
        }
        let before = self.held.entries.len();
        self.held.entries.retain(|held| !state.has_served(&held.entry.id));
        self.held.has_room |= self.held.entries.len() < before;
        let holding = HoldRule::on(self, state, socket);
        let mut look_again: Option<Instant> = None;
        for at in 0..self.held.entries.len() {
            let Some(held) = self.held.entries.get(at) else { break };
            // The code that tries the stop notifies the socket when the outcome is known.
            if state.is_stopping(&held.entry.id) {
                continue;
            }
            let mut earlier = self.held.entries.iter().take(at);
            let waits = earlier.any(|earlier| {
                let is_of_its_chat = earlier.entry.chat == held.entry.chat;
                is_of_its_chat && (!held.overtakes || state.is_stopping(&earlier.entry.id))
            });
            if waits {
                continue;
            }
            let busy = holding
                .as_ref()
                .filter(|_| !held.is_stop)
                .and_then(|holding| holding.until(&held.entry, state, now));
            let busy = busy.map_or(now, |until| until.min(held.since + LONGEST_HOLD));
            let parts = self.held.album_at(at);
            let until = busy.max(self.held.prepare(&parts, preparer, now));
            if until <= now {
                self.held.has_room = true;
                return self.held.remove(&parts);
            }
            look_again = Some(look_again.map_or(until, |earlier| earlier.min(until)));
        }
        self.look_again = look_again;
        state.behind |= self.reads_skipped();
        None
    }

    /// Goes back to the first skipped entry whose chat has no held entries any more. Returns true when the ledger must
    /// be read again from there.
    fn reads_skipped(&mut self) -> bool {
        if self.held.skipped.is_empty() || !self.has_nothing_in_flight() {
            return false;
        }
        let Some(first) = self.held.first_skipped() else { return false };
        self.held.read_before = self.held.read_before.max(Some(self.cursor));
        self.cursor = Seq(first.0 - 1);
        self.read.clear();
        self.reading = None;
        self.more = false;
        true
    }
}
