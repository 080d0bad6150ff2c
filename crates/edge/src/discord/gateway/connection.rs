//! Gateway connection of one shard: hello, identify or resume, heartbeats, events, and its end.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Fuse, FusedFuture};
use posthouse_time::Instant;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::Shards;
use super::identify_limit::IdentifyTurn;
use super::inflate::{InflatedFrame, Inflater, LARGEST_MESSAGE};
use super::sessions::ShardSession;
use super::storing::store;
use crate::discord::payload::GatewayFrame;
use crate::discord::{LABEL, TOKEN};
use crate::event_feed::{EventLanes, StoringEvent, lane_of, random_fraction};
use crate::platform::{Platform, VerifiedRequest};
use crate::platform_calls::{CallFailure, PlatformSocket, SocketFrame};

const DISPATCH: u8 = 0;
const HEARTBEAT: u8 = 1;
const IDENTIFY: u8 = 2;
const RESUME: u8 = 6;
const RECONNECT: u8 = 7;
const INVALID_SESSION: u8 = 9;
const HELLO: u8 = 10;
const HEARTBEAT_ACK: u8 = 11;

/// GUILDS, GUILD_MESSAGES, GUILD_MESSAGE_REACTIONS, DIRECT_MESSAGES, DIRECT_MESSAGE_REACTIONS, MESSAGE_CONTENT.
pub(super) const INTENTS: u32 = 1 | 1 << 9 | 1 << 10 | 1 << 12 | 1 << 13 | 1 << 15;

/// Time limit for the first frame.
const HELLO_WITHIN: Duration = Duration::from_secs(20);
/// Bounds of the interval that Discord asks for.
const HEARTBEATS: std::ops::RangeInclusive<u64> = 1_000..=300_000;
/// Code with which we close a connection whose session goes on. With 1000 or 1001 Discord would end the session.
const CLOSE_TO_RESUME: u16 = 4000;
/// The events that are turned into readings. Others only change the directory.
const READ_EVENTS: [&str; 5] =
    ["MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "INTERACTION_CREATE", "THREAD_UPDATE"];

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShardEnd {
    /// The feed was stopped.
    Stopped,
    /// The session goes on over the next connection.
    Resume,
    /// The session is gone.
    NewSession,
    /// It is unknown whether the session still exists. The next connection tries to resume it.
    Failed,
    TokenRefused,
    /// The number of shards is too small, or not valid.
    ShardsRefused,
    /// The bot is not allowed to get the events that it asks for.
    IntentsRefused,
}

#[derive(Deserialize)]
struct GatewayHello {
    heartbeat_interval: u64,
}

#[derive(Deserialize)]
struct SessionReady {
    session_id: String,
    resume_gateway_url: Option<String>,
}

#[derive(Serialize)]
struct OutgoingFrame<T> {
    op: u8,
    d: T,
}

pub(super) struct ShardConnection<'a> {
    shards: Shards<'a>,
    shard: u32,
    socket: PlatformSocket,
    inflater: Inflater,
    interval: Duration,
    next_beat: Instant,
    /// The last heartbeat was answered.
    answered: bool,
    seq: Option<u64>,
    url: String,
    /// The events that are not stored yet, one lane per channel.
    lanes: EventLanes<'a>,
    /// The position that is being saved.
    saving: Fuse<BoxFuture<'a, ()>>,
    /// Ends the waiting of events whose channel Discord does not describe.
    closing: CancellationToken,
}

impl<'a> ShardConnection<'a> {
    /// Connects, and identifies or resumes.
    pub async fn open(shards: Shards<'a>, shard: u32, url: &str) -> Result<Self, CallFailure> {
        let session = shards.sessions.session(shard);
        let turn = match session {
            Some(_) => None,
            None => Some(shards.identifying.turn(shard).await),
        };
        let address = format!("{}/?v=10&encoding=json&compress=zlib-stream", url.trim_end_matches('/'));
        let socket = shards.discord.client.open_socket(&address, LARGEST_MESSAGE).await?;
        let mut connection = ShardConnection {
            next_beat: shards.discord.timepiece.instant(),
            shards,
            shard,
            socket,
            inflater: Inflater::new(),
            interval: HELLO_WITHIN,
            answered: true,
            seq: None,
            url: url.to_owned(),
            lanes: EventLanes::default(),
            saving: Fuse::terminated(),
            closing: shards.ending.child_token(),
        };
        connection.greet(session, turn).await?;
        Ok(connection)
    }

    /// Waits for the first frame, and resumes the session or begins a new one.
    async fn greet(
        &mut self,
        session: Option<ShardSession>,
        turn: Option<IdentifyTurn<'_>>,
    ) -> Result<(), CallFailure> {
        let timepiece = &self.shards.discord.timepiece;
        let hello = async {
            loop {
                let text = match self.socket.next().await {
                    SocketFrame::Text(text) => text.into_bytes(),
                    SocketFrame::Binary(bytes) => match self.inflater.push(&bytes) {
                        Ok(InflatedFrame::Message(message)) => message,
                        Ok(InflatedFrame::Part | InflatedFrame::TooLarge) => continue,
                        Err(_) => return None,
                    },
                    SocketFrame::Closed(_) => return None,
                };
                let frame: GatewayFrame<'_> = serde_json::from_slice(&text).ok()?;
                let data = frame.d.filter(|_| frame.op == HELLO)?;
                return serde_json::from_str::<GatewayHello>(data.get()).ok();
            }
        };
        let no_hello = || CallFailure::Unreached("the gateway sent no hello".to_owned());
        let hello = timepiece.within(HELLO_WITHIN, hello).await.ok().flatten().ok_or_else(no_hello)?;
        let interval = hello.heartbeat_interval.clamp(*HEARTBEATS.start(), *HEARTBEATS.end());
        self.interval = Duration::from_millis(interval);
        // The first heartbeat comes at a random time, so that bots that connect together do not send it at the same
        // time.
        self.next_beat = timepiece.instant() + self.interval.mul_f64(random_fraction());
        let bot = self.shards.sessions.bot();
        let token = bot
            .credentials
            .get(TOKEN)
            .ok_or_else(|| CallFailure::Unreached("the bot has no token".to_owned()))?;
        let frame = match session {
            Some(ShardSession { id, seq, .. }) => {
                self.seq = Some(seq);
                json!({ "op": RESUME, "d": { "token": token.expose(), "session_id": id, "seq": seq } })
            }
            None => {
                if let Some(turn) = turn {
                    turn.used();
                }
                let properties =
                    json!({ "os": std::env::consts::OS, "browser": "posthouse", "device": "posthouse" });
                json!({ "op": IDENTIFY, "d": { "token": token.expose(), "intents": INTENTS,
                    "properties": properties, "shard": [self.shard, self.shards.shards] } })
            }
        };
        match self.socket.send_text(frame.to_string()).await {
            true => Ok(()),
            false => Err(CallFailure::Lost),
        }
    }

    /// Receives events until the connection ends. `works` is set once the session is accepted.
    pub async fn serve(mut self, works: &mut bool) -> ShardEnd {
        let end = self.run(works).await;
        let ShardConnection { shards, shard, socket, mut lanes, saving, closing, .. } = self;
        let storing = async {
            if end == ShardEnd::NewSession {
                // Discord does not send the events of a session that is gone again.
                shards.ending.run_until_cancelled(lanes.finish()).await;
            }
            closing.cancel();
            lanes.finish_running().await;
            if !saving.is_terminated() {
                saving.await;
            }
        };
        tokio::join!(socket.close(CLOSE_TO_RESUME), storing);
        note_stored(&shards, shard, &lanes);
        end
    }

    /// Reading and heartbeats wait neither for an event, which may wait for Discord's answer to a question, nor for the
    /// disk.
    async fn run(&mut self, works: &mut bool) -> ShardEnd {
        loop {
            let timepiece = &self.shards.discord.timepiece;
            let until_beat = self.next_beat.since(timepiece.instant());
            let is_full = self.lanes.is_full();
            if is_full {
                // The answer to a heartbeat may be among the frames that are not read now.
                self.answered = true;
            }
            tokio::select! {
                () = self.shards.ending.cancelled() => return ShardEnd::Stopped,
                frame = self.socket.next(), if !is_full => {
                    let message = match frame {
                        SocketFrame::Text(text) => text.into_bytes(),
                        SocketFrame::Binary(bytes) => match self.inflater.push(&bytes) {
                            Ok(InflatedFrame::Message(message)) => message,
                            Ok(InflatedFrame::Part) => continue,
                            Ok(InflatedFrame::TooLarge) => {
                                let bot = self.shards.sessions.bot();
                                tracing::warn!(bot.id = %bot.id, shard = self.shard, "skipped an event that is too large");
                                continue;
                            }
                            Err(_) => {
                                self.warn("sent a message that cannot be decompressed");
                                return ShardEnd::Resume;
                            }
                        },
                        SocketFrame::Closed(code) => return self.closed(code),
                    };
                    if let Some(end) = self.receive(&message, works).await {
                        return end;
                    }
                }
                stored = self.lanes.next() => {
                    if !stored {
                        return ShardEnd::Failed;
                    }
                    note_stored(&self.shards, self.shard, &self.lanes);
                }
                () = &mut self.saving => {}
                () = timepiece.after(until_beat) => {
                    if !self.answered {
                        self.warn("did not answer a heartbeat");
                        return ShardEnd::Resume;
                    }
                    self.answered = false;
                    self.next_beat = timepiece.instant() + self.interval;
                    if !self.beat().await {
                        return ShardEnd::Resume;
                    }
                    // Sessions are saved with each heartbeat, because it is regular and rare.
                    if self.saving.is_terminated() {
                        self.saving = self.shards.sessions.save().boxed().fuse();
                    }
                }
            }
        }
    }

    fn warn(&self, what: &str) {
        let bot = self.shards.sessions.bot();
        tracing::warn!(bot.id = %bot.id, shard = self.shard, "{LABEL}'s gateway {what}; connecting again");
    }

    async fn beat(&mut self) -> bool {
        let frame = OutgoingFrame { op: HEARTBEAT, d: self.seq };
        let written = serde_json::to_string(&frame).expect("it has only numbers");
        self.socket.send_text(written).await
    }

    /// Handles one message. Returns the end of the connection if it ends it.
    async fn receive(&mut self, message: &[u8], works: &mut bool) -> Option<ShardEnd> {
        let Ok(frame) = serde_json::from_slice::<GatewayFrame<'_>>(message) else {
            self.warn("sent a message that cannot be read");
            return Some(ShardEnd::Resume);
        };
        match frame.op {
            DISPATCH => {
                self.dispatch(&frame, message, works).await;
                None
            }
            HEARTBEAT => (!self.beat().await).then_some(ShardEnd::Resume),
            HEARTBEAT_ACK => {
                self.answered = true;
                None
            }
            RECONNECT => {
                *works = true;
                Some(ShardEnd::Resume)
            }
            INVALID_SESSION => {
                let resumable = frame.d.is_some_and(|data| data.get() == "true");
                Some(if resumable { ShardEnd::Failed } else { ShardEnd::NewSession })
            }
            _ => None,
        }
    }

    /// Handles an event. What it says about servers and channels is noted at once, in the order of the events. Messages
    /// and interactions are stored in the lanes of their channels.
    async fn dispatch(&mut self, frame: &GatewayFrame<'_>, message: &[u8], works: &mut bool) {
        let storing = match (&frame.t, frame.d) {
            (Some(event), Some(data)) => self.read_event((event, data.get()), frame.s, message, works).await,
            _ => None,
        };
        let Some(seq) = frame.s else { return };
        self.seq = Some(seq);
        match storing {
            Some((channel, storing)) => self.lanes.push(seq, channel, message.len(), storing),
            None => {
                self.lanes.skip(seq);
                note_stored(&self.shards, self.shard, &self.lanes);
            }
        }
    }

    /// The channel of an event that must be stored, and the work of storing it.
    async fn read_event(
        &mut self,
        (event, data): (&str, &str),
        seq: Option<u64>,
        message: &[u8],
        works: &mut bool,
    ) -> Option<(String, StoringEvent<'a>)> {
        let (discord, sessions) = (self.shards.discord, self.shards.sessions);
        let bot = sessions.bot();
        match event {
            "READY" => {
                *works = true;
                let ready = serde_json::from_str::<SessionReady>(data).ok()?;
                let url = ready.resume_gateway_url.unwrap_or_else(|| self.url.clone());
                let session = ShardSession { id: ready.session_id, url, seq: seq.unwrap_or_default() };
                sessions.begin(self.shard, session).await;
                return None;
            }
            "RESUMED" => {
                *works = true;
                sessions.works().await;
                return None;
            }
            _ => {}
        }
        discord.directory(&bot.id).note(event, data);
        if !READ_EVENTS.contains(&event) {
            return None;
        }
        let verified = VerifiedRequest::fetched(message.to_vec(), discord.timepiece.now());
        let reading = match discord.normalize(bot, verified) {
            Ok(reading) => reading,
            Err(refusal) => {
                tracing::warn!(bot.id = %bot.id, event, "skipped an event: {}", refusal.reason);
                return None;
            }
        };
        Some((lane_of(&reading), store(self.shards, self.closing.clone(), reading)))
    }

    /// The reason for the end, by close code.
    fn closed(&self, code: Option<u16>) -> ShardEnd {
        let bot = self.shards.sessions.bot();
        let (end, what) = match code {
            Some(4004) => return ShardEnd::TokenRefused,
            Some(code @ (4010..=4012)) => {
                (ShardEnd::ShardsRefused, format!("does not accept the number of shards (code {code})"))
            }
            Some(4013) => (ShardEnd::IntentsRefused, "does not know these intents (code 4013)".to_owned()),
            Some(4014) => (
                ShardEnd::IntentsRefused,
                "does not allow the intent MESSAGE CONTENT (code 4014): switch it on for the application in Discord's \
                 developer portal, or renew its grant"
                    .to_owned(),
            ),
            Some(4007 | 4009) => return ShardEnd::NewSession,
            _ => return ShardEnd::Resume,
        };
        tracing::error!(bot.id = %bot.id, shard = self.shard, "{LABEL} {what}");
        end
    }
}

/// Notes up to which event a shard has stored all.
fn note_stored(shards: &Shards<'_>, shard: u32, lanes: &EventLanes<'_>) {
    if let Some(seq) = lanes.stored_up_to() {
        shards.sessions.stored(shard, seq);
    }
}
