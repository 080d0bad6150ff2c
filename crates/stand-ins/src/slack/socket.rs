//! Socket Mode of Slack: tickets, hello, envelopes and their acknowledgement.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::Body,
    extract::{
        FromRequestParts,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade},
    },
    response::IntoResponse,
};
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::{SlackPlatform, events::DeliveryKind, settings::SlackApp};
use crate::harness::{ApiCall, PlatformRow, form, respond};

/// The most sockets of one app.
const MOST_SOCKETS: usize = 10;
/// The most frames that wait for one socket.
const MOST_WAITING: usize = 10_000;
/// How often an envelope is sent again.
const MOST_RETRIES: u64 = 3;

/// An order for Socket Mode: what the platform does to a socket.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum SlackSocketOrder {
    /// Announces that the connection ends.
    Disconnect {
        /// `warning`, `refresh_requested` or `link_disabled`. The last two close the socket.
        reason: String,
    },
    /// Ends the connection without a close frame.
    Cut,
    /// Sends this frame.
    Send {
        /// The frame.
        frame: Value,
    },
}

/// An open socket.
pub(super) struct SlackSocket {
    pub app: String,
    waiting: VecDeque<SocketItem>,
    wake: Arc<Notify>,
}

enum SocketItem {
    Frame(String),
    Close,
    Cut,
}

/// An envelope that waits for its acknowledgement.
pub(super) struct PendingEnvelope {
    acknowledged: Option<oneshot::Sender<Value>>,
    socket: u64,
}

impl SlackSocket {
    fn push(&mut self, item: SocketItem) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(item);
        }
        self.wake.notify_one();
    }
}

pub(super) async fn upgrade(slack: Arc<SlackPlatform>, call: ApiCall) -> Response<Body> {
    let mut head = call.head;
    let query = form::read_pairs(head.uri.query().unwrap_or_default().as_bytes());
    let ticket = query.iter().find(|(name, _)| name == "ticket").map(|(_, ticket)| ticket.as_str());
    // A ticket can be used for one connection.
    let app = ticket.and_then(|ticket| slack.world.lock().tickets.remove(ticket));
    match (app, WebSocketUpgrade::from_request_parts(&mut head, &()).await) {
        (Some(app), Ok(upgrade)) => {
            upgrade.on_upgrade(move |socket| converse(slack, socket, app)).into_response()
        }
        (None, _) => respond(404, "text/plain", "unknown ticket"),
        (_, Err(refusal)) => refusal.into_response(),
    }
}

async fn converse(slack: Arc<SlackPlatform>, mut socket: WebSocket, app: String) {
    let _running = slack.harness.tasks.token();
    let id = slack.harness.next_id();
    let wake = Arc::new(Notify::new());
    let number = {
        let mut world = slack.world.lock();
        let new = SlackSocket { app: app.clone(), waiting: VecDeque::new(), wake: wake.clone() };
        world.sockets.insert(id, new);
        world.sockets.values().filter(|socket| socket.app == app).count()
    };
    let hello = json!({
        "type": "hello", "num_connections": number, "connection_info": {"app_id": app},
        "debug_info": {"host": "stand-in", "build_number": 1, "approximate_connection_time": 18060},
    });
    slack.harness.record(PlatformRow::new(app.clone(), "connected", "socket"));
    if number <= MOST_SOCKETS && socket.send(Message::text(hello.to_string())).await.is_ok() {
        tokio::select! {
            () = slack.harness.stop.cancelled() => {}
            () = pump(&slack, &mut socket, id, &wake) => {}
        }
    }
    drop(socket);
    let mut world = slack.world.lock();
    world.sockets.remove(&id);
    // Removing the pending envelopes of this socket makes their deliveries try another one.
    world.envelopes.retain(|_, envelope| envelope.socket != id);
    drop(world);
    slack.harness.record(PlatformRow::new(app, "disconnected", "socket"));
}

async fn pump(slack: &Arc<SlackPlatform>, socket: &mut WebSocket, id: u64, wake: &Notify) {
    loop {
        let item = slack.world.lock().sockets.get_mut(&id).and_then(|socket| socket.waiting.pop_front());
        match item {
            Some(SocketItem::Frame(frame)) => {
                if socket.send(Message::text(frame)).await.is_err() {
                    return;
                }
                continue;
            }
            Some(SocketItem::Close) => {
                _ = socket.send(Message::Close(Some(CloseFrame { code: 1000, reason: "".into() }))).await;
                return;
            }
            Some(SocketItem::Cut) => return,
            None => {}
        }
        tokio::select! {
            () = wake.notified() => {}
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => slack.acknowledge(&text),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            }
        }
    }
}

impl SlackPlatform {
    /// Handles a frame of a client. Frames other than acknowledgements are ignored.
    fn acknowledge(&self, text: &str) {
        let frame: Value = serde_json::from_str(text).unwrap_or_default();
        let id = frame["envelope_id"].as_str().unwrap_or_default();
        let sender =
            self.world.lock().envelopes.get_mut(id).and_then(|envelope| envelope.acknowledged.take());
        if let Some(sender) = sender {
            _ = sender.send(frame["payload"].clone());
        }
    }

    /// Sends an envelope to a socket of the app. If it is not acknowledged in time, sends it again to any socket.
    pub(super) async fn deliver_to_socket(
        &self,
        app: &SlackApp,
        kind: DeliveryKind,
        id: &str,
        payload: Value,
    ) {
        let envelope_id = format!("envelope-{}", self.harness.next_id());
        for attempt in 0..=MOST_RETRIES {
            let frame = json!({
                "envelope_id": envelope_id, "type": kind.envelope(), "payload": payload,
                "accepts_response_payload": kind != DeliveryKind::Event, "retry_attempt": attempt,
                "retry_reason": if attempt == 0 { "" } else { "timeout" },
            });
            let Some(answer) = self.send_to_any(app, &envelope_id, frame.to_string()) else { break };
            if let Ok(Ok(reply)) = tokio::time::timeout(self.settings.acknowledgement, answer).await {
                self.world.lock().envelopes.remove(&envelope_id);
                let row = PlatformRow::new(app.id.clone(), "acknowledged", kind.envelope()).message(id);
                self.harness.record(row);
                if !reply.is_null() {
                    self.take_reply(app, &payload, reply.to_string().as_bytes());
                }
                return;
            }
        }
        self.world.lock().envelopes.remove(&envelope_id);
        let row = PlatformRow::new(app.id.clone(), "unacknowledged", kind.envelope()).message(id);
        self.harness.record(row);
    }

    /// Puts a frame into the queue of the socket whose turn it is.
    fn send_to_any(&self, app: &SlackApp, envelope: &str, frame: String) -> Option<oneshot::Receiver<Value>> {
        let turn = self.harness.next_id();
        let mut world = self.world.lock();
        let open: Vec<u64> =
            world.sockets.iter().filter(|(_, socket)| socket.app == app.id).map(|(id, _)| *id).collect();
        let at = usize::try_from(turn).unwrap_or(0).checked_rem(open.len())?;
        let socket = open[at];
        let (sender, receiver) = oneshot::channel();
        let pending = PendingEnvelope { acknowledged: Some(sender), socket };
        world.envelopes.insert(envelope.to_owned(), pending);
        world.sockets.get_mut(&socket)?.push(SocketItem::Frame(frame));
        Some(receiver)
    }

    /// Carries out an order on the sockets of one app or of all. Returns the number of sockets.
    pub(super) fn order(&self, app: Option<&str>, order: &SlackSocketOrder) -> usize {
        let mut world = self.world.lock();
        let mut reached = 0;
        for socket in world.sockets.values_mut().filter(|socket| app.is_none_or(|only| only == socket.app)) {
            reached += 1;
            match order {
                SlackSocketOrder::Cut => socket.push(SocketItem::Cut),
                SlackSocketOrder::Send { frame } => socket.push(SocketItem::Frame(frame.to_string())),
                SlackSocketOrder::Disconnect { reason } => {
                    let frame =
                        json!({"type": "disconnect", "reason": reason, "debug_info": {"host": "stand-in"}});
                    socket.push(SocketItem::Frame(frame.to_string()));
                    if reason != "warning" {
                        socket.push(SocketItem::Close);
                    }
                }
            }
        }
        reached
    }
}
