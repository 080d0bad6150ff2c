//! One agent's place in this house: its sockets, its live tail, what is owed to it.

use std::collections::{HashMap, VecDeque};

use ledger::{Entry, Unread};
use parking_lot::Mutex;
use posthouse_time::Moment;
use posthouse_wire::{GatewayId, InstanceId, RequestId};
use tokio::sync::mpsc;

use crate::actions::Lanes;

/// Entries that wait in memory for a live socket; past that it reads them from the ledger.
const TAIL: usize = 512;
/// Results that wait for a gateway's next socket.
const OWED: usize = 256;

/// One connection, as the rest of the house knows it.
#[derive(Clone)]
pub(crate) struct Seat {
    pub socket: u64,
    pub gateway: GatewayId,
    pub role: Role,
    pub since: Moment,
    pub orders: mpsc::Sender<Word>,
}

/// What a connection is for. Exactly one of an agent's is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Live,
    /// Another credential's session of the same agent: answered, not delivered to.
    Reserve,
    /// Superseded by a newer socket of the same credential: answered for a while, then closed.
    Standby,
}

/// What a socket's task is told.
pub(crate) enum Word {
    /// There may be something to deliver.
    Look,
    /// One whole line to send.
    Line(String),
    Role(Role),
    Close { code: u16, reason: &'static str },
}

pub(crate) struct Desk {
    pub instance: InstanceId,
    pub state: Mutex<State>,
    pub lanes: Lanes,
}

#[derive(Default)]
pub(crate) struct State {
    pub seats: Vec<Seat>,
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
    /// Requests that are being acted on.
    pub running: HashMap<(GatewayId, RequestId), ()>,
    /// Finished results whose socket had gone, by gateway.
    owed: VecDeque<(GatewayId, Moment, String)>,
}

impl Desk {
    pub fn new(instance: InstanceId) -> Self {
        let state = State { behind: true, ..State::default() };
        Self { instance, state: Mutex::new(state), lanes: Lanes::default() }
    }
}

impl State {
    pub fn live(&self) -> Option<&Seat> {
        self.seats.iter().find(|seat| seat.role == Role::Live)
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
        let Some(live) = self.seats.iter().find(|seat| seat.role == Role::Live) else { return false };
        if self.tail.len() >= TAIL {
            self.tail.clear();
            self.behind = true;
        } else if !self.behind {
            self.tail.push_back(entry.clone());
        }
        // A full queue means that the socket will look anyway.
        let _ = live.orders.try_send(Word::Look);
        true
    }

    /// The next entry of the tail; nothing when it is empty or has a hole.
    pub fn next(&mut self) -> Option<Entry> {
        if self.behind { None } else { self.tail.pop_front() }
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
        let mut line = line;
        let mut of_gateway: Vec<&Seat> = self.seats.iter().filter(|seat| seat.gateway == *gateway).collect();
        of_gateway.sort_by_key(|seat| (seat.socket == asked_by, seat.socket));
        for seat in of_gateway.into_iter().rev() {
            match seat.orders.try_send(Word::Line(line)) {
                Ok(()) => return,
                Err(mpsc::error::TrySendError::Full(word) | mpsc::error::TrySendError::Closed(word)) => {
                    let Word::Line(back) = word else { return };
                    line = back;
                }
            }
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
