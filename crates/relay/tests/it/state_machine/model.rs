//! Model of one agent's inbox and sockets: what must be true of deliveries, whatever happens.
//!
//! The model knows what was accepted, what was acknowledged, which socket is live and what each one got. It says what
//! must come, and why what came must not have come.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthouse_time::Instant;

/// Signs of poison that make a dead letter, and the loss from which on each further one is such a sign.
const POISONED: u32 = 3;
const LOST: u32 = 10;

/// Entries are numbered in the order in which they were accepted, sockets in the order in which they dialed.
pub type EntryNumber = usize;
pub type SocketNumber = usize;

#[derive(Default)]
pub struct Model {
    pub now: Instant,
    entries: Vec<ModelEntry>,
    numbers: BTreeMap<String, EntryNumber>,
    /// The open sockets.
    pub sockets: BTreeMap<SocketNumber, ModelSocket>,
    pub live: Option<SocketNumber>,
    is_idle: bool,
    /// The times that a socket was live, in that order.
    tenures: Vec<Tenure>,
}

struct ModelEntry {
    id: String,
    chat: u8,
    acknowledged_on: BTreeSet<SocketNumber>,
    /// It has left the inbox.
    gone: bool,
    dead: bool,
    /// At most this many signs of poison and losses.
    signs: u32,
    losses: u32,
}

pub struct ModelSocket {
    pub opened: Instant,
    /// Its current or last time as the live socket.
    tenure: Option<usize>,
    is_idle: bool,
    /// Superseded; what was sent before that may still be on its way.
    pub may_trail: bool,
    /// Descriptors that came, and that must still come.
    descriptors: u32,
    descriptors_due: u32,
    /// Everything it got, oldest first.
    pub got: Vec<EntryNumber>,
}

/// One socket's time as the live one.
struct Tenure {
    socket: SocketNumber,
    window: usize,
    /// Nothing comes before this time.
    ready: Instant,
    /// The entries whose acknowledgement was committed before it began.
    forgotten: BTreeSet<EntryNumber>,
    got: Vec<EntryNumber>,
    unacknowledged: Vec<EntryNumber>,
    oldest_since: Instant,
}

impl ModelEntry {
    fn is_acknowledged(&self) -> bool {
        !self.acknowledged_on.is_empty()
    }

    fn may_be_dead(&self) -> bool {
        self.signs + (self.losses + 1).saturating_sub(LOST) >= POISONED
    }

    /// Neither an acknowledgement nor too many failures can have taken it out of the inbox.
    fn must_be_there(&self) -> bool {
        !self.is_acknowledged() && !self.may_be_dead()
    }
}

impl Model {
    pub fn new(now: Instant) -> Self {
        Self { now, ..Self::default() }
    }

    pub fn accepted(&mut self, id: String, chat: u8) {
        // A socket that is being superseded or has just been lost may get it all the same.
        let signs = u32::from(self.anything_trails());
        self.numbers.insert(id.clone(), self.entries.len());
        self.entries.push(ModelEntry {
            id,
            chat,
            acknowledged_on: BTreeSet::new(),
            gone: false,
            dead: false,
            signs,
            losses: 1,
        });
    }

    /// Whether something may be on its way to a socket that is no longer live.
    pub fn anything_trails(&self) -> bool {
        self.sockets.values().any(|socket| socket.may_trail)
    }

    pub fn id(&self, entry: EntryNumber) -> &str {
        &self.entries[entry].id
    }

    pub fn dialed(&mut self, socket: SocketNumber) {
        self.sockets.insert(
            socket,
            ModelSocket {
                opened: self.now,
                tenure: None,
                is_idle: false,
                may_trail: false,
                descriptors: 0,
                descriptors_due: 0,
                got: Vec::new(),
            },
        );
    }

    pub fn is_seated(&self, socket: SocketNumber) -> bool {
        self.sockets[&socket].tenure.is_some()
    }

    /// The first hello of a socket is being said: it supersedes the live one.
    pub fn seated(&mut self, socket: SocketNumber, window: usize, ready: Instant) {
        if let Some(old) = self.live {
            self.count_signs(old);
            self.sockets.get_mut(&old).unwrap().may_trail = true;
        }
        self.is_idle = false;
        // Whoever goes idle before its hello is not idle after it.
        self.sockets.get_mut(&socket).unwrap().is_idle = false;
        self.begin(socket, window, ready);
    }

    /// Any hello is being said. One of our SDK ends the time in which a stock gateway settles (section 26.3).
    pub fn said_hello(&mut self, socket: SocketNumber, is_sdk: bool) {
        let held = self.sockets.get_mut(&socket).unwrap();
        held.descriptors_due += 1;
        if let Some(tenure) = held.tenure.filter(|_| is_sdk) {
            let ready = &mut self.tenures[tenure].ready;
            *ready = self.now.min(*ready);
        }
    }

    pub fn described(&mut self, socket: SocketNumber) -> Result<(), String> {
        let held = self.sockets.get_mut(&socket).unwrap();
        held.descriptors += 1;
        held.descriptors_due = held.descriptors_due.checked_sub(1).ok_or("a descriptor too many")?;
        Ok(())
    }

    pub fn awaits_descriptor(&self, socket: SocketNumber) -> bool {
        self.sockets[&socket].descriptors_due > 0
    }

    fn begin(&mut self, socket: SocketNumber, window: usize, ready: Instant) {
        let gone = self.entries.iter().enumerate().filter(|(_, entry)| entry.gone);
        self.sockets.get_mut(&socket).unwrap().tenure = Some(self.tenures.len());
        self.tenures.push(Tenure {
            socket,
            window,
            ready,
            forgotten: gone.map(|(number, _)| number).collect(),
            got: Vec::new(),
            unacknowledged: Vec::new(),
            oldest_since: self.now,
        });
        self.live = Some(socket);
    }

    /// A live socket that is superseded or closed may count against what it got.
    fn count_signs(&mut self, socket: SocketNumber) {
        if self.tenure(socket).is_some_and(|tenure| self.now >= tenure.ready) {
            self.entries.iter_mut().for_each(|entry| entry.signs += 1);
        }
    }

    fn tenure(&self, socket: SocketNumber) -> Option<&Tenure> {
        Some(&self.tenures[self.sockets.get(&socket)?.tenure?])
    }

    pub fn window(&self, socket: SocketNumber) -> usize {
        self.tenure(socket).map_or(0, |tenure| tenure.window)
    }

    /// What the socket got as the live one and did not acknowledge, oldest first.
    pub fn unacknowledged(&self, socket: SocketNumber) -> &[EntryNumber] {
        self.tenure(socket).map_or(&[], |tenure| &tenure.unacknowledged)
    }

    /// A socket got an entry.
    pub fn delivered(&mut self, socket: SocketNumber, id: &str) -> Result<(), String> {
        let number = *self.numbers.get(id).ok_or_else(|| format!("nobody wrote what socket {socket} got"))?;
        let wrong = |why: &str| Err(format!("entry {number} came on socket {socket}, {why}"));
        let has_role = self.live == Some(socket) || self.sockets[&socket].may_trail;
        let Some(held) = self.sockets.get_mut(&socket) else { return wrong("which is closed") };
        let Some(tenure) = held.tenure else { return wrong("which has said no hello") };
        if !has_role {
            return wrong("which is not live");
        }
        if held.is_idle {
            return wrong("which is idle");
        }
        if held.descriptors == 0 {
            return wrong("before the descriptor");
        }
        held.got.push(number);
        let tenure = &mut self.tenures[tenure];
        if self.now < tenure.ready {
            return wrong("which still settles");
        }
        if tenure.forgotten.contains(&number) {
            return wrong("although its acknowledgement was committed before that socket was live");
        }
        if tenure.got.contains(&number) {
            return wrong("twice");
        }
        if tenure.got.last().is_some_and(|last| *last > number) {
            return wrong("after a later entry");
        }
        if let Some(skipped) = (0..number).find(|earlier| {
            self.entries[*earlier].must_be_there()
                && !tenure.forgotten.contains(earlier)
                && !tenure.got.contains(earlier)
        }) {
            return wrong(&format!("before entry {skipped}, which is older and unacknowledged"));
        }
        if tenure.unacknowledged.len() >= tenure.window {
            return wrong(&format!("beyond its window of {}", tenure.window));
        }
        if tenure.unacknowledged.is_empty() {
            tenure.oldest_since = self.now;
        }
        tenure.got.push(number);
        tenure.unacknowledged.push(number);
        Ok(())
    }

    pub fn acknowledged(&mut self, socket: SocketNumber, entry: EntryNumber) {
        self.entries[entry].acknowledged_on.insert(socket);
        for tenure in self.tenures.iter_mut().filter(|tenure| tenure.socket == socket) {
            if tenure.unacknowledged.first() == Some(&entry) {
                tenure.oldest_since = self.now;
            }
            tenure.unacknowledged.retain(|other| *other != entry);
        }
    }

    /// Whether the live socket must get something that it has not got yet.
    pub fn must_deliver(&self) -> bool {
        self.next_due(ModelEntry::must_be_there).is_some()
    }

    /// Whether the live socket may get something that need not come.
    pub fn may_deliver(&self) -> bool {
        self.next_due(|entry| !entry.must_be_there()).is_some()
    }

    fn next_due(&self, is_wanted: impl Fn(&ModelEntry) -> bool) -> Option<EntryNumber> {
        let live = self.live?;
        let tenure = self.tenure(live)?;
        let takes = !self.sockets[&live].is_idle
            && self.now >= tenure.ready
            && tenure.unacknowledged.len() < tenure.window;
        let mut due = self.entries.iter().enumerate().filter(|(number, entry)| {
            is_wanted(entry) && !tenure.forgotten.contains(number) && !tenure.got.contains(number)
        });
        if takes { due.next().map(|(number, _)| number) } else { None }
    }

    /// A socket got the acknowledgement of its `going_idle`.
    pub fn went_idle(&mut self, socket: SocketNumber) {
        self.is_idle |= self.live == Some(socket);
        self.sockets.get_mut(&socket).unwrap().is_idle = true;
    }

    /// Sockets whose time without a hello is over.
    pub fn overdue_hellos(&self, within: Duration) -> Vec<SocketNumber> {
        let overdue = |(number, socket): (&SocketNumber, &ModelSocket)| {
            (socket.tenure.is_none() && self.now >= socket.opened + within).then_some(*number)
        };
        self.sockets.iter().filter_map(overdue).collect()
    }

    /// The live socket, if it has not acknowledged its oldest entry within the lease.
    pub fn overdue_acknowledgement(&self, lease: Duration) -> Option<SocketNumber> {
        self.live.filter(|live| {
            self.tenure(*live).is_some_and(|tenure| {
                !tenure.unacknowledged.is_empty() && self.now >= tenure.oldest_since + lease
            })
        })
    }

    /// The socket that takes over if this one ends.
    pub fn successor(&self, of: SocketNumber) -> Option<SocketNumber> {
        if self.live != Some(of) || self.is_idle {
            return None;
        }
        // The first time it was live counts: taking over is no merit.
        let first = |number: &SocketNumber| self.tenures.iter().position(|tenure| tenure.socket == *number);
        let fit = self.sockets.iter().filter(|(number, socket)| **number != of && !socket.is_idle);
        fit.filter_map(|(number, _)| Some((first(number)?, *number))).max().map(|(_, number)| number)
    }

    /// A socket has ended, and the server knows.
    pub fn ended(&mut self, socket: SocketNumber, was_closed: bool) {
        if self.is_seated(socket) {
            if was_closed {
                self.count_signs(socket);
            }
            self.entries.iter_mut().for_each(|entry| entry.losses += 1);
        }
        self.sockets.remove(&socket);
        self.live.take_if(|live| *live == socket);
    }

    /// A standby takes over. It keeps its window and the time until which it settles.
    pub fn took_over(&mut self, socket: SocketNumber) {
        let Some(Tenure { window, ready, .. }) = self.tenure(socket) else { return };
        self.begin(socket, *window, *ready);
    }

    /// Whether something has left the inbox and only the dead letters can say why.
    pub fn suspects_death(&self, unread: &[String]) -> bool {
        let is_unexplained =
            |entry: &ModelEntry| !entry.gone && entry.may_be_dead() && !unread.contains(&entry.id);
        self.entries.iter().any(is_unexplained)
    }

    /// Compares with the inbox and the dead letters in the ledger.
    pub fn compare(&mut self, unread: &[String], dead: &[String]) -> Result<(), String> {
        let unread: Vec<EntryNumber> = unread.iter().filter_map(|id| self.numbers.get(id).copied()).collect();
        if !unread.is_sorted() {
            return Err(format!("the inbox is out of order: {unread:?}"));
        }
        for (number, entry) in self.entries.iter_mut().enumerate() {
            if unread.contains(&number) {
                if entry.gone {
                    return Err(format!("entry {number} is in the inbox again"));
                }
                continue;
            }
            if entry.gone {
                continue;
            }
            entry.dead = dead.contains(&entry.id);
            if entry.dead && !entry.may_be_dead() {
                return Err(format!("entry {number} became a dead letter too early"));
            }
            if !entry.dead && !entry.is_acknowledged() {
                let (signs, losses) = (entry.signs, entry.losses);
                return Err(format!(
                    "entry {number} has left the inbox and nobody acknowledged it ({signs} signs of poison, {losses} losses)"
                ));
            }
            entry.gone = true;
        }
        Ok(())
    }

    /// An entry whose acknowledgement must be committed by now, because the socket is open and the server has read it,
    /// and is not.
    pub fn uncommitted(&self, without: Option<SocketNumber>) -> Option<EntryNumber> {
        let is_open = |socket: &SocketNumber| self.sockets.contains_key(socket) && Some(*socket) != without;
        self.entries.iter().position(|entry| !entry.gone && entry.acknowledged_on.iter().any(is_open))
    }

    /// An entry that this socket acknowledged and that is still in the inbox.
    pub fn uncommitted_on(&self, socket: SocketNumber) -> Option<EntryNumber> {
        self.entries.iter().position(|entry| !entry.gone && entry.acknowledged_on.contains(&socket))
    }

    /// What must be true when everything is over: each entry came at least once, first in the order of its chat.
    pub fn conclude(&self) -> Result<(), String> {
        let mut first: Vec<EntryNumber> = Vec::new();
        for number in self.tenures.iter().flat_map(|tenure| &tenure.got) {
            if !first.contains(number) {
                first.push(*number);
            }
        }
        for (number, entry) in self.entries.iter().enumerate() {
            if !first.contains(&number) && !entry.dead {
                return Err(format!("entry {number} never came"));
            }
            if !entry.gone {
                return Err(format!("entry {number} is still in the inbox"));
            }
        }
        let chats: BTreeSet<u8> = self.entries.iter().map(|entry| entry.chat).collect();
        for chat in chats {
            let of_chat: Vec<_> = first.iter().filter(|number| self.entries[**number].chat == chat).collect();
            if !of_chat.is_sorted() {
                return Err(format!("the entries of chat {chat} came in the order {of_chat:?}"));
            }
        }
        Ok(())
    }
}
