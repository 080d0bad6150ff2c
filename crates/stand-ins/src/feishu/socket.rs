//! The long connection of Feishu: addresses, pings, events and their answers.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::Body,
    extract::{
        FromRequestParts,
        ws::{Message, WebSocket, WebSocketUpgrade},
    },
    response::IntoResponse,
};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::{HeaderValue, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

use super::{FeishuPlatform, frame::SentFrame, settings::FeishuApp};
use crate::harness::{ApiCall, PlatformRow, form, json_response, respond};

/// The most connections of one app.
const MOST_SOCKETS: usize = 50;
/// The most frames that wait for one connection.
const MOST_WAITING: usize = 10_000;
/// How often an event is sent again.
const MOST_RETRIES: u64 = 4;
const SERVICE: u64 = 33_554_678;

/// An order for the long connection: what the platform does to it.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum FeishuSocketOrder {
    /// Ends it without a close frame.
    Cut,
    /// Sends these bytes.
    Send {
        /// The bytes.
        base64: String,
    },
    /// Sends each later event in this many parts.
    Split {
        /// Number of parts.
        parts: usize,
    },
}

/// An open connection.
pub(super) struct FeishuSocket {
    pub app: String,
    waiting: VecDeque<Option<Vec<u8>>>,
    wake: Arc<Notify>,
    parts: usize,
    pending: Vec<(String, oneshot::Sender<Value>)>,
}

impl FeishuSocket {
    /// `None` ends the connection.
    fn push(&mut self, bytes: Option<Vec<u8>>) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(bytes);
        }
        self.wake.notify_one();
    }
}

/// What clients are to do.
fn client_config() -> Value {
    json!({"ReconnectCount": -1, "ReconnectInterval": 120, "ReconnectNonce": 30, "PingInterval": 120})
}

impl FeishuPlatform {
    /// The address of a connection.
    pub(super) fn endpoint(&self, call: &ApiCall) -> Response<Body> {
        let asked: Value = serde_json::from_slice(&call.body).unwrap_or_default();
        let mut world = self.world.lock();
        let app = world.app(asked["AppID"].as_str().unwrap_or_default());
        let Some(app) = app.filter(|app| asked["AppSecret"] == *app.secret).map(|app| app.id.clone()) else {
            return super::refusal(200, 10014, "app secret invalid");
        };
        let ticket = format!("ticket-{}", self.harness.next_id());
        world.tickets.insert(ticket.clone(), app);
        let address = self.harness.address;
        let url = format!(
            "ws://{address}/ws/v2?device_id=device-1&service_id={SERVICE}&access_key=key&ticket={ticket}"
        );
        json_response(
            200,
            &json!({"code": 0, "msg": "", "data": {"URL": url, "ClientConfig": client_config()}}),
        )
    }

    /// Number of open connections of an app.
    pub(super) fn open_sockets(&self, app: &str) -> usize {
        self.world.lock().sockets.values().filter(|socket| socket.app == app).count()
    }

    /// Carries out an order on all connections of an app, or of all. Returns their number.
    pub(super) fn order(&self, app: Option<&str>, order: &FeishuSocketOrder) -> Result<usize, String> {
        let mut reached = 0;
        for socket in self.world.lock().sockets.values_mut() {
            if app.is_some_and(|only| only != socket.app) {
                continue;
            }
            reached += 1;
            match order {
                FeishuSocketOrder::Cut => socket.push(None),
                FeishuSocketOrder::Split { parts } => socket.parts = (*parts).max(1),
                FeishuSocketOrder::Send { base64 } => {
                    socket.push(Some(BASE64_STANDARD.decode(base64).map_err(|error| error.to_string())?));
                }
            }
        }
        Ok(reached)
    }

    /// Sends an event over a connection of the app, until it is answered with code 200.
    pub(super) async fn deliver_to_socket(&self, app: &FeishuApp, id: &str, payload: &Value) {
        let bytes = payload.to_string().into_bytes();
        for attempt in 0..=MOST_RETRIES {
            let message = format!("{id}-{attempt}");
            let Some(answer) = self.send_event(app, &message, &bytes) else { break };
            let answer = tokio::time::timeout(self.settings.acknowledgement, answer).await;
            if let Ok(Ok(answer)) = answer
                && answer["code"] == 200
            {
                let data = answer["data"].as_str().and_then(|data| BASE64_STANDARD.decode(data).ok());
                let data: Value =
                    data.and_then(|data| serde_json::from_slice(&data).ok()).unwrap_or_default();
                let row = PlatformRow::new(app.id.clone(), "acknowledged", "socket").message(id).raw(data);
                return self.harness.record(row);
            }
        }
        self.harness.record(PlatformRow::new(app.id.clone(), "unacknowledged", "socket").message(id));
    }

    fn send_event(&self, app: &FeishuApp, message: &str, bytes: &[u8]) -> Option<oneshot::Receiver<Value>> {
        let turn = usize::try_from(self.harness.next_id()).unwrap_or(0);
        let mut world = self.world.lock();
        let mut open: Vec<&mut FeishuSocket> =
            world.sockets.values_mut().filter(|socket| socket.app == app.id).collect();
        let at = turn.checked_rem(open.len())?;
        let socket = &mut *open[at];
        let size = bytes.len().div_ceil(socket.parts).max(1);
        let parts: Vec<&[u8]> = bytes.chunks(size).collect();
        for (seq, part) in parts.iter().enumerate() {
            let text = |name: &str, value: String| (name.to_owned(), value);
            let frame = SentFrame {
                sequence: self.harness.next_id(),
                service: SERVICE,
                method: 1,
                headers: vec![
                    text("type", "event".to_owned()),
                    text("message_id", message.to_owned()),
                    text("trace_id", "trace-1".to_owned()),
                    text("sum", parts.len().to_string()),
                    text("seq", seq.to_string()),
                ],
                payload: part.to_vec(),
            };
            socket.push(Some(frame.encode()));
        }
        let (sender, receiver) = oneshot::channel();
        socket.pending.retain(|(_, waiting)| !waiting.is_closed());
        socket.pending.push((message.to_owned(), sender));
        Some(receiver)
    }

    /// Reads a frame of a client. Returns the answer to a ping.
    fn hear(&self, id: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        let Some(frame) = SentFrame::decode(bytes) else {
            self.harness.record(PlatformRow::new("", "unreadable", "socket"));
            return None;
        };
        if frame.method == 0 {
            let is_ping = frame.header("type") == Some("ping") && frame.service == SERVICE;
            let headers = vec![("type".to_owned(), "pong".to_owned())];
            let payload = client_config().to_string().into_bytes();
            let pong = SentFrame { service: SERVICE, headers, payload, ..SentFrame::default() };
            return is_ping.then(|| pong.encode());
        }
        let message = frame.header("message_id")?.to_owned();
        // The answer has the time that it took.
        frame.header("biz_rt")?;
        let answer = serde_json::from_slice(&frame.payload).unwrap_or_default();
        let mut world = self.world.lock();
        let pending = &mut world.sockets.get_mut(&id)?.pending;
        let at = pending.iter().position(|(known, _)| *known == message)?;
        _ = pending.swap_remove(at).1.send(answer);
        None
    }
}

pub(super) async fn upgrade(feishu: Arc<FeishuPlatform>, call: ApiCall) -> Response<Body> {
    let mut head = call.head;
    let query = form::read_pairs(head.uri.query().unwrap_or_default().as_bytes());
    let ticket = query.iter().find(|(name, _)| name == "ticket").map(|(_, ticket)| ticket.as_str());
    // A ticket can be used for one connection.
    let app = ticket.and_then(|ticket| feishu.world.lock().tickets.remove(ticket));
    let refuse = |status: &'static str, code: &'static str, message: &'static str| {
        let mut refused = respond(400, "text/plain", message);
        refused.headers_mut().insert("handshake-status", HeaderValue::from_static(status));
        refused.headers_mut().insert("handshake-msg", HeaderValue::from_static(message));
        refused.headers_mut().insert("handshake-autherrcode", HeaderValue::from_static(code));
        refused
    };
    let Some(app) = app else { return refuse("514", "1000040345", "unknown ticket") };
    if feishu.open_sockets(&app) >= MOST_SOCKETS {
        return refuse("514", "1000040350", "the number of connections exceeded the limit");
    }
    match WebSocketUpgrade::from_request_parts(&mut head, &()).await {
        Ok(upgrade) => upgrade.on_upgrade(move |socket| converse(feishu, socket, app)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn converse(feishu: Arc<FeishuPlatform>, mut socket: WebSocket, app: String) {
    let _running = feishu.harness.tasks.token();
    let (id, wake) = (feishu.harness.next_id(), Arc::new(Notify::new()));
    let new = FeishuSocket {
        app: app.clone(),
        waiting: VecDeque::new(),
        wake: wake.clone(),
        parts: 1,
        pending: Vec::new(),
    };
    feishu.world.lock().sockets.insert(id, new);
    feishu.harness.record(PlatformRow::new(app.clone(), "connected", "socket"));
    tokio::select! {
        () = feishu.harness.stop.cancelled() => {}
        () = pump(&feishu, &mut socket, id, &wake) => {}
    }
    drop(socket);
    // Its pending answers fail with it, so that their deliveries try another connection.
    feishu.world.lock().sockets.remove(&id);
    feishu.harness.record(PlatformRow::new(app, "disconnected", "socket"));
}

async fn pump(feishu: &Arc<FeishuPlatform>, socket: &mut WebSocket, id: u64, wake: &Notify) {
    loop {
        let next = feishu.world.lock().sockets.get_mut(&id).and_then(|socket| socket.waiting.pop_front());
        match next {
            Some(Some(bytes)) => {
                if socket.send(Message::Binary(bytes.into())).await.is_err() {
                    return;
                }
                continue;
            }
            Some(None) => return,
            None => {}
        }
        tokio::select! {
            () = wake.notified() => {}
            message = socket.recv() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    if let Some(answer) = feishu.hear(id, &bytes)
                        && socket.send(Message::Binary(answer.into())).await.is_err()
                    {
                        return;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            }
        }
    }
}
