//! One live connection. Its task owns the stream; the rest of the house asks.

mod delivery;
mod hello;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use bytes::Bytes;
use futures_util::{FutureExt, SinkExt};
use ledger::Identity;
use posthouse_time::Moment;
use posthouse_wire::frame::{Lines, Unread, in_messages};
use posthouse_wire::{FromGateway, Outcome, ToGateway};
use tokio::sync::mpsc;
use vault::Holder;

use crate::desk::{Desk, Role, Word};
use crate::{Egress, Relay};
use delivery::Delivery;

/// The longest line taken from an agent.
const LONGEST_LINE: usize = 4 * 1024 * 1024;
/// What one message to an agent may weigh: half of what a stock one accepts.
const LARGEST_MESSAGE: usize = 512 * 1024;
/// Words that wait for this socket's task.
const WORDS: usize = 256;
/// How long a closing house waits for acknowledgements and answers in flight.
const FAREWELL: Duration = Duration::from_secs(3);
/// How long the peer has to answer a close.
const CLOSING: Duration = Duration::from_secs(2);

pub(crate) struct Socket {
    id: u64,
    relay: Relay,
    egress: Arc<dyn Egress>,
    holder: Holder,
    stream: WebSocket,
    lines: Lines,
    orders: mpsc::Sender<Word>,
    /// Set with the first accepted hello.
    seated: Option<Seated>,
    opened: Moment,
    /// When anything was last heard from the peer, and when we last asked.
    heard: Moment,
    pinged: Moment,
    /// When it last asked for something; a standby without requests is closed.
    asked: Moment,
}

/// What a socket is once it is live.
struct Seated {
    desk: Arc<Desk>,
    role: Role,
    /// The pairs it said hello for, the first being its default.
    advertised: Vec<Identity>,
    delivery: Delivery,
}

/// How a connection ends.
#[derive(Debug, PartialEq, Eq)]
enum Ending {
    /// The peer went, or the line broke.
    Gone,
    /// We close it.
    Close { code: u16, reason: &'static str },
}

use Ending::{Close, Gone};

pub(crate) async fn serve(relay: Relay, egress: Arc<dyn Egress>, holder: Holder, stream: WebSocket) {
    let (orders, mut words) = mpsc::channel(WORDS);
    let now = relay.0.timepiece.now();
    let id = relay.0.sockets.fetch_add(1, Ordering::Relaxed);
    relay.0.metrics.sockets.inc();
    // Tracked, so that the closing house waits for the goodbye.
    let tracked = relay.0.tasks.token();
    let mut socket = Socket {
        id,
        relay,
        egress,
        holder,
        stream,
        lines: Lines::new(LONGEST_LINE),
        orders,
        seated: None,
        opened: now,
        heard: now,
        pinged: now,
        asked: now,
    };
    let ending = socket.run(&mut words).await;
    socket.leave(ending).await;
    drop(tracked);
}

impl Socket {
    async fn run(&mut self, words: &mut mpsc::Receiver<Word>) -> Ending {
        let closing = self.relay.0.closing.clone();
        let timepiece = self.relay.0.timepiece.clone();
        let mut farewell: Option<Moment> = None;
        loop {
            if let Some(until) = farewell
                && (self.has_nothing_in_flight() || timepiece.now() >= until)
            {
                return Close { code: 1012, reason: "the house is closing" };
            }
            let due = self.next_timer().min(farewell.unwrap_or(Moment::from_millis(i64::MAX)));
            let step = tokio::select! {
                message = self.stream.recv() => match message {
                    Some(Ok(message)) => self.message(message).await,
                    Some(Err(_)) | None => Err(Gone),
                },
                Some(word) = words.recv() => self.word(word).await,
                () = progress(&mut self.seated) => Ok(()),
                () = timepiece.until(due) => self.tick().await,
                () = closing.cancelled(), if farewell.is_none() => {
                    farewell = Some(timepiece.now() + FAREWELL);
                    Ok(())
                }
            };
            let step = match step {
                Ok(()) if farewell.is_none() => self.pump().await,
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

    async fn message(&mut self, message: Message) -> Result<(), Ending> {
        self.heard = self.now();
        let bytes: Bytes = match message {
            Message::Text(text) => text.into(),
            Message::Binary(bytes) => bytes,
            Message::Ping(_) => return Ok(()),
            Message::Pong(_) => return self.ponged().await,
            Message::Close(_) => return Err(Gone),
        };
        let mut frames = Vec::new();
        self.lines
            .push(&bytes, |line| frames.push(FromGateway::read(line)))
            .map_err(|_| Close { code: 1009, reason: "line too long" })?;
        for frame in frames {
            match frame {
                Ok(frame) => self.frame(frame).await?,
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

    async fn frame(&mut self, frame: FromGateway) -> Result<(), Ending> {
        match frame {
            FromGateway::Hello(hello) => self.hello(hello).await,
            FromGateway::InboundAck { entry } => {
                self.acknowledged(entry);
                Ok(())
            }
            FromGateway::Outbound(outbound) => {
                self.asked = self.now();
                let advertised = self.seated.as_ref().map_or(&[][..], |seated| &seated.advertised);
                self.relay.act(self.id, &self.holder, advertised, &self.egress, outbound);
                Ok(())
            }
            FromGateway::Interrupt { session_key, .. } => {
                if let Err(fault) = self.relay.interrupt_from(&self.holder, session_key).await {
                    tracing::error!(%fault, "could not look up a session to stop");
                }
                Ok(())
            }
            FromGateway::GoingIdle => self.go_idle().await,
        }
    }

    /// From now on nothing is delivered live; what was begun is already on the wire, since this task
    /// writes in order. The flag is durable before the answer.
    async fn go_idle(&mut self) -> Result<(), Ending> {
        if let Some(seated) = &mut self.seated {
            seated.desk.state.lock().idle = true;
            seated.delivery.idle = true;
        }
        if let Err(fault) = self.relay.0.roster.set_idle(&self.holder.instance, true).await {
            tracing::error!(%fault, "could not note that an agent is going idle");
            return Err(Close { code: 1011, reason: "try again" });
        }
        self.send(&ToGateway::GoingIdleAck.line()).await
    }

    async fn word(&mut self, word: Word) -> Result<(), Ending> {
        match word {
            Word::Look => Ok(()),
            Word::Line(line) => self.send(&line).await,
            Word::Role(role) => self.change_role(role).await,
            Word::Close { code, reason } => Err(Close { code, reason }),
        }
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

    async fn ping(&mut self) -> Result<(), Ending> {
        self.pinged = self.now();
        self.put(Message::Ping(Bytes::new())).await?;
        self.flush().await
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
                && !seated.desk.state.lock().running.keys().any(|(gateway, _)| *gateway == self.holder.gateway)
        })
    }

    /// One line, in messages that a stock agent accepts.
    async fn send(&mut self, line: &str) -> Result<(), Ending> {
        self.feed(line).await?;
        self.flush().await
    }

    async fn feed(&mut self, line: &str) -> Result<(), Ending> {
        for message in in_messages(line, LARGEST_MESSAGE) {
            self.put(Message::text(message)).await?;
        }
        Ok(())
    }

    async fn put(&mut self, message: Message) -> Result<(), Ending> {
        let limit = self.relay.0.config.silent_after.0;
        // A send is dropped half way only when the socket is given up with it.
        match self.relay.0.timepiece.within(limit, self.stream.feed(message)).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    async fn flush(&mut self) -> Result<(), Ending> {
        let limit = self.relay.0.config.silent_after.0;
        match self.relay.0.timepiece.within(limit, self.stream.flush()).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    async fn leave(mut self, ending: Ending) {
        if let Some(seated) = self.seated.take() {
            let lost = if ending == Gone { seated.delivery.oldest_outstanding() } else { None };
            self.finish_acknowledging(seated.delivery).await;
            // The entry is set back before another socket can be handed it.
            if let Some(entry) = lost {
                self.set_back(&entry, ledger::Setback::Loss).await;
            }
            self.relay.stand(&seated.desk, self.id);
        }
        if let Close { code, reason } = ending {
            let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
            let timepiece = self.relay.0.timepiece.clone();
            let goodbye = async {
                if self.stream.send(close).await.is_ok() {
                    // The close is complete when the peer has answered it.
                    while let Some(Ok(_)) = self.stream.recv().await {}
                }
            };
            let _ = timepiece.within(CLOSING, goodbye).await;
        }
        self.relay.0.metrics.sockets.dec();
    }
}

/// Completes when a commit or a read of this socket's delivery does; never, when there is none.
async fn progress(seated: &mut Option<Seated>) {
    match seated {
        Some(seated) => seated.delivery.progress().await,
        None => std::future::pending().fuse().await,
    }
}
