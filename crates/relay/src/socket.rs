//! One relay connection: the task that owns an agent's WebSocket. Other code reaches it through its seat.

mod components;
mod delivery;
mod hello;
mod reading;
mod writing;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use identity::{GatewayOwner, SocketPlace};
use ledger::BotRef;
use posthouse_time::{Instant, Timepiece};
use posthouse_wire::frame::LineAssembler;
use posthouse_wire::{Action, FromGateway, ToGateway};
use tokio::sync::Notify;

use crate::actions::RequestingSocket;
use crate::agent_connections::{AgentConnections, Orders, QueuedFrame, Role};
use crate::fires::FireAnswer;
use crate::generation::Proof;
use crate::{Egress, MessageMeter};
pub(crate) use components::SocketComponents;
use delivery::Delivery;
use reading::Backlog;
pub(crate) use writing::{await_goodbye, say_goodbye};

/// Interval of pings on an idle socket.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Time without any message or pong after which a socket is closed.
const SILENT_AFTER: Duration = Duration::from_secs(90);
/// Time within which a socket needs an accepted hello. An agent waits 30 s for the answer.
const HELLO_WITHIN: Duration = Duration::from_secs(25);
/// Time limit at shutdown for acknowledgements and results in flight.
const FAREWELL: Duration = Duration::from_secs(3);
/// Payload of the ping that follows a stop.
const STOP_PING: &[u8] = b"stop";

pub(crate) struct Socket {
    id: u64,
    components: Arc<SocketComponents>,
    egress: Arc<dyn Egress>,
    holder: GatewayOwner,
    stream: WebSocket,
    lines: LineAssembler,
    connections: Arc<AgentConnections>,
    /// Notified when there are orders for this socket.
    orders_ready: Arc<Notify>,
    /// The gateway version that its hellos have proved so far.
    proof: Proof,
    /// Set with the first accepted hello.
    seated: Option<Box<Seated>>,
    opened: Instant,
    /// Times of the last message from the peer and of our last ping.
    heard: Instant,
    pinged: Instant,
    /// Last time at which nothing was read from the peer because its own backlog was full.
    paused: Instant,
    /// Data that was read and is not processed yet, if any.
    backlog: Option<Box<Backlog>>,
    /// Nothing is read before this time.
    reads_from: Instant,
    meter: MessageMeter,
}

/// State of a socket after its first accepted hello.
struct Seated {
    /// The role that this task last saw. The state in `agent_connections` is authoritative.
    role: Role,
    /// The bots it sent a hello for. The first is its default.
    advertised: Vec<BotRef>,
    delivery: Delivery,
}

/// Result of a read. `None` when the stream has ended.
type Received = Option<Result<Message, axum::Error>>;

/// Reason for the end of a connection.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// The peer closed, or the connection broke.
    Gone,
    /// The server closes it.
    Close { code: u16, reason: &'static str },
}

use Ending::{Close, Gone};

/// Serves one connection. Not an `async fn`: its future would keep space for the arguments for its whole life.
pub(crate) fn serve(
    components: Arc<SocketComponents>,
    egress: Arc<dyn Egress>,
    holder: GatewayOwner,
    stream: WebSocket,
    (meter, place): (MessageMeter, SocketPlace),
) -> impl Future<Output = ()> + Send {
    let now = components.timepiece.instant();
    components.metrics.sockets.inc();
    // Tracked, so that shutdown waits for the closing handshake.
    let tracked = components.background.tasks.token();
    let orders_ready = Arc::new(Notify::new());
    let (id, connections) = components.seats.arrive(&holder, Arc::clone(&egress), Arc::clone(&orders_ready));
    meter.joins(&connections.meter);
    let mut socket = Socket {
        id,
        connections,
        meter,
        components,
        egress,
        holder,
        stream,
        lines: LineAssembler::new(reading::LONGEST_LINE),
        orders_ready,
        proof: Proof::default(),
        seated: None,
        opened: now,
        heard: now,
        pinged: now,
        paused: now,
        backlog: None,
        reads_from: now,
    };
    async move {
        let ending = socket.run().await;
        Box::pin(socket.leave(ending)).await;
        drop((tracked, place));
    }
}

impl Socket {
    async fn run(&mut self) -> Ending {
        let closing = self.components.background.closing.clone();
        let timepiece = self.components.timepiece.clone();
        let orders_ready = Arc::clone(&self.orders_ready);
        let mut farewell: Option<Instant> = None;
        loop {
            if let Some(until) = farewell
                && (self.has_nothing_in_flight() || timepiece.instant() >= until)
            {
                return Close { code: 1012, reason: "the server is shutting down" };
            }
            let now = timepiece.instant();
            let due = self.next_timer().min(farewell.unwrap_or(Instant::NEVER));
            let looks = if self.reads_from > now { due.min(self.reads_from) } else { due };
            let goes_on = if self.backlog.is_none() { Instant::NEVER } else { self.goes_on() };
            // The branches are ordered by the cost of starting to wait for them. Due timers come first, so that
            // a peer that sends without pause cannot delay them.
            let step = tokio::select! {
                biased;
                () = std::future::ready(()), if now >= due => Box::pin(self.tick()).await,
                () = orders_ready.notified() => Box::pin(self.heed()).await,
                () = progress(&mut self.seated, &timepiece) => Ok(()),
                () = closing.cancelled(), if farewell.is_none() => {
                    farewell = Some(timepiece.instant() + FAREWELL);
                    Ok(())
                }
                message = self.stream.recv(), if self.reads(now) => {
                    Box::pin(self.messages(message)).await
                }
                () = timepiece.sleep_until(goes_on), if self.backlog.is_some() => {
                    Box::pin(self.work_on()).await
                }
                () = timepiece.sleep_until(looks) => Box::pin(self.tick()).await,
            };
            self.start_committing();
            let step = match step {
                Ok(()) if farewell.is_none() => Box::pin(self.pump()).await,
                other => other,
            };
            if let Err(ending) = step {
                return ending;
            }
        }
    }

    fn now(&self) -> Instant {
        self.components.timepiece.instant()
    }

    async fn frame(&mut self, frame: FromGateway, weight: usize) -> Result<(), Ending> {
        match frame {
            FromGateway::Hello(hello) => self.hello(hello).await,
            FromGateway::InboundAck { entry } => {
                self.acknowledged(entry);
                Ok(())
            }
            FromGateway::Outbound(outbound) => {
                let asking = RequestingSocket {
                    socket: self.id,
                    connections: &self.connections,
                    holder: &self.holder,
                    advertised: self.seated.as_ref().map_or(&[][..], |seated| &seated.advertised),
                    proof: self.proof,
                    egress: &self.egress,
                    weight,
                };
                let request_id = outbound.request_id.clone();
                let types = matches!(outbound.action, Action::Typing { .. });
                match self.components.actions.accept(asking, outbound).await {
                    // Sent by this task itself, so that a peer that asks faster than it reads delays only itself.
                    Some(result) => self.send(&ToGateway::OutboundResult { request_id, result }.line()).await,
                    None => {
                        self.works(types);
                        Ok(())
                    }
                }
            }
            FromGateway::Interrupt { session_key, .. } => {
                if let Err(fault) = self.components.interrupts.interrupt_from(&self.holder, session_key).await
                {
                    tracing::error!(%fault, "could not look up the session to stop");
                }
                Ok(())
            }
            FromGateway::GoingIdle => self.go_idle().await,
            FromGateway::CronFired { request_id, status, fired } => {
                self.components.fires.answered(
                    &self.holder.instance,
                    &request_id,
                    FireAnswer::Answer { status, fired },
                );
                Ok(())
            }
        }
    }

    /// Stops live delivery. Earlier frames are already on the wire, because this task writes in order. The flag is
    /// stored before the answer is sent.
    async fn go_idle(&mut self) -> Result<(), Ending> {
        if let Some(seated) = &mut self.seated {
            seated.delivery.idle = true;
        }
        if let Err(fault) = self.components.seats.go_idle(&self.connections, self.id).await {
            tracing::error!(%fault, "could not record that an agent is going idle");
            return Err(Close { code: 1011, reason: "try again" });
        }
        self.send(&ToGateway::GoingIdleAck.line()).await
    }

    /// Carries out the orders for this socket, after a notification.
    async fn heed(&mut self) -> Result<(), Ending> {
        let Some(Orders { role, mut lines, close }) = self.connections.state.lock().orders(self.id) else {
            return Ok(());
        };
        if let Some((code, reason)) = close {
            return Err(Close { code, reason });
        }
        let stops = lines.iter().any(|line| matches!(line, QueuedFrame::Immediate(_)));
        while let Some(line) = lines.pop_front() {
            if let Err(ending) = self.send(line.text()).await {
                lines.push_front(line);
                self.connections.state.lock().put_back(self.id, lines);
                return Err(ending);
            }
            if let QueuedFrame::Press(press) = line {
                self.sent_press(press);
            }
        }
        if stops {
            // A pong to this ping proves that the stops before it have arrived.
            self.ping_with(Bytes::from_static(STOP_PING)).await?;
        }
        self.change_role(role).await
    }

    /// Handles due timers: a ping, an expired lease, a silent peer, a socket without a hello.
    async fn tick(&mut self) -> Result<(), Ending> {
        let now = self.now();
        if self.has_read_ahead() {
            self.paused = now;
        }
        if now >= self.silent_at() {
            return Err(Close { code: 1001, reason: "silent" });
        }
        if self.seated.is_none() {
            if now >= self.opened + HELLO_WITHIN {
                return Err(Close { code: 1008, reason: "no usable identity" });
            }
            return self.ping_if_due(now).await;
        }
        self.check_lease(now).await?;
        self.ping_if_due(now).await
    }

    async fn ping_if_due(&mut self, now: Instant) -> Result<(), Ending> {
        if now >= self.next_ping() {
            self.ping().await?;
        }
        Ok(())
    }

    fn next_ping(&self) -> Instant {
        self.pinged.max(self.heard) + PING_EVERY
    }

    fn silent_at(&self) -> Instant {
        self.heard.max(self.paused) + SILENT_AFTER
    }

    fn next_timer(&self) -> Instant {
        let config = &self.components.config;
        let mut due = self.next_ping().min(self.silent_at());
        match &self.seated {
            None => due = due.min(self.opened + HELLO_WITHIN),
            Some(seated) => {
                if let Some(delivery) = seated.delivery.next_timer(config) {
                    due = due.min(delivery);
                }
            }
        }
        due
    }

    fn has_nothing_in_flight(&self) -> bool {
        self.seated.as_ref().is_none_or(|seated| {
            seated.delivery.has_nothing_in_flight()
                && !self
                    .connections
                    .state
                    .lock()
                    .running
                    .keys()
                    .any(|(gateway, _)| *gateway == self.holder.gateway)
        })
    }

    async fn leave(&mut self, ending: Ending) {
        if let Some(seated) = self.seated.take() {
            // A shutdown of the server never counts against an entry.
            let counts = ending == Gone && !self.components.background.closing.is_cancelled();
            let lost = if counts { seated.delivery.unanswered() } else { None };
            self.finish_acknowledging(seated.delivery).await;
            // The failed delivery is recorded before another socket can get the entry.
            if let Some(entry) = lost {
                self.record_failed_delivery(&entry, ledger::FailedDelivery::ConnectionLost).await;
            }
            let (instance, gateway) = (&self.holder.instance, &self.holder.gateway);
            match &ending {
                Gone => {
                    tracing::info!(instance.id = %instance, gateway.id = %gateway, "an agent has disconnected");
                }
                Close { code, reason } => {
                    tracing::info!(instance.id = %instance, gateway.id = %gateway, code, "closing an agent's socket: {reason}");
                }
            }
        }
        self.components.seats.stand(&self.connections, self.id);
        let timepiece = self.components.timepiece.clone();
        match ending {
            Close { code, reason } => say_goodbye(&mut self.stream, &timepiece, code, reason).await,
            Gone => self.answer_goodbye().await,
        }
        self.components.metrics.sockets.dec();
    }
}

/// Completes when a commit or read of this socket's delivery completes. Never completes without one.
async fn progress(seated: &mut Option<Box<Seated>>, timepiece: &Timepiece) {
    match seated {
        Some(seated) => seated.delivery.progress(timepiece).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight_of<F: Future>(
        _: impl Fn(
            Arc<SocketComponents>,
            Arc<dyn Egress>,
            GatewayOwner,
            WebSocket,
            (MessageMeter, SocketPlace),
        ) -> F,
    ) -> usize {
        size_of::<F>()
    }

    #[test]
    fn an_idle_socket_weighs_little() {
        let (task, seated) = (weight_of(serve), size_of::<Seated>());
        let codec = size_of::<WebSocket>();
        println!(
            "a socket's task: {task} bytes, {codec} of them the codec's, and {seated} once it is seated"
        );
        assert!(task + seated < 2048, "{task} and {seated} bytes for every idle agent");
    }
}
