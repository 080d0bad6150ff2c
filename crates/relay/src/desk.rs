//! One agent's place in this house: its sockets, its live tail, what is owed to it.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ledger::{Entry, Unread};
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId, RequestId};
use tokio::sync::Notify;

use crate::actions::Lanes;

/// Entries that wait in memory for a live socket; past that it reads them from the ledger.
const TAIL: usize = 512;
/// Results that wait for a gateway's next socket.
const OWED: usize = 256;
/// Stops that wait for a socket too busy to take them; a later one would end the wrong turn anyway.
const STOPS: usize = 1024;

/// One connection, as the rest of the house knows it. What it is told lies here, under the desk's lock,
/// until its task fetches it: nothing said to a busy socket is lost.
pub(crate) struct Seat {
    pub socket: u64,
    pub gateway: GatewayId,
    pub role: Role,
    pub since: Moment,
    /// It said it is going idle: no inbound frame may follow on it.
    pub idle: bool,
    /// It takes fires down its socket.
    pub takes_fires: bool,
    /// Nothing is handed to it before this moment.
    pub settled: Moment,
    bell: Arc<Notify>,
    lines: VecDeque<Line>,
    close: Option<Closing>,
}

/// What a connection is for. At most one of an agent's is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// No hello of it was accepted yet.
    Arriving,
    Live,
    /// Another credential's session of the same agent: answered, not delivered to.
    Reserve,
    /// Superseded by a newer socket of the same credential: answered for a while, then closed.
    Standby,
}

/// One whole line to send.
pub(crate) enum Line {
    /// Finds another way when this socket is gone.
    Result(String),
    /// Ends with the socket.
    Stop(String),
}

/// The code and reason of a close that we order.
pub(crate) type Closing = (u16, &'static str);

/// What a socket's task finds when its bell has rung.
pub(crate) struct Orders {
    pub role: Role,
    pub lines: VecDeque<Line>,
    pub close: Option<Closing>,
}

pub(crate) struct Desk {
    pub instance: InstanceId,
    pub state: Mutex<State>,
    pub lanes: Lanes,
}

#[derive(Default)]
pub(crate) struct State {
    pub seats: Vec<Seat>,
    /// Counts who became live, so that a socket knows when another was served in between.
    pub turn: u64,
    /// Entries committed since the live socket last looked, oldest first.
    tail: VecDeque<Entry>,
    /// The tail has a hole: the ledger must be read again.
    pub behind: bool,
    /// Entries older than those already handed over are back in line.
    pub rewound: bool,
    /// It said it is going idle: nothing is delivered live until a new hello.
    pub idle: bool,
    /// It showed a sign of a newer generation, and that was noted.
    pub seen_newer: bool,
    /// How much lies in the inbox, once it was counted.
    pub unread: Option<Unread>,
    pub counted: Moment,
    /// Somebody is dropping what is too much.
    pub making_room: bool,
    /// Requests that are being acted on, and the socket that asked last.
    pub running: HashMap<(GatewayId, RequestId), u64>,
    /// What those weigh together.
    pub running_bytes: usize,
    /// Finished results whose socket had gone, by gateway.
    owed: VecDeque<(GatewayId, Moment, String)>,
}

impl Desk {
    pub fn new(instance: InstanceId) -> Self {
        let state = State { behind: true, ..State::default() };
        Self { instance, state: Mutex::new(state), lanes: Lanes::default() }
    }
}

impl Seat {
    pub fn arriving(socket: u64, gateway: GatewayId, since: Moment, bell: Arc<Notify>) -> Self {
        let role = Role::Arriving;
        Self {
            socket,
            gateway,
            role,
            since,
            idle: false,
            takes_fires: false,
            settled: Moment::default(),
            bell,
            lines: VecDeque::new(),
            close: None,
        }
    }

    pub fn becomes(&mut self, role: Role) {
        self.role = role;
        self.bell.notify_one();
    }

    pub fn close(&mut self, code: u16, reason: &'static str) {
        self.close = Some((code, reason));
        self.bell.notify_one();
    }

    pub fn ordered_to_close(&self) -> Option<Closing> {
        self.close
    }

    pub fn look(&self) {
        self.bell.notify_one();
    }

    /// Says something that is of no use later. False when too much waits already.
    pub fn stop(&mut self, line: String) -> bool {
        let room = self.lines.len() < STOPS;
        if room {
            self.lines.push_back(Line::Stop(line));
            self.bell.notify_one();
        }
        room
    }
}

impl State {
    pub fn live(&self) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.role == Role::Live)
    }

    pub fn seat(&mut self, socket: u64) -> Option<&mut Seat> {
        self.seats.iter_mut().find(|seat| seat.socket == socket)
    }

    /// Whether this socket, and no other, may be handed entries.
    pub fn is_live(&self, socket: u64) -> bool {
        self.live().is_some_and(|live| live.socket == socket)
    }

    pub fn orders(&mut self, socket: u64) -> Option<Orders> {
        let seat = self.seat(socket)?;
        Some(Orders { role: seat.role, lines: std::mem::take(&mut seat.lines), close: seat.close })
    }

    /// Lines that could not be sent lie where they lay; whoever clears the seat finds them.
    pub fn put_back(&mut self, socket: u64, unsent: VecDeque<Line>) {
        if let Some(seat) = self.seat(socket) {
            let later = std::mem::replace(&mut seat.lines, unsent);
            seat.lines.extend(later);
        }
    }

    /// Takes a seat away. Results it did not send go to the gateway's other sockets or wait for the next.
    pub fn remove(&mut self, socket: u64, now: Moment) -> Option<Role> {
        let at = self.seats.iter().position(|seat| seat.socket == socket)?;
        let left = self.seats.remove(at);
        for line in left.lines {
            if let Line::Result(line) = line {
                self.answer(socket, &left.gateway, line, now);
            }
        }
        Some(left.role)
    }

    /// Hears of a committed entry. True when a live socket will look at it.
    pub fn appended(&mut self, entry: &Entry) -> bool {
        if let Some(unread) = &mut self.unread {
            unread.entries += 1;
            unread.bytes += entry.event.len() as i64;
        }
        if self.idle {
            return false;
        }
        if self.live().is_none() {
            return false;
        }
        if self.tail.len() >= TAIL {
            self.fall_behind();
        } else if !self.behind {
            self.tail.push_back(entry.clone());
        }
        if let Some(live) = self.live() {
            live.look();
        }
        true
    }

    /// The next entry of the tail; nothing when it is empty or has a hole.
    pub fn next(&mut self) -> Option<Entry> {
        if self.behind { None } else { self.tail.pop_front() }
    }

    /// What waits in memory is let go; the ledger has it.
    pub fn fall_behind(&mut self) {
        self.tail.clear();
        self.behind = true;
    }

    /// Begins to collect the tail, for a socket that will now read the ledger up to here.
    pub fn catch_up(&mut self) {
        self.tail.clear();
        self.behind = false;
    }

    pub fn forgotten(&mut self, gone: Unread) {
        if let Some(unread) = &mut self.unread {
            unread.entries = (unread.entries - gone.entries).max(0);
            unread.bytes = (unread.bytes - gone.bytes).max(0);
        }
    }

    /// Sends a result to the socket that asked, else to its gateway's newest, else keeps it for the
    /// next one: a stock agent goes on waiting across its own reconnect (contract section 11.1).
    pub fn answer(&mut self, asked_by: u64, gateway: &GatewayId, line: String, now: Moment) {
        let seats = self.seats.iter_mut().filter(|seat| seat.gateway == *gateway);
        let fit = seats.filter(|seat| seat.role != Role::Arriving || seat.socket == asked_by);
        if let Some(seat) = fit.max_by_key(|seat| (seat.socket == asked_by, seat.socket)) {
            seat.lines.push_back(Line::Result(line));
            seat.bell.notify_one();
            return;
        }
        if self.owed.len() >= OWED {
            self.owed.pop_front();
        }
        self.owed.push_back((gateway.clone(), now, line));
    }

    /// What is owed to a gateway that came back; what it no longer waits for is forgotten.
    pub fn owed_to(&mut self, gateway: &GatewayId, since: Moment) -> Vec<String> {
        let mut lines = Vec::new();
        self.owed.retain_mut(|(of, at, line)| {
            if of == gateway && *at >= since {
                lines.push(std::mem::take(line));
            }
            of != gateway
        });
        lines
    }
}
