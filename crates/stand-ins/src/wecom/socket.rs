//! Long connections of AI bots: one per bot, pings, events and commands.

use std::{collections::VecDeque, sync::Arc};

use axum::{
    body::Body,
    extract::{
        FromRequestParts, WebSocketUpgrade,
        ws::{Message, WebSocket},
    },
    response::IntoResponse,
};
use http::Response;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::WeComPlatform;
use crate::harness::{ApiCall, PlatformRow};

/// The most frames that wait for one socket.
const MOST_WAITING: usize = 10_000;
/// The code of a refused subscription.
const WRONG_SECRET: i64 = 853_000;

/// An order for the long connections: what the platform does to them.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum WeComSocketOrder {
    /// Another server connects as the bot, so that this connection ends.
    Displace,
    /// Ends the connection without a close frame.
    Cut,
    /// Answers nothing from now on.
    Mute,
}

/// The open connection of a bot.
pub(super) struct BotSocket {
    number: u64,
    waiting: VecDeque<BotSocketItem>,
    wake: Arc<Notify>,
}

pub(super) enum BotSocketItem {
    Frame(String),
    Cut,
    Mute,
}

impl BotSocket {
    fn push(&mut self, item: BotSocketItem) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back(item);
        }
        self.wake.notify_one();
    }

    /// Tells the connection that another one has taken over, and ends it.
    fn displace(&mut self, bot: &str) {
        let event = json!({
            "cmd": "aibot_event_callback", "headers": {"req_id": "displaced"},
            "body": {"aibotid": bot, "msgtype": "event", "event": {"eventtype": "disconnected_event"}},
        });
        self.push(BotSocketItem::Frame(event.to_string()));
        self.push(BotSocketItem::Cut);
    }
}

pub(super) async fn upgrade(wecom: Arc<WeComPlatform>, call: ApiCall) -> Response<Body> {
    let mut head = call.head;
    match WebSocketUpgrade::from_request_parts(&mut head, &()).await {
        Ok(upgrade) => upgrade.on_upgrade(move |socket| converse(wecom, socket)).into_response(),
        Err(refusal) => refusal.into_response(),
    }
}

async fn converse(wecom: Arc<WeComPlatform>, mut socket: WebSocket) {
    let _running = wecom.harness.tasks.token();
    let (number, wake) = (wecom.harness.next_id(), Arc::new(Notify::new()));
    let stop = wecom.harness.stop.clone();
    let mut bot = None;
    tokio::select! {
        () = stop.cancelled() => {}
        () = pump(&wecom, &mut socket, number, &wake, &mut bot) => {}
    }
    drop(socket);
    let Some(bot) = bot else { return };
    let mut world = wecom.world.lock();
    if world.sockets.get(&bot).is_some_and(|open| open.number == number) {
        world.sockets.remove(&bot);
    }
    drop(world);
    wecom.harness.record(PlatformRow::new(bot, "disconnected", "socket"));
}

async fn pump(
    wecom: &Arc<WeComPlatform>,
    socket: &mut WebSocket,
    number: u64,
    wake: &Arc<Notify>,
    bot: &mut Option<String>,
) {
    let mut waiting = VecDeque::new();
    let mut is_mute = false;
    loop {
        if let Some(bot) = bot.as_deref() {
            let mut world = wecom.world.lock();
            if let Some(open) = world.sockets.get_mut(bot).filter(|open| open.number == number) {
                waiting.append(&mut open.waiting);
            } else if let Some(left) = world.displaced.remove(&number) {
                waiting.extend(left);
            }
        }
        while let Some(item) = waiting.pop_front() {
            match item {
                BotSocketItem::Frame(frame) => {
                    if socket.send(Message::text(frame)).await.is_err() {
                        return;
                    }
                }
                BotSocketItem::Cut => return,
                BotSocketItem::Mute => is_mute = true,
            }
        }
        let text = tokio::select! {
            () = wake.notified() => continue,
            message = socket.recv() => match message {
                Some(Ok(Message::Text(text))) => text,
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            }
        };
        if is_mute {
            continue;
        }
        let frame: Value = serde_json::from_str(&text).unwrap_or_default();
        let mut answer = match frame["cmd"].as_str().unwrap_or_default() {
            "aibot_subscribe" => match wecom.subscribe(&frame["body"], number, wake) {
                Some(known) => {
                    *bot = Some(known);
                    json!({"errcode": 0, "errmsg": "ok"})
                }
                None => json!({"errcode": WRONG_SECRET, "errmsg": "invalid bot_id or secret"}),
            },
            "ping" => json!({"errcode": 0, "errmsg": "ok"}),
            command => match bot.as_deref() {
                Some(bot) => wecom.command(bot, command, &frame["body"]),
                None => json!({"errcode": 846_607, "errmsg": "not subscribed"}),
            },
        };
        answer["headers"] = json!({"req_id": frame["headers"]["req_id"]});
        if socket.send(Message::text(answer.to_string())).await.is_err() {
            return;
        }
    }
}

impl WeComPlatform {
    /// Accepts the connection of a bot, which displaces an older one.
    fn subscribe(&self, body: &Value, number: u64, wake: &Arc<Notify>) -> Option<String> {
        let bot = self.settings.bots.iter().find(|bot| body["bot_id"] == bot.id.as_str())?;
        if body["secret"] != bot.secret.as_str() || self.world.lock().revoked.contains(&bot.id) {
            return None;
        }
        let open = BotSocket { number, waiting: VecDeque::new(), wake: wake.clone() };
        let mut world = self.world.lock();
        if let Some(mut older) = world.sockets.insert(bot.id.clone(), open) {
            older.displace(&bot.id);
            world.displaced.insert(older.number, older.waiting);
        }
        drop(world);
        self.harness.record(PlatformRow::new(bot.id.clone(), "connected", "socket"));
        Some(bot.id.clone())
    }

    /// Sends an event over the connection of a bot. False if there is none.
    pub(super) fn send_event(&self, bot: &str, body: &Value) -> bool {
        let command = if body["msgtype"] == "event" { "aibot_event_callback" } else { "aibot_msg_callback" };
        let request = format!("req{}", self.harness.next_id());
        let frame = json!({"cmd": command, "headers": {"req_id": request}, "body": body});
        let mut world = self.world.lock();
        let Some(open) = world.sockets.get_mut(bot) else { return false };
        open.push(BotSocketItem::Frame(frame.to_string()));
        true
    }

    /// Carries out a command of a bot, and returns the answer.
    fn command(&self, bot: &str, command: &str, body: &Value) -> Value {
        let chat = body["chatid"].as_str().unwrap_or_default();
        let text = match body["msgtype"].as_str().unwrap_or_default() {
            "markdown" => body["markdown"]["content"].as_str(),
            "template_card" => body["template_card"]["main_title"]["title"].as_str(),
            "stream" => body["stream"]["content"].as_str(),
            _ => None,
        };
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return json!({"errcode": 40_008, "errmsg": "invalid message type"});
        };
        if command == "aibot_send_msg" && chat.is_empty() {
            return json!({"errcode": 86_003, "errmsg": "invalid chatid"});
        }
        if text.len() > 20_480 {
            return json!({"errcode": 45_002, "errmsg": "content size out of limit"});
        }
        let known = matches!(
            command,
            "aibot_send_msg" | "aibot_respond_msg" | "aibot_respond_welcome_msg" | "aibot_respond_update_msg"
        );
        if !known {
            return json!({"errcode": 846_605, "errmsg": "unknown cmd"});
        }
        let row = PlatformRow::new(bot.to_owned(), "sent", command.to_owned()).chat(chat).text(text);
        self.harness.record(row.raw(body.clone()));
        json!({"errcode": 0, "errmsg": "ok"})
    }

    /// Carries out an order on the connection of one bot or of all. Returns the number of connections.
    pub(super) fn order(&self, bot: Option<&str>, order: WeComSocketOrder) -> usize {
        let mut world = self.world.lock();
        let mut reached = 0;
        for (id, open) in &mut world.sockets {
            if bot.is_none_or(|only| only == id) {
                reached += 1;
                match order {
                    WeComSocketOrder::Displace => open.displace(id),
                    WeComSocketOrder::Cut => open.push(BotSocketItem::Cut),
                    WeComSocketOrder::Mute => open.push(BotSocketItem::Mute),
                }
            }
        }
        reached
    }
}

/// Frames of connections that another one has displaced.
pub(super) type DisplacedFrames = std::collections::HashMap<u64, VecDeque<BotSocketItem>>;
