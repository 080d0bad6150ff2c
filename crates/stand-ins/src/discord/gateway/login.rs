//! Start of a session on the gateway: identify, resume, and the servers of a shard.

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::{GatewayLink, Hangup, KNOWN_INTENTS, invalid_session};
use crate::{
    discord::{
        DiscordPlatform,
        session::{self, Session, SocketOrder},
        world::DiscordWorld,
    },
    harness::PlatformRow,
};

impl GatewayLink {
    pub(super) async fn identify(&mut self, data: &Value) -> Result<(), Hangup> {
        let (token, intents) = (data["token"].as_str(), data["intents"].as_u64());
        let (Some(token), true) = (token, data["properties"].is_object()) else {
            return Err(Hangup::Close(4002));
        };
        let shard = match data.get("shard") {
            None | Some(Value::Null) => (0, 1),
            Some(shard) => match (shard[0].as_u64(), shard[1].as_u64()) {
                (Some(number), Some(of)) if number < of => (number, of),
                _ => return Err(Hangup::Close(4010)),
            },
        };
        let now_ms = self.discord.harness.now_ms();
        let row = {
            let mut world = self.discord.world.lock();
            let world = &mut *world;
            // The platform also takes the token with the prefix of the HTTP API.
            let token = token.strip_prefix("Bot ").unwrap_or(token);
            let Some(bot) = world.bot_by_token(token) else { return Err(Hangup::Close(4004)) };
            let Some(intents) = intents.filter(|intents| intents & !KNOWN_INTENTS == 0) else {
                return Err(Hangup::Close(4013));
            };
            let privileged = session::MESSAGE_CONTENT | session::GUILD_MEMBERS | session::GUILD_PRESENCES;
            if !bot.settings.privileged_intents && intents & privileged != 0 {
                return Err(Hangup::Close(4014));
            }
            let id = bot.settings.id.clone();
            let limits = &self.discord.settings.limits;
            if limits.as_ref().is_some_and(|limits| !world.buckets.identify(limits, &id, now_ms)) {
                None
            } else {
                self.discord.start_session(world, self.id, &id, intents, shard);
                let raw = json!({"intents": intents, "shard": [shard.0, shard.1]});
                Some(PlatformRow::new(id, "identified", "gateway").raw(raw))
            }
        };
        match row {
            None => self.send(&invalid_session(false)).await,
            Some(row) => {
                self.flush().await?;
                self.discord.harness.record(row);
                Ok(())
            }
        }
    }

    pub(super) async fn resume(&mut self, data: &Value) -> Result<(), Hangup> {
        let seq = data["seq"].as_u64().unwrap_or(0);
        let resumed = {
            let mut world = self.discord.world.lock();
            let world = &mut *world;
            let token = data["token"].as_str().unwrap_or_default();
            let Some(bot) = world.bot_by_token(token.strip_prefix("Bot ").unwrap_or(token)) else {
                return Err(Hangup::Close(4004));
            };
            let bot = bot.settings.id.clone();
            let id = data["session_id"].as_str().unwrap_or_default().to_owned();
            let session = world.sessions.get_mut(&id).filter(|session| session.bot == bot);
            match session {
                None => None,
                Some(session) if seq > session.seq => return Err(Hangup::Close(4007)),
                // Frames that the client missed are no longer kept.
                Some(session) if session.frames.front().is_some_and(|(first, _)| *first > seq + 1) => None,
                Some(session) => {
                    let before = session.connection.replace(self.id);
                    session.push("RESUMED", &json!({"_trace": []}), world.replay_frames);
                    if let Some(before) = before.and_then(|before| world.connections.get_mut(&before)) {
                        before.session = None;
                        before.orders.push_back(SocketOrder::Cut);
                        before.wake.notify_one();
                    }
                    if let Some(connection) = world.connections.get_mut(&self.id) {
                        connection.session = Some(id);
                    }
                    Some(bot)
                }
            }
        };
        let Some(bot) = resumed else { return self.send(&invalid_session(false)).await };
        self.sent = seq;
        self.flush().await?;
        self.discord.harness.record(PlatformRow::new(bot, "resumed", "gateway").raw(json!({"seq": seq})));
        Ok(())
    }

    /// Request guild members (op 8): all members in one chunk.
    pub(super) fn members(&self, data: &Value) -> Result<(), Hangup> {
        let mut world = self.discord.world.lock();
        let world = &mut *world;
        let session = world.connections.get(&self.id).and_then(|connection| connection.session.clone());
        let Some(session) = session.and_then(|id| world.sessions.get(&id)) else { return Ok(()) };
        let bot = session.bot.clone();
        let guild_id = data["guild_id"].as_str().or_else(|| data["guild_id"][0].as_str()).unwrap_or_default();
        let Some(guild) = world.guilds.get(guild_id) else { return Ok(()) };
        let members: Vec<Value> = guild.members.keys().filter_map(|user| guild.member(world, user)).collect();
        let payload = json!({
            "guild_id": guild_id, "members": members, "chunk_index": 0, "chunk_count": 1, "nonce": data["nonce"],
            "not_found": [], "presences": [],
        });
        let guild_id = guild_id.to_owned();
        world.dispatch(&bot, "GUILD_MEMBERS_CHUNK", Some(&guild_id), &payload);
        Ok(())
    }
}

impl DiscordPlatform {
    /// Starts a session for a connection: READY, then the servers of this shard.
    fn start_session(
        &self,
        world: &mut DiscordWorld,
        connection: u64,
        bot: &str,
        intents: u64,
        shard: (u64, u64),
    ) {
        let started = self.harness.next_id();
        let id = format!("session-{bot}-{started}");
        let guilds: Vec<String> = world
            .guilds
            .values()
            .filter(|guild| guild.members.contains_key(bot))
            .map(|one| one.id.clone())
            .collect();
        let here = |id: &&String| id.parse::<u64>().is_ok_and(|id| (id >> 22) % shard.1 == shard.0);
        let unavailable: Vec<Value> =
            guilds.iter().filter(here).map(|id| json!({"id": id, "unavailable": true})).collect();
        let ready = json!({
            "v": 10, "user": world.user(bot), "guilds": unavailable, "session_id": id, "session_type": "normal",
            "resume_gateway_url": format!("ws://{}", self.harness.address), "shard": [shard.0, shard.1],
            "application": {"id": bot, "flags": 0}, "private_channels": [], "relationships": [],
            "user_settings": {}, "_trace": [],
        });
        let mut session = Session {
            bot: bot.to_owned(),
            intents,
            shard,
            seq: 0,
            frames: VecDeque::new(),
            connection: Some(connection),
            started,
            heartbeats: 0,
        };
        session.push("READY", &ready, world.replay_frames);
        world.add_session(id.clone(), session);
        for guild in guilds.iter().filter(here) {
            let Some(guild) = world.guilds.get(guild) else { continue };
            let creation = guild.creation(world, bot);
            let keep = world.replay_frames;
            if let Some(session) = world.sessions.get_mut(&id)
                && intents & session::GUILDS != 0
            {
                session.push("GUILD_CREATE", &creation, keep);
            }
        }
        if let Some(connection) = world.connections.get_mut(&connection) {
            connection.session = Some(id);
        }
    }
}
