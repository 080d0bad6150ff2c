//! One live connection. Its task owns the stream; the rest of the house asks.

mod delivery;
mod hello;
mod writing;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use bytes::Bytes;
use futures_util::FutureExt;
use ledger::Identity;
use posthouse_time::Moment;
use posthouse_wire::frame::{Lines, Unread};
use posthouse_wire::{FromGateway, Outcome, ToGateway};
use tokio::sync::Notify;
use vault::Holder;

use crate::actions::Asking;
use crate::desk::{Desk, Line, Orders, Role};
use crate::fires::Said;
use crate::{Egress, Relay};
use delivery::Delivery;
use writing::broken;
pub(crate) use writing::{await_goodbye, say_goodbye};

/// The longest line taken from an agent.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// Messages heard at a time before anything else has its turn.
const PACK: usize = 64;
/// How long a closing house waits for acknowledgements and answers in flight.
const FAREWELL: Duration = Duration::from_secs(3);

pub(crate) struct Socket {
    id: u64,
    relay: Relay,
    egress: Arc<dyn Egress>,
    holder: Holder,
    stream: WebSocket,
    lines: Lines,
    desk: Arc<Desk>,
    /// Rings when the desk has orders for this socket.
    bell: Arc<Notify>,
    /// Set with the first accepted hello.
    seated: Option<Box<Seated>>,
    opened: Moment,
    /// When anything was last heard from the peer, and when we last asked.
    heard: Moment,
    pinged: Moment,
    /// When it last asked for something; a standby without requests is closed.
    asked: Moment,
}

/// What a socket is once it is live.
struct Seated {
    /// As this task last knew it; the desk has the truth.
    role: Role,
    /// The pairs it said hello for, the first being its default.
    advertised: Vec<Identity>,
    /// It announced our SDK.
    is_ours: bool,
    delivery: Delivery,
}

/// What the stream gave: nothing when it has ended.
type Received = Option<Result<Message, axum::Error>>;

/// How a connection ends.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// The peer went, or the line broke.
    Gone,
    /// We close it.
    Close { code: u16, reason: &'static str },
}

use Ending::{Close, Gone};

/// Not an `async fn`, which would keep room for its arguments beside the socket for as long as it lives.
pub(crate) fn serve(
    relay: Relay,
    egress: Arc<dyn Egress>,
    holder: Holder,
    stream: WebSocket,
) -> impl Future<Output = ()> + Send {
    let now = relay.0.timepiece.now();
    let id = relay.0.sockets.fetch_add(1, Ordering::Relaxed);
    relay.0.metrics.sockets.inc();
    // Tracked, so that the closing house waits for the goodbye.
    let tracked = relay.0.tasks.token();
    let bell = Arc::new(Notify::new());
    let mut socket = Socket {
        id,
        desk: relay.arrive(&holder, id, Arc::clone(&bell)),
        relay,
        egress,
        holder,
        stream,
        lines: Lines::new(LONGEST_LINE),
        bell,
        seated: None,
        opened: now,
        heard: now,
        pinged: now,
        asked: now,
    };
    async move {
        let ending = socket.run().await;
        Box::pin(socket.leave(ending)).await;
        drop(tracked);
    }
}

impl Socket {
    async fn run(&mut self) -> Ending {
        let closing = self.relay.0.closing.clone();
        let timepiece = self.relay.0.timepiece.clone();
        let bell = Arc::clone(&self.bell);
        let mut farewell: Option<Moment> = None;
        loop {
            if let Some(until) = farewell
                && (self.has_nothing_in_flight() || timepiece.now() >= until)
            {
                return Close { code: 1012, reason: "the house is closing" };
            }
            let due = self.next_timer().min(farewell.unwrap_or(Moment::from_millis(i64::MAX)));
            // In this order, since the further down one is, the more it costs to begin waiting for it;
            // what is due does not wait behind a peer that never stops talking.
            let step = tokio::select! {
                biased;
                () = std::future::ready(()), if timepiece.now() >= due => Box::pin(self.tick()).await,
                () = bell.notified() => Box::pin(self.heed()).await,
                () = progress(&mut self.seated) => Ok(()),
                () = closing.cancelled(), if farewell.is_none() => {
                    farewell = Some(timepiece.now() + FAREWELL);
                    Ok(())
                }
                message = self.stream.recv() => Box::pin(self.messages(message)).await,
                () = timepiece.until(due) => Box::pin(self.tick()).await,
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

    fn now(&self) -> Moment {
        self.relay.0.timepiece.now()
    }

    /// What was received, and what else lies there already: acknowledgements come in packs, and what
    /// follows from them is done once for a pack.
    async fn messages(&mut self, received: Received) -> Result<(), Ending> {
        self.message(received).await?;
        for _ in 1..PACK {
            let Some(received) = self.stream.recv().now_or_never() else { break };
            self.message(received).await?;
        }
        Ok(())
    }

    async fn message(&mut self, received: Received) -> Result<(), Ending> {
        self.heard = self.now();
        let bytes: Bytes = match received.ok_or(Gone)?.map_err(broken)? {
            Message::Text(text) => text.into(),
            Message::Binary(bytes) => bytes,
            Message::Ping(_) => return Ok(()),
            Message::Pong(_) => return self.ponged().await,
            Message::Close(_) => return Err(Gone),
        };
        // One line at a time: a message of a million tiny lines must not become a million frames at once.
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (mut frame, mut weight) = (Err(Unread::Ignored), 0);
            self.lines
                .push(piece, |line| (frame, weight) = (FromGateway::read(line), line.len()))
                .map_err(|_| Close { code: 1009, reason: "line too long" })?;
            match frame {
                Ok(frame) => self.frame(frame, weight).await?,
                Err(Unread::Answerable { request_id }) => {
                    let result = Outcome::failed("malformed request: no readable action");
                    self.send(&ToGateway::OutboundResult { request_id, result }.line()).await?;
                }
                // Unknown types and noise are ignored and the socket stays (contract section 5).
                Err(Unread::Ignored) => {}
            }
        }
        Ok(())
    }

    async fn frame(&mut self, frame: FromGateway, weight: usize) -> Result<(), Ending> {
        match frame {
            FromGateway::Hello(hello) => self.hello(hello).await,
            FromGateway::InboundAck { entry } => {
                self.acknowledged(entry);
                Ok(())
            }
            FromGateway::Outbound(outbound) => {
                self.asked = self.now();
                let asking = Asking {
                    socket: self.id,
                    desk: &self.desk,
                    holder: &self.holder,
                    advertised: self.seated.as_ref().map_or(&[][..], |seated| &seated.advertised),
                    is_ours: self.seated.as_ref().is_some_and(|seated| seated.is_ours),
                    egress: &self.egress,
                    weight,
                };
                let request_id = outbound.request_id.clone();
                match self.relay.act(asking, outbound) {
                    // Said by this task itself: a peer that asks faster than it reads holds up only itself.
                    Some(result) => self.send(&ToGateway::OutboundResult { request_id, result }.line()).await,
                    None => Ok(()),
                }
            }
            FromGateway::Interrupt { session_key, .. } => {
                if let Err(fault) = self.relay.interrupt_from(&self.holder, session_key).await {
                    tracing::error!(%fault, "could not look up a session to stop");
                }
                Ok(())
            }
            FromGateway::GoingIdle => self.go_idle().await,
            FromGateway::CronFired { request_id, status, fired } => {
                self.relay.fired(&self.holder.instance, &request_id, Said::Answer { status, fired });
                Ok(())
            }
        }
    }

    /// From now on nothing is delivered live; what was begun is already on the wire, since this task
    /// writes in order. The flag is durable before the answer.
    async fn go_idle(&mut self) -> Result<(), Ending> {
        if let Some(seated) = &mut self.seated {
            seated.delivery.idle = true;
        }
        if self.relay.go_idle(&self.desk, self.id) {
            let (roster, instance) = (&self.relay.0.roster, &self.holder.instance);
            let mut noted = roster.set_idle(instance, true).await;
            // It may have come back by another socket while this was being written.
            if !self.desk.state.lock().idle {
                noted = roster.set_idle(instance, false).await;
            }
            if let Err(fault) = noted {
                tracing::error!(%fault, "could not note that an agent is going idle");
                return Err(Close { code: 1011, reason: "try again" });
            }
        }
        self.send(&ToGateway::GoingIdleAck.line()).await
    }

    /// The bell has rung: does what the desk has for this socket.
    async fn heed(&mut self) -> Result<(), Ending> {
        let Some(Orders { role, mut lines, close }) = self.desk.state.lock().orders(self.id) else {
            return Ok(());
        };
        if let Some((code, reason)) = close {
            return Err(Close { code, reason });
        }
        while let Some(line) = lines.pop_front() {
            let (Line::Result(text) | Line::Stop(text)) = &line;
            if let Err(ending) = self.send(text).await {
                lines.push_front(line);
                self.desk.state.lock().put_back(self.id, lines);
                return Err(ending);
            }
        }
        self.change_role(role).await
    }

    /// Whatever is due: a ping, a lease that ran out, a silent peer, a socket that never said hello.
    async fn tick(&mut self) -> Result<(), Ending> {
        let (now, config) = (self.now(), self.relay.0.config.clone());
        if now >= self.heard + config.silent_after.0 {
            return Err(Close { code: 1001, reason: "silent" });
        }
        let Some(seated) = &self.seated else {
            if now >= self.opened + config.hello_within.0 {
                return Err(Close { code: 1008, reason: "no usable identity" });
            }
            return self.ping_if_due(now).await;
        };
        if seated.role == Role::Standby && now >= self.asked + config.standby.0 {
            return Err(Close { code: 4409, reason: "superseded" });
        }
        self.check_lease(now).await?;
        self.ping_if_due(now).await
    }

    async fn ping_if_due(&mut self, now: Moment) -> Result<(), Ending> {
        if now >= self.next_ping() {
            self.ping().await?;
        }
        Ok(())
    }

    fn next_ping(&self) -> Moment {
        self.pinged.max(self.heard) + self.relay.0.config.ping_every.0
    }

    fn next_timer(&self) -> Moment {
        let config = &self.relay.0.config;
        let mut due = self.next_ping().min(self.heard + config.silent_after.0);
        match &self.seated {
            None => due = due.min(self.opened + config.hello_within.0),
            Some(seated) => {
                if seated.role == Role::Standby {
                    due = due.min(self.asked + config.standby.0);
                }
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
                && !self.desk.state.lock().running.keys().any(|(gateway, _)| *gateway == self.holder.gateway)
        })
    }

    async fn leave(&mut self, ending: Ending) {
        if let Some(seated) = self.seated.take() {
            // Our own shutdown never counts against an entry.
            let counts = ending == Gone && !self.relay.0.closing.is_cancelled();
            let lost = if counts { seated.delivery.unanswered() } else { None };
            self.finish_acknowledging(seated.delivery).await;
            // The entry is set back before another socket can be handed it.
            if let Some(entry) = lost {
                self.set_back(&entry, ledger::Setback::Loss).await;
            }
            let (instance, gateway) = (&self.holder.instance, &self.holder.gateway);
            match &ending {
                Gone => tracing::info!(instance.id = %instance, gateway.id = %gateway, "an agent hung up"),
                Close { code, reason } => {
                    tracing::info!(instance.id = %instance, gateway.id = %gateway, code, "an agent's socket is closed: {reason}");
                }
            }
        }
        self.relay.stand(&self.desk, self.id);
        let timepiece = self.relay.0.timepiece.clone();
        match ending {
            Close { code, reason } => say_goodbye(&mut self.stream, &timepiece, code, reason).await,
            Gone => self.answer_goodbye().await,
        }
        self.relay.0.metrics.sockets.dec();
    }
}

/// Completes when a commit or a read of this socket's delivery does; never, when there is none.
async fn progress(seated: &mut Option<Box<Seated>>) {
    match seated {
        Some(seated) => seated.delivery.progress().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weight_of<F: Future>(_: impl Fn(Relay, Arc<dyn Egress>, Holder, WebSocket) -> F) -> usize {
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
