//! Gateway WebSocket of Discord: hello, identify, resume, heartbeats, close codes.

mod login;

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{
        FromRequestParts, Query,
        ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade},
    },
    response::IntoResponse,
};
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{
    DiscordPlatform,
    compress::ZlibStream,
    errors::RestError,
    session::{GatewayConnection, SocketOrder},
};
use crate::harness::{ApiCall, PlatformRow, SlidingWindow};

/// The largest frame of a client.
const MOST_FRAME: usize = 4096;
/// All intents that exist.
const KNOWN_INTENTS: u64 = (1 << 26) - 1;

#[derive(Deserialize)]
struct GatewayQuery {
    #[serde(default)]
    compress: Option<String>,
    #[serde(default)]
    encoding: Option<String>,
}

/// Why the stand-in ends a connection.
enum Hangup {
    /// With this close code.
    Close(u16),
    /// Without a close frame.
    Cut,
    /// The client ended it. `gave_up`: it ended its session too.
    Left { gave_up: bool },
}

pub(super) async fn upgrade(discord: Arc<DiscordPlatform>, call: ApiCall) -> Response<Body> {
    let mut head = call.head;
    let query = Query::<GatewayQuery>::try_from_uri(&head.uri).map(|Query(query)| query);
    match (query, WebSocketUpgrade::from_request_parts(&mut head, &()).await) {
        (Ok(query), Ok(upgrade)) => {
            upgrade.on_upgrade(move |socket| converse(discord, socket, query)).into_response()
        }
        _ => RestError::new(400, 0, "400: Bad Request").into(),
    }
}

async fn converse(discord: Arc<DiscordPlatform>, socket: WebSocket, query: GatewayQuery) {
    let _running = discord.harness.tasks.token();
    let id = discord.harness.next_id();
    let wake = Arc::new(Notify::new());
    let state = GatewayConnection { wake: wake.clone(), ..GatewayConnection::default() };
    discord.world.lock().connections.insert(id, state);
    let zlib = (query.compress.as_deref() == Some("zlib-stream")).then(ZlibStream::new);
    let mut link = GatewayLink {
        discord: discord.clone(),
        socket,
        zlib,
        id,
        wake,
        sent: 0,
        received: SlidingWindow::default(),
        is_muted: false,
    };
    let is_json = query.encoding.as_deref().unwrap_or("json") == "json";
    let hangup = tokio::select! {
        () = discord.harness.stop.cancelled() => Hangup::Close(1001),
        hangup = link.run(is_json) => hangup,
    };
    let (code, gave_up) = match hangup {
        Hangup::Close(code) => {
            let frame = CloseFrame { code, reason: "".into() };
            _ = link.socket.send(Message::Close(Some(frame))).await;
            (Some(code), false)
        }
        Hangup::Cut => (None, false),
        Hangup::Left { gave_up } => (None, gave_up),
    };
    drop(link);
    discord.forget_connection(id, code, gave_up);
}

impl DiscordPlatform {
    fn forget_connection(&self, id: u64, code: Option<u16>, gave_up: bool) {
        let mut world = self.world.lock();
        let Some(connection) = world.connections.remove(&id) else { return };
        let Some(session_id) = connection.session else { return };
        let Some(session) = world.sessions.get_mut(&session_id) else { return };
        if session.connection != Some(id) {
            return;
        }
        session.connection = None;
        let row = PlatformRow::new(session.bot.clone(), "disconnected", "gateway")
            .raw(json!({"code": code, "gave_up": gave_up}));
        if gave_up {
            world.sessions.remove(&session_id);
        }
        drop(world);
        self.harness.record(row);
    }
}

/// One connection.
struct GatewayLink {
    discord: Arc<DiscordPlatform>,
    socket: WebSocket,
    zlib: Option<ZlibStream>,
    id: u64,
    wake: Arc<Notify>,
    /// Number of the last event that was sent here.
    sent: u64,
    received: SlidingWindow,
    is_muted: bool,
}

impl GatewayLink {
    async fn run(&mut self, is_json: bool) -> Hangup {
        let interval = self.discord.settings.heartbeat_interval;
        let hello = json!({"op": 10, "s": null, "t": null, "d": {
            "heartbeat_interval": u64::try_from(interval.as_millis()).unwrap_or(u64::MAX), "_trace": [],
        }});
        if let Err(hangup) = self.send(&hello).await {
            return hangup;
        }
        if !is_json {
            return Hangup::Close(4012);
        }
        let mut silence = Box::pin(tokio::time::sleep(interval * 2));
        loop {
            if let Err(hangup) = self.flush().await {
                return hangup;
            }
            let outcome = tokio::select! {
                message = self.socket.recv() => match message {
                    Some(Ok(Message::Text(text))) => self.take(text.as_bytes(), &mut silence, interval).await,
                    Some(Ok(Message::Binary(bytes))) => self.take(&bytes, &mut silence, interval).await,
                    Some(Ok(Message::Close(frame))) => {
                        let code = frame.map_or(1005, |frame| frame.code);
                        Err(Hangup::Left { gave_up: matches!(code, 1000 | 1001) })
                    }
                    Some(Ok(_)) => Ok(()),
                    _ => Err(Hangup::Left { gave_up: false }),
                },
                () = self.wake.notified() => Ok(()),
                () = &mut silence => Err(Hangup::Close(4009)),
            };
            if let Err(hangup) = outcome {
                return hangup;
            }
        }
    }

    async fn send(&mut self, frame: &Value) -> Result<(), Hangup> {
        self.send_text(&frame.to_string()).await
    }

    async fn send_text(&mut self, text: &str) -> Result<(), Hangup> {
        let message = match &mut self.zlib {
            Some(zlib) => Message::Binary(zlib.message(text.as_bytes()).into()),
            None => Message::text(text),
        };
        self.socket.send(message).await.map_err(|_| Hangup::Left { gave_up: false })
    }

    /// Carries out orders and sends events that were not sent yet.
    async fn flush(&mut self) -> Result<(), Hangup> {
        loop {
            let (order, frames) = {
                let mut world = self.discord.world.lock();
                let world = &mut *world;
                let Some(connection) = world.connections.get_mut(&self.id) else { return Err(Hangup::Cut) };
                let order = connection.orders.pop_front();
                let session = connection.session.as_ref().and_then(|id| world.sessions.get(id));
                let session = session.filter(|session| session.connection == Some(self.id));
                let unsent = session.into_iter().flat_map(|session| session.frames.iter());
                let unsent = unsent.filter(|(seq, _)| *seq > self.sent);
                (order, unsent.cloned().collect::<Vec<_>>())
            };
            for (seq, frame) in &frames {
                self.send_text(frame).await?;
                self.sent = *seq;
            }
            match order {
                Some(order) => self.obey(order).await?,
                None if frames.is_empty() => return Ok(()),
                None => {}
            }
        }
    }

    async fn obey(&mut self, order: SocketOrder) -> Result<(), Hangup> {
        match order {
            SocketOrder::Reconnect => self.send(&json!({"op": 7, "d": null, "s": null, "t": null})).await,
            SocketOrder::InvalidSession { resumable } => {
                if !resumable {
                    self.end_session();
                }
                self.send(&invalid_session(resumable)).await
            }
            SocketOrder::Close { code } => {
                // These codes mean that the session is gone.
                if matches!(code, 4007 | 4009) {
                    self.end_session();
                }
                Err(Hangup::Close(code))
            }
            SocketOrder::Cut => Err(Hangup::Cut),
            SocketOrder::Mute => {
                self.is_muted = true;
                Ok(())
            }
            SocketOrder::RequestHeartbeat => {
                self.send(&json!({"op": 1, "d": null, "s": null, "t": null})).await
            }
            SocketOrder::Send { frame } => self.send(&frame).await,
            SocketOrder::Garble => {
                let mut world = self.discord.world.lock();
                let world = &mut *world;
                let connection = world.connections.get(&self.id);
                let session = connection.and_then(|connection| connection.session.as_ref());
                if let Some(session) = session.and_then(|id| world.sessions.get_mut(id)) {
                    session.seq += 1;
                    session.frames.push_back((session.seq, "{".into()));
                }
                Ok(())
            }
            SocketOrder::Flood { mebibytes } => {
                let text = "a".repeat(mebibytes.min(256) << 20);
                self.send(&json!({"op": 0, "s": self.sent, "t": "STAND_IN_FLOOD", "d": {"content": text}}))
                    .await
            }
        }
    }

    fn end_session(&self) {
        let mut world = self.discord.world.lock();
        let session = world.connections.get_mut(&self.id).and_then(|connection| connection.session.take());
        if let Some(session) = session {
            world.sessions.remove(&session);
        }
    }

    /// Handles a frame of the client.
    async fn take(
        &mut self,
        frame: &[u8],
        silence: &mut std::pin::Pin<Box<tokio::time::Sleep>>,
        interval: Duration,
    ) -> Result<(), Hangup> {
        if frame.len() > MOST_FRAME {
            return Err(Hangup::Close(4002));
        }
        if self.received.admit(120, 60_000, self.discord.harness.now_ms()).is_err() {
            return Err(Hangup::Close(4008));
        }
        let Ok(frame) = serde_json::from_slice::<Value>(frame) else { return Err(Hangup::Close(4002)) };
        let has_session = {
            let world = self.discord.world.lock();
            world.connections.get(&self.id).is_some_and(|connection| connection.session.is_some())
        };
        match frame["op"].as_u64() {
            Some(1) => {
                self.count_heartbeat();
                *silence = Box::pin(tokio::time::sleep(interval * 2));
                if self.is_muted {
                    return Ok(());
                }
                self.send(&json!({"op": 11, "d": null, "s": null, "t": null})).await
            }
            Some(2) if has_session => Err(Hangup::Close(4005)),
            Some(2) => self.identify(&frame["d"]).await,
            Some(6) if has_session => Err(Hangup::Close(4005)),
            Some(6) => self.resume(&frame["d"]).await,
            Some(3 | 4 | 8) if !has_session => Err(Hangup::Close(4003)),
            Some(3 | 4) => Ok(()),
            Some(8) => self.members(&frame["d"]),
            _ => Err(Hangup::Close(4001)),
        }
    }
}

impl GatewayLink {
    fn count_heartbeat(&self) {
        let mut world = self.discord.world.lock();
        let world = &mut *world;
        let session = world.connections.get(&self.id).and_then(|connection| connection.session.as_ref());
        if let Some(session) = session.and_then(|id| world.sessions.get_mut(id)) {
            session.heartbeats += 1;
        }
        self.discord.harness.changed.notify_waiters();
    }
}

fn invalid_session(resumable: bool) -> Value {
    json!({"op": 9, "d": resumable, "s": null, "t": null})
}
