//! Calls about channels: messages, reactions, threads, typing, direct messages.

use axum::extract::Query;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{ApiResult, RestCall, created, no_content, ok};
use crate::{
    discord::{
        errors::RestError,
        guilds::StandInChannel,
        messages::{Authorship, MessageBody, id_of},
        permissions,
        world::{DiscordWorld, timestamp},
    },
    harness::PlatformRow,
};

/// How long a nonce is remembered.
const NONCE_MS: i64 = 5 * 60 * 1000;

#[derive(Deserialize)]
struct MessagesQuery {
    #[serde(default = "fifty")]
    limit: usize,
}

fn fifty() -> usize {
    50
}

impl RestCall<'_> {
    fn row(&self, kind: &'static str) -> PlatformRow {
        PlatformRow::new(self.bot.clone(), kind, self.call.subject.call.clone()).chat(self.segments[1])
    }

    fn needed_to_send(channel: &StandInChannel) -> u64 {
        if channel.is_thread() { permissions::SEND_MESSAGES_IN_THREADS } else { permissions::SEND_MESSAGES }
    }

    pub(super) fn read_channel(&self) -> ApiResult {
        let world = self.discord.world.lock();
        ok(&self.channel(&world, 0)?.object(&world, &self.bot))
    }

    /// Changes the name of a channel or thread. A thread can be renamed by its creator.
    pub(super) fn rename_channel(&self) -> ApiResult {
        let name = self.json()?["name"].as_str().unwrap_or_default().to_owned();
        if name.is_empty() || name.chars().count() > 100 {
            let message = "Must be between 1 and 100 in length.";
            return Err(RestError::field(&["name"], "BASE_TYPE_BAD_LENGTH", message));
        }
        let mut world = self.discord.world.lock();
        let channel = self.channel(&world, 0)?;
        let (id, is_thread, guild) = (channel.id.clone(), channel.is_thread(), channel.guild_id.clone());
        if !is_thread || channel.owner_id.as_ref() != Some(&self.bot) {
            return Err(RestError::missing_permissions());
        }
        if let Some(channel) = world.channels.get_mut(&id) {
            channel.name.clone_from(&name);
        }
        for bot in world.bots_in(&id) {
            let Some(channel) = world.channels.get(&id) else { continue };
            let payload = channel.object(&world, &bot);
            world.dispatch(&bot, "THREAD_UPDATE", guild.as_deref(), &payload);
        }
        ok(&self.channel(&world, 0)?.object(&world, &self.bot))
    }

    pub(super) fn history(&self) -> ApiResult {
        let world = self.discord.world.lock();
        self.channel(&world, permissions::READ_MESSAGE_HISTORY)?;
        let limit =
            Query::<MessagesQuery>::try_from_uri(&self.call.head.uri).map_or(50, |Query(query)| query.limit);
        let here = world.messages.values().filter(|message| message["channel_id"] == self.segments[1]);
        let mut found: Vec<&Value> = here.collect();
        found.reverse();
        found.truncate(limit.clamp(1, 100));
        ok(&json!(found))
    }

    pub(super) fn read_message(&self) -> ApiResult {
        let world = self.discord.world.lock();
        self.channel(&world, permissions::READ_MESSAGE_HISTORY)?;
        ok(self.message(&world)?)
    }

    pub(super) fn send(&self) -> ApiResult {
        let body = self.message_body()?;
        let mut world = self.discord.world.lock();
        let channel = self.channel(&world, 0)?;
        let files = if body.files.is_empty() { 0 } else { permissions::ATTACH_FILES };
        self.channel(&world, Self::needed_to_send(channel) | files)?;
        if matches!(channel.kind, 4 | 15) {
            return Err(RestError::new(400, 50008, "Cannot send messages in a non-text channel"));
        }
        body.check(true)?;
        self.check_reference(&world, &body)?;
        let nonce = body.fields["nonce"].as_str().map(|nonce| format!("{}/{nonce}", self.bot));
        let enforced = nonce.filter(|_| body.fields["enforce_nonce"] == true);
        if let Some(earlier) = enforced.as_ref().and_then(|nonce| world.nonces.get(nonce))
            && self.now_ms - earlier.0 < NONCE_MS
            && let Some(message) = world.messages.get(&earlier.1)
        {
            return ok(message);
        }
        let message = self.write(&mut world, self.segments[1], &body, 0);
        if let Some(nonce) = enforced {
            let id = message["id"].as_str().unwrap_or_default().to_owned();
            world.nonces.insert(nonce, (self.now_ms, id));
        }
        world.announce_message("MESSAGE_CREATE", &message);
        drop(world);
        let mut row = self.row("sent").text(body.text()).raw(body.described());
        row.message_id = message["id"].as_str().map(str::to_owned);
        row.reply_to = message["message_reference"]["message_id"].as_str().map(str::to_owned);
        self.discord.harness.record(row);
        ok(&message)
    }

    /// A reply to a message that does not exist is refused, unless the sender allows it.
    fn check_reference(&self, world: &DiscordWorld, body: &MessageBody) -> Result<(), RestError> {
        let reference = &body.fields["message_reference"];
        let Some(id) = id_of(&reference["message_id"]) else { return Ok(()) };
        let found = world.messages.get(&id).is_some_and(|message| message["channel_id"] == self.segments[1]);
        if found || reference["fail_if_not_exists"] == false {
            return Ok(());
        }
        Err(RestError::field(&["message_reference"], "REPLIES_UNKNOWN_MESSAGE", "Unknown message"))
    }

    fn write(&self, world: &mut DiscordWorld, channel: &str, body: &MessageBody, kind: u8) -> Value {
        let base_url = self.discord.harness.base_url();
        let by = Authorship { channel, author: &self.bot, kind, now_ms: self.now_ms, base_url: &base_url };
        world.write(by, body, None)
    }

    pub(super) fn edit(&self) -> ApiResult {
        let body = self.message_body()?;
        let mut world = self.discord.world.lock();
        self.channel(&world, 0)?;
        if self.message(&world)?["author"]["id"] != self.bot.as_str() {
            return Err(RestError::new(403, 50005, "Cannot edit a message authored by another user"));
        }
        body.check(false)?;
        let message = world.change(self.segments[3], &body, self.now_ms)?;
        world.announce_message("MESSAGE_UPDATE", &message);
        drop(world);
        let row = self.row("edited").message(self.segments[3]).text(body.text()).raw(body.described());
        self.discord.harness.record(row);
        ok(&message)
    }

    pub(super) fn delete(&self) -> ApiResult {
        let mut world = self.discord.world.lock();
        self.channel(&world, 0)?;
        if self.message(&world)?["author"]["id"] != self.bot.as_str() {
            self.channel(&world, permissions::MANAGE_MESSAGES)?;
        }
        let message = world.messages.remove(self.segments[3]);
        if let Some(message) = message {
            world.announce_message(
                "MESSAGE_DELETE",
                &json!({"id": message["id"], "channel_id": message["channel_id"]}),
            );
        }
        drop(world);
        self.discord.harness.record(self.row("deleted").message(self.segments[3]));
        no_content()
    }

    pub(super) fn reactions(&self) -> ApiResult {
        let world = self.discord.world.lock();
        self.channel(&world, permissions::READ_MESSAGE_HISTORY)?;
        let reactions = self.message(&world)?["stand_in_reactions"][self.segments[5]].as_array();
        let users = reactions.into_iter().flatten().filter_map(Value::as_str);
        ok(&users.map(|user| world.user(user)).collect())
    }

    pub(super) fn react(&self, add: bool) -> ApiResult {
        let emoji = self.segments[5];
        // A custom emoji is `name:id`; everything else is a character outside ASCII, or a keycap.
        let is_emoji = !emoji.is_ascii() || emoji.contains(':');
        if !is_emoji {
            return Err(RestError::new(400, 10014, "Unknown Emoji"));
        }
        let mut world = self.discord.world.lock();
        let needed = permissions::READ_MESSAGE_HISTORY | if add { permissions::ADD_REACTIONS } else { 0 };
        let guild = self.channel(&world, needed)?.guild_id.clone();
        self.message(&world)?;
        world.react(self.segments[3], emoji, &self.bot, add);
        let event = if add { "MESSAGE_REACTION_ADD" } else { "MESSAGE_REACTION_REMOVE" };
        world.announce_reaction(
            event,
            self.segments[1],
            guild.as_deref(),
            self.segments[3],
            emoji,
            &self.bot,
        );
        drop(world);
        let kind = if add { "reaction" } else { "reaction_removed" };
        self.discord.harness.record(self.row(kind).message(self.segments[3]).text(emoji));
        no_content()
    }

    pub(super) fn typing(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let channel = self.channel(&world, 0)?;
        self.channel(&world, Self::needed_to_send(channel))?;
        drop(world);
        self.discord.harness.record(self.row("typing"));
        no_content()
    }

    pub(super) fn open_direct_message(&self) -> ApiResult {
        let body = self.json()?;
        let user = id_of(&body["recipient_id"]).unwrap_or_default();
        let user = user.as_str();
        let mut world = self.discord.world.lock();
        if !world.knows(user) || user == self.bot {
            return Err(RestError::new(400, 50033, "Invalid Recipient(s)"));
        }
        let id = world.direct_message(&self.bot, user, None, self.now_ms);
        let channel = world.channels.get(&id).ok_or_else(|| RestError::unknown(10003, "Channel"))?;
        ok(&channel.object(&world, &self.bot))
    }

    pub(super) fn join_thread(&self) -> ApiResult {
        let world = self.discord.world.lock();
        self.channel(&world, 0)?;
        no_content()
    }

    pub(super) fn thread_member(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let thread = self.channel(&world, 0)?;
        match thread.recipients.iter().find(|user| **user == self.segments[3]) {
            Some(user) => ok(&json!({"id": thread.id, "user_id": user, "flags": 0})),
            None => Err(RestError::unknown(10007, "Member")),
        }
    }

    /// A thread of a message, a thread without one, or a post in a forum.
    pub(super) fn start_thread(&self, message: Option<&str>) -> ApiResult {
        let body = self.message_body()?;
        let name = body.fields["name"].as_str().unwrap_or_default().to_owned();
        let mut world = self.discord.world.lock();
        let parent = self.channel(&world, 0)?.clone();
        let is_forum = matches!(parent.kind, 15 | 16);
        let needed = if is_forum { permissions::SEND_MESSAGES } else { permissions::CREATE_PUBLIC_THREADS };
        self.channel(&world, needed)?;
        if name.is_empty() || name.chars().count() > 100 {
            let message = "Must be between 1 and 100 in length.";
            return Err(RestError::field(&["name"], "BASE_TYPE_BAD_LENGTH", message));
        }
        if parent.guild_id.is_none() || parent.is_thread() || parent.kind == 4 {
            return Err(RestError::new(400, 50024, "Cannot execute action on this channel type"));
        }
        let first = match (is_forum, message) {
            (true, _) => {
                let fields = body.fields["message"].clone();
                let first = MessageBody { fields, files: body.files };
                first.check(true)?;
                Some(first)
            }
            (false, Some(_)) if world.channels.contains_key(self.segments[3]) => {
                return Err(RestError::new(
                    400,
                    160_004,
                    "A thread has already been created for this message",
                ));
            }
            (false, _) => None,
        };
        if message.is_some() {
            self.message(&world)?;
        }
        // The thread of a message has the id of the message.
        let id = message.map_or_else(|| world.snowflake(self.now_ms), str::to_owned);
        let thread = StandInChannel {
            id: id.clone(),
            kind: 11,
            name: name.clone(),
            topic: None,
            parent_id: Some(parent.id.clone()),
            owner_id: Some(self.bot.clone()),
            overwrites: Vec::new(),
            recipients: Vec::new(),
            last_message_id: None,
            guild_id: parent.guild_id.clone(),
        };
        let mut object = thread.object(&world, &self.bot);
        world.channels.insert(id.clone(), thread);
        world.announce_thread(&id);
        if let Some(first) = &first {
            let written = self.write(&mut world, &id, first, 0);
            world.announce_message("MESSAGE_CREATE", &written);
            object["message"] = written;
        }
        drop(world);
        let mut row = self.row("thread_created").text(name).raw(body.fields);
        (row.thread_id, row.message_id) = (Some(id.clone()), message.map(str::to_owned));
        self.discord.harness.record(row);
        if let Some(first) = first {
            let row = PlatformRow::new(self.bot.clone(), "sent", self.call.subject.call.clone()).chat(&*id);
            let row = row.message(object["message"]["id"].as_str().unwrap_or_default());
            self.discord.harness.record(row.text(first.text()).raw(first.described()));
        }
        created(&object)
    }
}

impl DiscordWorld {
    /// Changes text, embeds and components of a message.
    pub(in crate::discord) fn change(
        &mut self,
        id: &str,
        body: &MessageBody,
        now_ms: i64,
    ) -> Result<Value, RestError> {
        let message = self.messages.get_mut(id).ok_or_else(|| RestError::unknown(10008, "Message"))?;
        for name in ["content", "embeds", "components"] {
            match body.fields.get(name) {
                None => {}
                Some(Value::Null) if name == "content" => message[name] = json!(""),
                Some(Value::Null) => message[name] = json!([]),
                Some(value) => message[name] = value.clone(),
            }
        }
        message["edited_timestamp"] = json!(timestamp(now_ms));
        Ok(message.clone())
    }

    /// Adds or removes a reaction of a user.
    pub(in crate::discord) fn react(&mut self, message: &str, emoji: &str, user: &str, add: bool) {
        let Some(message) = self.messages.get_mut(message) else { return };
        if !message["stand_in_reactions"].is_object() {
            message["stand_in_reactions"] = json!({});
        }
        let users = &mut message["stand_in_reactions"][emoji];
        let mut kept: Vec<Value> = users.as_array().cloned().unwrap_or_default();
        kept.retain(|one| one != user);
        if add && kept.len() < 1_000 {
            kept.push(json!(user));
        }
        *users = Value::Array(kept);
    }

    /// Tells every bot that sees the channel about a reaction.
    pub(in crate::discord) fn announce_reaction(
        &mut self,
        event: &str,
        channel: &str,
        guild: Option<&str>,
        message: &str,
        emoji: &str,
        user: &str,
    ) -> usize {
        let (name, id) = emoji.split_once(':').map_or((emoji, None), |(name, id)| (name, Some(id)));
        let author = self.messages.get(message).map(|message| message["author"]["id"].clone());
        let mut payload = json!({
            "user_id": user, "channel_id": channel, "message_id": message, "emoji": {"name": name, "id": id},
            "burst": false, "type": 0, "message_author_id": author,
        });
        if let Some(id) = guild {
            payload["guild_id"] = json!(id);
            payload["member"] =
                self.guilds.get(id).and_then(|guild| guild.member(self, user)).unwrap_or_default();
        }
        let bots = self.bots_in(channel);
        bots.into_iter().map(|bot| self.dispatch(&bot, event, guild, &payload)).sum()
    }

    /// Tells every bot that sees it about a new thread.
    pub(in crate::discord) fn announce_thread(&mut self, id: &str) {
        let Some(thread) = self.channels.get(id) else { return };
        let guild = thread.guild_id.clone();
        for bot in self.bots_in(id) {
            let Some(thread) = self.channels.get(id) else { return };
            let mut payload = thread.object(self, &bot);
            payload["newly_created"] = json!(true);
            self.dispatch(&bot, "THREAD_CREATE", guild.as_deref(), &payload);
        }
    }

    /// Bots that see a channel.
    pub(in crate::discord) fn bots_in(&self, channel: &str) -> Vec<String> {
        let Some(channel) = self.channels.get(channel) else { return Vec::new() };
        let sees =
            |bot: &&String| permissions::effective(self, channel, bot) & permissions::VIEW_CHANNEL != 0;
        let ids: Vec<String> = self.bots.iter().map(|bot| bot.settings.id.clone()).collect();
        ids.iter().filter(sees).cloned().collect()
    }
}
