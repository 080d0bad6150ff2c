//! Injections into Discord: carries out messages, edits, reactions, commands and presses of people.

use std::sync::Arc;

use base64::{Engine, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{
    DiscordPlatform,
    guilds::{GuildSetup, StandInChannel, StandInMember},
    injection::{DiscordInjection, DiscordPerson, DiscordPlace, InjectedFile},
    interactions::StandInInteraction,
    messages::{Authorship, MessageBody, NewFile, buttons},
    permissions,
    world::DiscordWorld,
};
use crate::harness::PlatformRow;

/// A new interaction, before it has an id.
struct NewInteraction {
    kind: u64,
    data: Value,
    application: String,
    channel: String,
    user: String,
    source: Option<Value>,
}

impl DiscordPlatform {
    pub(super) fn act(self: &Arc<Self>, injection: DiscordInjection) -> Result<Value, String> {
        match injection {
            DiscordInjection::Message { text, from, place, bot, reply_to, files, flags, id } => {
                let fields = json!({
                    "content": text, "flags": flags, "message_reference": {"message_id": reply_to},
                });
                self.person_writes(fields, &files, &from, &place, bot, id)
            }
            DiscordInjection::Edit { message_id, text } => self.person_edits(&message_id, &text),
            DiscordInjection::Delete { message_id } => self.person_deletes(&message_id),
            DiscordInjection::React { message_id, emoji, from, remove } => {
                self.person_reacts(&message_id, &emoji, &from, remove)
            }
            DiscordInjection::Command { name, options, from, place, bot, autocomplete, unregistered } => {
                let mut world = self.world.lock();
                let application = default_bot(&world, bot)?;
                let channel = world.channel_for(&place, &from, &application, self.harness.now_ms())?;
                let command = registered(&world, &application, place.guild_id.as_deref(), &name);
                let id = match (command, unregistered) {
                    (Some(id), _) => id,
                    (None, true) => "1".to_owned(),
                    (None, false) => return Err(format!("the application has no command {name}")),
                };
                let data = json!({"id": id, "name": name, "type": 1, "options": options});
                let kind = if autocomplete { 4 } else { 2 };
                let new = NewInteraction { kind, data, application, channel, user: from.id, source: None };
                self.interact(world, new)
            }
            DiscordInjection::Press { message_id, custom_id, values, from } => {
                self.person_presses(&message_id, &custom_id, &values, from)
            }
            DiscordInjection::SubmitModal { custom_id, fields, from, place, bot } => {
                let mut world = self.world.lock();
                let application = default_bot(&world, bot)?;
                let channel = world.channel_for(&place, &from, &application, self.harness.now_ms())?;
                let row = |(id, value)| json!({"type": 1, "components": [{"type": 4, "custom_id": id, "value": value}]});
                let rows: Vec<Value> = fields.into_iter().map(row).collect();
                let data = json!({"custom_id": custom_id, "components": rows});
                let new = NewInteraction { kind: 5, data, application, channel, user: from.id, source: None };
                self.interact(world, new)
            }
            DiscordInjection::Event { t, d, bot } => {
                let mut world = self.world.lock();
                let bot = default_bot(&world, bot)?;
                let guild = d["guild_id"].as_str().map(str::to_owned);
                Ok(json!({"sessions": world.dispatch(&bot, &t, guild.as_deref(), &d)}))
            }
            DiscordInjection::Interaction { d } => self.raw_interaction(d),
        }
    }

    fn person_writes(
        &self,
        fields: Value,
        files: &[InjectedFile],
        from: &DiscordPerson,
        place: &DiscordPlace,
        bot: Option<String>,
        id: Option<String>,
    ) -> Result<Value, String> {
        let read = |file: &InjectedFile| {
            let content = BASE64_STANDARD.decode(&file.base64).map_err(|error| error.to_string())?;
            let (name, content_type) = (file.name.clone(), file.content_type.clone());
            Ok(NewFile { name, content_type, content: content.into() })
        };
        let files = files.iter().map(read).collect::<Result<Vec<_>, String>>()?;
        let body = MessageBody { fields, files };
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        let bot = default_bot(&world, bot)?;
        let channel = world.channel_for(place, from, &bot, now_ms)?;
        let base_url = self.harness.base_url();
        let by = Authorship { channel: &channel, author: &from.id, kind: 0, now_ms, base_url: &base_url };
        let message = world.write(by, &body, id);
        let mut sessions = world.announce_message("MESSAGE_CREATE", &message);
        if self.harness.strikes_twice(&bot) {
            sessions += world.announce_message("MESSAGE_CREATE", &message);
        }
        drop(world);
        let id = message["id"].as_str().unwrap_or_default();
        let row = PlatformRow::new(bot, "received", "MESSAGE_CREATE").chat(&*channel).message(id);
        self.harness.record(row.text(body.text()).raw(message.clone()));
        Ok(json!({"message_id": id, "channel_id": channel, "sessions": sessions}))
    }

    fn person_edits(&self, id: &str, text: &str) -> Result<Value, String> {
        let body = MessageBody { fields: json!({"content": text}), files: Vec::new() };
        let mut world = self.world.lock();
        let message = world.change(id, &body, self.harness.now_ms()).map_err(|_| "no such message")?;
        Ok(json!({"sessions": world.announce_message("MESSAGE_UPDATE", &message)}))
    }

    fn person_deletes(&self, id: &str) -> Result<Value, String> {
        let mut world = self.world.lock();
        let message = world.messages.remove(id).ok_or("no such message")?;
        let payload = json!({"id": message["id"], "channel_id": message["channel_id"]});
        Ok(json!({"sessions": world.announce_message("MESSAGE_DELETE", &payload)}))
    }

    fn person_reacts(
        &self,
        id: &str,
        emoji: &str,
        from: &DiscordPerson,
        remove: bool,
    ) -> Result<Value, String> {
        let mut world = self.world.lock();
        world.add_person(from);
        let message = world.messages.get(id).ok_or("no such message")?;
        let channel = message["channel_id"].as_str().unwrap_or_default().to_owned();
        let guild = world.channels.get(&channel).and_then(|channel| channel.guild_id.clone());
        world.react(id, emoji, &from.id, !remove);
        let event = if remove { "MESSAGE_REACTION_REMOVE" } else { "MESSAGE_REACTION_ADD" };
        let sessions = world.announce_reaction(event, &channel, guild.as_deref(), id, emoji, &from.id);
        Ok(json!({"sessions": sessions}))
    }

    fn person_presses(
        self: &Arc<Self>,
        id: &str,
        custom_id: &str,
        values: &[String],
        from: DiscordPerson,
    ) -> Result<Value, String> {
        let mut world = self.world.lock();
        world.add_person(&from);
        let message = world.messages.get(id).ok_or("no such message")?.clone();
        let rows = message["components"].as_array().cloned().unwrap_or_default();
        let component = buttons(&rows).find(|one| one["custom_id"] == custom_id).ok_or("no such button")?;
        if component["disabled"] == true {
            return Err("the button is disabled".to_owned());
        }
        let mut data = json!({"custom_id": custom_id, "component_type": component["type"]});
        if component["type"] != 2 {
            data["values"] = json!(values);
        }
        let application = message["author"]["id"].as_str().unwrap_or_default().to_owned();
        let channel = message["channel_id"].as_str().unwrap_or_default().to_owned();
        let new =
            NewInteraction { kind: 3, data, application, channel, user: from.id, source: Some(message) };
        self.interact(world, new)
    }

    /// Makes an interaction with everything that the platform puts into it, and delivers it.
    fn interact(
        self: &Arc<Self>,
        mut world: parking_lot::MutexGuard<'_, DiscordWorld>,
        new: NewInteraction,
    ) -> Result<Value, String> {
        let now_ms = self.harness.now_ms();
        let id = world.snowflake(now_ms);
        let token = format!("interaction-token-{id}-{}", self.harness.next_id());
        let channel = world.channels.get(&new.channel).ok_or("no such channel")?.clone();
        let granted = permissions::effective(&world, &channel, &new.application).to_string();
        let mut body = json!({
            "id": id, "application_id": new.application, "type": new.kind, "token": token, "version": 1,
            "data": new.data, "channel_id": channel.id, "channel": channel.object(&world, &new.application),
            "locale": "en-US", "app_permissions": granted, "entitlements": [], "attachment_size_limit": 10_485_760,
            "context": if channel.guild_id.is_some() { 0 } else { 1 },
            "authorizing_integration_owners": {"0": channel.guild_id.clone().unwrap_or_else(|| "0".to_owned())},
        });
        match channel.guild_id.as_ref().and_then(|id| world.guilds.get(id)) {
            Some(guild) => {
                let mut member =
                    guild.member(&world, &new.user).unwrap_or_else(|| json!({"user": world.user(&new.user)}));
                member["permissions"] =
                    json!(permissions::effective(&world, &channel, &new.user).to_string());
                body["guild_id"] = json!(guild.id);
                body["guild"] = json!({"id": guild.id, "locale": "en-US", "features": []});
                body["guild_locale"] = json!("en-US");
                body["member"] = member;
            }
            None => body["user"] = world.user(&new.user),
        }
        let source = new.source.as_ref().and_then(|message| message["id"].as_str()).map(str::to_owned);
        if let Some(message) = new.source {
            body["message"] = message;
        }
        let interaction = StandInInteraction {
            id: id.clone(),
            application: new.application.clone(),
            channel: new.channel.clone(),
            kind: new.kind,
            created_ms: now_ms,
            answered: None,
            original: None,
            source,
        };
        world.interactions.insert(token.clone(), interaction);
        drop(world);
        self.record_interaction(&body);
        let reached = self.deliver_interaction(token.clone(), body)?;
        Ok(json!({"interaction_id": id, "token": token, "channel_id": new.channel, "reached": reached}))
    }

    /// Credentials do not appear in the transcript.
    fn record_interaction(&self, body: &Value) {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let named = body["data"]["name"].as_str().or_else(|| body["data"]["custom_id"].as_str());
        let row = PlatformRow::new(text("application_id"), "received", "INTERACTION_CREATE")
            .chat(text("channel_id"))
            .message(text("id"))
            .text(named.unwrap_or_default());
        self.harness.record(row.raw(body["data"].clone()));
    }

    fn raw_interaction(self: &Arc<Self>, mut body: Value) -> Result<Value, String> {
        if !body.is_object() {
            return Err("an interaction is an object".to_owned());
        }
        let now_ms = self.harness.now_ms();
        let mut world = self.world.lock();
        for (name, new) in
            [("id", world.snowflake(now_ms)), ("token", format!("token-{}", self.harness.next_id()))]
        {
            if body[name].is_null() {
                body[name] = json!(new);
            }
        }
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let token = text("token");
        let interaction = StandInInteraction {
            id: text("id"),
            application: text("application_id"),
            channel: text("channel_id"),
            kind: body["type"].as_u64().unwrap_or(0),
            created_ms: now_ms,
            answered: None,
            original: None,
            source: body["message"]["id"].as_str().map(str::to_owned),
        };
        world.interactions.insert(token.clone(), interaction);
        drop(world);
        self.record_interaction(&body);
        let (id, reached) = (body["id"].clone(), self.deliver_interaction(token.clone(), body)?);
        Ok(json!({"interaction_id": id, "token": token, "reached": reached}))
    }
}

fn default_bot(world: &DiscordWorld, bot: Option<String>) -> Result<String, String> {
    let known = match bot {
        Some(id) => world.bot(&id),
        None => world.bots.first(),
    };
    Ok(known.ok_or("no such application")?.settings.id.clone())
}

fn registered(world: &DiscordWorld, application: &str, guild: Option<&str>, name: &str) -> Option<String> {
    let commands = &world.bot(application)?.commands;
    let here = guild.into_iter().chain([""]).filter_map(|place| commands.get(place)).flatten();
    here.filter(|command| command["name"] == name)
        .find_map(|command| command["id"].as_str().map(str::to_owned))
}

impl DiscordWorld {
    /// The channel of a location. Creates what does not exist.
    fn channel_for(
        &mut self,
        place: &DiscordPlace,
        person: &DiscordPerson,
        bot: &str,
        now_ms: i64,
    ) -> Result<String, String> {
        self.add_person(person);
        let Some(guild_id) = &place.guild_id else {
            if let Some(known) = place.channel_id.as_ref().and_then(|id| self.channels.get(id)) {
                return Ok(known.id.clone());
            }
            return Ok(self.direct_message(bot, &person.id, place.channel_id.clone(), now_ms));
        };
        let channel_id = place.channel_id.clone().ok_or("a message in a server needs a channel")?;
        if !self.guilds.contains_key(guild_id) {
            self.set_guild(GuildSetup { id: guild_id.clone(), ..GuildSetup::default() });
            self.announce_guild(guild_id);
        }
        if !self.channels.contains_key(&channel_id) {
            let channel = StandInChannel {
                id: channel_id.clone(),
                kind: place.channel_type,
                guild_id: Some(guild_id.clone()),
                name: format!("channel-{channel_id}"),
                topic: None,
                parent_id: place.parent_id.clone(),
                owner_id: Some(person.id.clone()),
                overwrites: Vec::new(),
                recipients: Vec::new(),
                last_message_id: None,
            };
            let is_thread = channel.is_thread();
            self.channels.insert(channel_id.clone(), channel);
            if is_thread {
                self.announce_thread(&channel_id);
            } else {
                self.announce_channel(&channel_id);
            }
        }
        if let Some(guild) = self.guilds.get_mut(guild_id) {
            guild.members.entry(person.id.clone()).or_insert(StandInMember { nick: None, roles: Vec::new() });
        }
        Ok(channel_id)
    }

    fn announce_channel(&mut self, id: &str) {
        for bot in self.bots_in(id) {
            let Some(channel) = self.channels.get(id) else { return };
            let (payload, guild) = (channel.object(self, &bot), channel.guild_id.clone());
            self.dispatch(&bot, "CHANNEL_CREATE", guild.as_deref(), &payload);
        }
    }
}
