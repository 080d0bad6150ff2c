//! Connection state of one agent: its sockets, recent entries for the live one, and undelivered results.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ledger::{Entry, Generation, HoldBack, InteractionMode, Seq};
use parking_lot::Mutex;
use posthouse_time::{Instant, Moment};
use posthouse_wire::{ChatId, EntryId, GatewayId, InstanceId, RequestId};
use tokio::sync::Notify;

use crate::actions::Lanes;
use crate::egress::Egress;
use crate::frame_rate_limit::FrameRateLimit;
use crate::generation::Proof;
use crate::message_meter::AgentMeter;
use crate::prompt_owners::{DeliveredPress, DeliveredPresses, PromptOwners};
use crate::turns::Turns;

/// Maximum number of entries in memory for a live socket. Beyond it, the socket reads from the ledger.
const TAIL: usize = 512;
/// Maximum number of results that wait for a gateway's next socket.
const OWED: usize = 256;
/// Maximum number of stops that wait for a busy socket. A later one would end the wrong turn anyway.
const STOPS: usize = 1024;

/// One connection, as seen by the rest of the server. Lines for it wait here, under the lock of the agent's connections,
/// until its task fetches them, so that nothing sent to a busy socket is lost.
pub(crate) struct Seat {
    pub socket: u64,
    pub gateway: GatewayId,
    pub role: Role,
    /// Wall-clock time of its connection, or of its first accepted hello.
    pub since: Moment,
    /// The turn number at which it became live. A higher number is more recent.
    pub served: u64,
    /// It announced that it goes idle. It gets no more inbound frames.
    pub idle: bool,
    /// It accepts cron fires on its socket.
    pub takes_fires: bool,
    /// Nothing is delivered to it before this time.
    pub settled: Instant,
    /// The version that its hellos proved, and the version that the operator pinned for its credential.
    pub proof: Proof,
    pub pinned: Generation,
    /// Whether entries of a chat with a running turn are held back.
    pub hold_back: HoldBack,
    /// Whether it gets interactions as events or whole.
    pub interactions: InteractionMode,
    /// The first entry that arrived after its first accepted hello.
    pub first_live: Option<Seq>,
    /// Time of its last pong to the ping after a stop, which proves that the stop has arrived.
    pub stops_arrived: Option<Instant>,
    /// Carries out the agent's actions, and the server's own messages to the people it talks to.
    pub egress: Arc<dyn Egress>,
    /// Presses that it got although it was not live.
    pub presses: DeliveredPresses,
    orders_ready: Arc<Notify>,
    lines: VecDeque<QueuedFrame>,
    close: Option<Closing>,
}

/// Role of a connection. At most one connection of an agent is live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// No hello was accepted yet.
    Arriving,
    Live,
    /// A connection with another credential of the same agent. Its requests are answered; it gets no messages.
    Reserve,
    /// Superseded by a newer socket of the same credential. Its requests are answered; it gets no messages, and is
    /// kept as long as it answers pings.
    Standby,
}

/// One complete line to send.
pub(crate) enum QueuedFrame {
    /// Goes to another socket when this one is gone.
    Result(ResultLine),
    /// Dropped when the socket ends.
    Immediate(String),
    /// A press of a prompt that this socket asked. When the socket ends, the live socket reads it from the ledger.
    Press(DeliveredPress),
}

impl QueuedFrame {
    pub fn text(&self) -> &str {
        match self {
            QueuedFrame::Result(result) => &result.line,
            QueuedFrame::Immediate(line) => line,
            QueuedFrame::Press(press) => &press.line,
        }
    }
}

/// The line with the result of a request.
pub(crate) struct ResultLine {
    pub line: String,
    /// The chat that the request was about, if it is known.
    pub chat: Option<ChatId>,
}

/// Code and reason of a close that the server orders.
pub(crate) type Closing = (u16, &'static str);

/// Orders that a socket's task fetches after a notification.
pub(crate) struct Orders {
    pub role: Role,
    pub lines: VecDeque<QueuedFrame>,
    pub close: Option<Closing>,
}

pub(crate) struct AgentConnections {
    pub instance: InstanceId,
    pub state: Mutex<State>,
    pub lanes: Lanes,
    /// Rate limit of its frames, over all its sockets.
    pub frame_rate_limit: Mutex<FrameRateLimit>,
    /// Bytes of unprocessed messages, over all its sockets.
    pub meter: AgentMeter,
}

#[derive(Default)]
pub(crate) struct State {
    pub seats: Vec<Seat>,
    /// Increases whenever a socket becomes live, so that a socket knows when another one was live in between.
    pub turn: u64,
    /// Entries committed since the live socket last read, oldest first.
    tail: VecDeque<Entry>,
    /// The tail is incomplete. The ledger must be read again.
    pub behind: bool,
    /// Entries older than those already delivered were put back into the queue.
    pub rewound: bool,
    /// The agent announced that it goes idle. Nothing is delivered live until a new hello.
    pub idle: bool,
    /// The agent's turns.
    pub turns: Turns,
    /// The sockets that asked its latest prompts.
    pub prompts: PromptOwners,
    /// Stop entries that were sent as interrupts, until it is known whether the agent honoured them. At most one per
    /// chat.
    pub stopping: Vec<(EntryId, ChatId)>,
    /// Honoured stops and entries acknowledged by superseded sockets, until they come up for delivery.
    pub served: VecDeque<EntryId>,
    /// Running requests, with the socket that asked last.
    pub running: HashMap<(GatewayId, RequestId), u64>,
    /// Their total size in bytes.
    pub running_bytes: usize,
    /// Results whose socket had closed, by gateway.
    owed: VecDeque<(GatewayId, Instant, String)>,
}

impl AgentConnections {
    pub fn new(instance: InstanceId) -> Self {
        let state = State { behind: true, ..State::default() };
        Self {
            instance,
            state: Mutex::new(state),
            lanes: Lanes::default(),
            frame_rate_limit: Mutex::default(),
            meter: AgentMeter::default(),
        }
    }
}

impl Seat {
    pub fn arriving(
        socket: u64,
        gateway: GatewayId,
        since: Moment,
        egress: Arc<dyn Egress>,
        orders_ready: Arc<Notify>,
    ) -> Self {
        let role = Role::Arriving;
        Self {
            socket,
            gateway,
            role,
            since,
            served: 0,
            idle: false,
            takes_fires: false,
            settled: Instant::default(),
            proof: Proof::default(),
            pinned: Generation::default(),
            hold_back: HoldBack::default(),
            interactions: InteractionMode::default(),
            first_live: None,
            stops_arrived: None,
            egress,
            presses: DeliveredPresses::default(),
            orders_ready,
            lines: VecDeque::new(),
            close: None,
        }
    }

    pub fn becomes(&mut self, role: Role) {
        self.role = role;
        self.orders_ready.notify_one();
    }

    pub fn close(&mut self, code: u16, reason: &'static str) {
        self.close = Some((code, reason));
        self.orders_ready.notify_one();
    }

    pub fn ordered_to_close(&self) -> Option<Closing> {
        self.close
    }

    pub fn notify_task(&self) {
        self.orders_ready.notify_one();
    }

    /// Queues a press.
    pub fn hand(&mut self, press: DeliveredPress) {
        self.lines.push_back(QueuedFrame::Press(press));
        self.orders_ready.notify_one();
    }

    /// Queues a line that is useless later. Returns false when the queue is full.
    pub fn send_now(&mut self, line: String) -> bool {
        let room = self.lines.len() < STOPS;
        if room {
            self.lines.push_back(QueuedFrame::Immediate(line));
            self.orders_ready.notify_one();
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

    /// Whether this is the socket that gets entries.
    pub fn is_live(&self, socket: u64) -> bool {
        self.live().is_some_and(|live| live.socket == socket && live.close.is_none())
    }

    /// Takes the orders of a socket. A socket that is ordered to close gets no lines: its results stay here and go to
    /// another socket of the gateway when its seat is removed.
    pub fn orders(&mut self, socket: u64) -> Option<Orders> {
        let seat = self.seat(socket)?;
        let lines = if seat.close.is_none() { std::mem::take(&mut seat.lines) } else { VecDeque::new() };
        Some(Orders { role: seat.role, lines, close: seat.close })
    }

    /// Puts unsent lines back in front of the queue, so that removing the seat finds them.
    pub fn put_back(&mut self, socket: u64, unsent: VecDeque<QueuedFrame>) {
        if let Some(seat) = self.seat(socket) {
            let later = std::mem::replace(&mut seat.lines, unsent);
            seat.lines.extend(later);
        }
    }

    /// Removes a seat. Its unsent results go to the gateway's other sockets or wait for the next one.
    pub fn remove(&mut self, socket: u64, now: Instant) -> Option<Role> {
        let at = self.seats.iter().position(|seat| seat.socket == socket)?;
        let left = self.seats.remove(at);
        if !left.presses.is_empty() {
            // What it did not acknowledge is for the live socket now.
            self.rewound = true;
            if let Some(live) = self.live() {
                live.notify_task();
            }
        }
        for line in left.lines {
            if let QueuedFrame::Result(line) = line {
                self.answer(socket, &left.gateway, line, now);
            }
        }
        Some(left.role)
    }

    /// Queues a newly committed entry for the live socket. Returns false when no socket will deliver it.
    pub fn appended(&mut self, entry: Entry) -> bool {
        for seat in self.seats.iter_mut().filter(|seat| seat.role != Role::Arriving) {
            seat.first_live.get_or_insert(entry.seq);
        }
        let Some(live) = self.seats.iter().find(|seat| seat.role == Role::Live && !self.idle) else {
            return false;
        };
        live.notify_task();
        if self.tail.len() >= TAIL {
            self.fall_behind();
        } else if !self.behind {
            self.tail.push_back(entry);
        }
        true
    }

    /// The next entry of the tail. `None` when it is empty or incomplete.
    pub fn next(&mut self) -> Option<Entry> {
        if self.behind { None } else { self.tail.pop_front() }
    }

    /// Drops the entries in memory. The ledger still has them.
    pub fn fall_behind(&mut self) {
        self.tail.clear();
        self.behind = true;
    }

    /// Starts collecting the tail, for a socket that now reads the ledger up to here.
    pub fn catch_up(&mut self) {
        self.tail.clear();
        self.behind = false;
    }

    /// Sends a result to the socket that asked. If it is gone, the result goes to the socket of its gateway that got the
    /// last entry of the chat, because the agent's session goes on there, else to the newest one. If the gateway has no
    /// socket, the result waits for the next one: a stock agent goes on waiting across its own reconnect (contract
    /// section 11.1). Sockets of other credentials never get it: they did not ask.
    pub fn answer(&mut self, asked_by: u64, gateway: &GatewayId, result: ResultLine, now: Instant) {
        let takers = result.chat.as_ref().map(|chat| self.turns.takers(chat)).unwrap_or_default();
        let seats = self.seats.iter_mut().filter(|seat| seat.gateway == *gateway);
        let fit = seats.filter(|seat| seat.role != Role::Arriving || seat.socket == asked_by);
        let preference = |seat: &&mut Seat| {
            let took = takers.iter().position(|taker| *taker == seat.socket);
            (seat.socket == asked_by, took, seat.socket)
        };
        if let Some(seat) = fit.max_by_key(preference) {
            seat.lines.push_back(QueuedFrame::Result(result));
            seat.orders_ready.notify_one();
            return;
        }
        if self.owed.len() >= OWED {
            self.owed.pop_front();
        }
        self.owed.push_back((gateway.clone(), now, result.line));
    }

    /// Takes the kept results of a gateway that came back. Those that it no longer waits for are dropped.
    pub fn take_results_for(&mut self, gateway: &GatewayId, since: Instant) -> Vec<String> {
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

#[cfg(test)]
mod tests {
    use crate::tests::{connections, heron};

    use super::*;

    #[test]
    fn a_result_for_a_socket_that_is_ordered_to_close_goes_to_another_of_its_gateway() {
        let connections = connections();
        let closing = connections.with_live_socket(&heron(), |_| {});
        let other = connections.with_live_socket(&heron(), |seat| seat.role = Role::Standby);
        let now = Instant::default();
        {
            let agent = connections.of(&heron());
            let mut state = agent.state.lock();
            let result = ResultLine { line: "the result".to_owned(), chat: None };
            state.answer(closing, &"gw-1".into(), result, now);
            state.seat(closing).unwrap().close(4409, "superseded");
        }
        assert_eq!(connections.orders_of(&heron(), closing), (Vec::new(), Some(4409)));
        connections.of(&heron()).state.lock().remove(closing, now);
        assert_eq!(connections.orders_of(&heron(), other).0, ["the result"]);
    }

    #[test]
    fn a_result_whose_socket_is_gone_goes_to_the_one_that_got_the_chats_last_entry() {
        let connections = connections();
        let took = connections.with_live_socket(&heron(), |seat| seat.role = Role::Standby);
        let newest = connections.with_live_socket(&heron(), |_| {});
        let (now, gone) = (Instant::default(), 77);
        let agent = connections.of(&heron());
        let answer = |line: &str, chat: Option<&str>| {
            let result = ResultLine { line: line.to_owned(), chat: chat.map(Into::into) };
            agent.state.lock().answer(gone, &"gw-1".into(), result, now);
        };
        agent.state.lock().turns.handed(&"5".into(), 0, newest, now);
        agent.state.lock().turns.handed(&"5".into(), 1, took, now);
        agent.state.lock().turns.handed(&"6".into(), 0, gone, now);
        answer("of the chat", Some("5"));
        answer("of another chat", Some("7"));
        answer("of a chat whose socket is gone", Some("6"));
        answer("of no chat", None);
        assert_eq!(connections.orders_of(&heron(), took).0, ["of the chat"]);
        let rest = ["of another chat", "of a chat whose socket is gone", "of no chat"];
        assert_eq!(connections.orders_of(&heron(), newest).0, rest);
    }
}
