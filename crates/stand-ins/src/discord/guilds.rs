//! Discord servers (guilds): their roles, channels and members.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::{DiscordPlatform, injection::DiscordPerson, permissions, world::DiscordWorld};

/// A server as a test describes it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GuildSetup {
    /// Its id, which is also the id of the role @everyone.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Default: nobody who appears in the server.
    pub owner_id: String,
    /// Roles. @everyone is added if it is not there.
    pub roles: Vec<RoleSetup>,
    /// Channels.
    pub channels: Vec<ChannelSetup>,
    /// People. All bots are members, unless `bots` says otherwise.
    pub members: Vec<MemberSetup>,
    /// Ids of the bots that are members. Default: all.
    pub bots: Option<Vec<String>>,
}

/// A role.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoleSetup {
    /// Its id; that of the server for @everyone.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Bits, as a number or in text.
    #[serde(deserialize_with = "bits")]
    pub permissions: u64,
}

/// A channel of a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ChannelSetup {
    /// Its id.
    pub id: String,
    /// 0 text (the default), 4 category, 5 announcement, 11 public thread, 12 private thread, 15 forum.
    #[serde(rename = "type")]
    pub kind: u8,
    /// Its name.
    pub name: String,
    /// Its topic.
    pub topic: Option<String>,
    /// The category, or the channel of a thread.
    pub parent_id: Option<String>,
    /// Ids of the people in a thread.
    pub thread_members: Vec<String>,
    /// What roles and members may do here.
    pub permission_overwrites: Vec<OverwriteSetup>,
}

/// A change of permissions in one channel.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverwriteSetup {
    /// Of a role or a member.
    pub id: String,
    /// 0 role, 1 member.
    #[serde(rename = "type")]
    pub kind: u8,
    /// Bits that are granted.
    #[serde(deserialize_with = "bits")]
    pub allow: u64,
    /// Bits that are taken away.
    #[serde(deserialize_with = "bits")]
    pub deny: u64,
}

/// A member of a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemberSetup {
    /// The person.
    pub user: DiscordPerson,
    /// Name in this server.
    pub nick: Option<String>,
    /// Ids of roles.
    pub roles: Vec<String>,
}

fn bits<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    match Value::deserialize(input)? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
    .ok_or_else(|| serde::de::Error::custom("permissions are a number, or a number in text"))
}

/// A server.
pub(super) struct StandInGuild {
    pub id: String,
    pub name: String,
    pub owner_id: String,
    pub roles: Vec<RoleSetup>,
    pub members: BTreeMap<String, StandInMember>,
}

/// A member of a server.
pub(super) struct StandInMember {
    pub nick: Option<String>,
    pub roles: Vec<String>,
}

/// A channel, thread or direct message.
#[derive(Clone)]
pub(super) struct StandInChannel {
    pub id: String,
    pub kind: u8,
    pub guild_id: Option<String>,
    pub name: String,
    pub topic: Option<String>,
    pub parent_id: Option<String>,
    pub owner_id: Option<String>,
    pub overwrites: Vec<OverwriteSetup>,
    /// Both sides of a direct message, or the people in a thread.
    pub recipients: Vec<String>,
    pub last_message_id: Option<String>,
}

impl StandInChannel {
    pub fn is_thread(&self) -> bool {
        matches!(self.kind, 10..=12)
    }

    /// The channel object, as this user sees it.
    pub fn object(&self, world: &DiscordWorld, viewer: &str) -> Value {
        let mut object = json!({
            "id": self.id, "type": self.kind, "last_message_id": self.last_message_id, "flags": 0,
        });
        if let Some(guild) = &self.guild_id {
            let overwrites: Vec<Value> = self.overwrites.iter().map(OverwriteSetup::object).collect();
            object["guild_id"] = json!(guild);
            object["name"] = json!(self.name);
            object["parent_id"] = json!(self.parent_id);
            object["position"] = json!(0);
            object["nsfw"] = json!(false);
            object["rate_limit_per_user"] = json!(0);
            if self.is_thread() {
                object["owner_id"] = json!(self.owner_id);
                object["message_count"] = json!(0);
                object["member_count"] = json!(1);
                object["thread_metadata"] = json!({
                    "archived": false, "auto_archive_duration": 1440, "locked": false,
                    "archive_timestamp": "2026-01-01T00:00:00.000000+00:00",
                });
            } else {
                object["topic"] = json!(self.topic);
                object["permission_overwrites"] = json!(overwrites);
            }
            if self.kind == 15 {
                object["available_tags"] = json!([]);
            }
        } else {
            let others = self.recipients.iter().filter(|recipient| *recipient != viewer);
            object["recipients"] = others.map(|recipient| world.user(recipient)).collect();
        }
        object
    }
}

impl OverwriteSetup {
    fn object(&self) -> Value {
        json!({
            "id": self.id, "type": self.kind,
            "allow": self.allow.to_string(), "deny": self.deny.to_string(),
        })
    }
}

impl RoleSetup {
    pub(super) fn object(&self, position: usize) -> Value {
        json!({
            "id": self.id, "name": self.name, "permissions": self.permissions.to_string(), "position": position,
            "color": 0, "colors": {"primary_color": 0, "secondary_color": null, "tertiary_color": null},
            "hoist": false, "managed": false, "mentionable": false, "flags": 0, "icon": null, "unicode_emoji": null,
        })
    }
}

impl StandInGuild {
    pub fn member(&self, world: &DiscordWorld, user: &str) -> Option<Value> {
        let member = self.members.get(user)?;
        let mut object = self.partial_member(member);
        object["user"] = world.user(user);
        Some(object)
    }

    /// The member without the user, as it stands beside the author of a message.
    pub fn partial_member(&self, member: &StandInMember) -> Value {
        json!({
            "nick": member.nick, "roles": member.roles, "joined_at": "2024-01-01T00:00:00.000000+00:00",
            "deaf": false, "mute": false, "flags": 0, "pending": false, "avatar": null, "premium_since": null,
            "communication_disabled_until": null,
        })
    }

    /// The guild object without lists that only GUILD_CREATE has.
    pub fn object(&self) -> Value {
        let roles: Vec<Value> =
            self.roles.iter().enumerate().map(|(position, role)| role.object(position)).collect();
        json!({
            "id": self.id, "name": self.name, "owner_id": self.owner_id, "roles": roles, "icon": null,
            "splash": null, "discovery_splash": null, "afk_channel_id": null, "afk_timeout": 300,
            "verification_level": 0, "default_message_notifications": 1, "explicit_content_filter": 0,
            "emojis": [], "features": [], "mfa_level": 0, "application_id": null, "system_channel_id": null,
            "system_channel_flags": 0, "rules_channel_id": null, "vanity_url_code": null, "description": null,
            "banner": null, "premium_tier": 0, "preferred_locale": "en-US", "public_updates_channel_id": null,
            "nsfw_level": 0, "premium_progress_bar_enabled": false, "safety_alerts_channel_id": null,
            "stickers": [],
        })
    }

    /// The payload of GUILD_CREATE for one bot.
    pub fn creation(&self, world: &DiscordWorld, bot: &str) -> Value {
        let mut object = self.object();
        let here = || world.channels.values().filter(|one| one.guild_id.as_deref() == Some(&*self.id));
        let sees = |one: &&super::guilds::StandInChannel| {
            permissions::effective(world, one, bot) & permissions::VIEW_CHANNEL != 0
        };
        object["channels"] =
            here().filter(|one| !one.is_thread()).map(|one| one.object(world, bot)).collect();
        object["threads"] =
            here().filter(|one| one.is_thread()).filter(sees).map(|one| one.object(world, bot)).collect();
        object["members"] = self.members.keys().filter_map(|user| self.member(world, user)).collect();
        object["member_count"] = json!(self.members.len());
        object["joined_at"] = json!("2024-01-01T00:00:00.000000+00:00");
        object["large"] = json!(false);
        object["unavailable"] = json!(false);
        for list in
            ["voice_states", "presences", "stage_instances", "guild_scheduled_events", "soundboard_sounds"]
        {
            object[list] = json!([]);
        }
        object
    }
}

impl DiscordWorld {
    /// Stores a server, its channels and its people.
    pub(super) fn set_guild(&mut self, setup: GuildSetup) {
        let mut roles = setup.roles;
        if !roles.iter().any(|role| role.id == setup.id) {
            let everyone = RoleSetup {
                id: setup.id.clone(),
                name: "@everyone".to_owned(),
                permissions: permissions::EVERYONE,
            };
            roles.insert(0, everyone);
        }
        let mut members = BTreeMap::new();
        for member in setup.members {
            self.add_person(&member.user);
            members.insert(member.user.id, StandInMember { nick: member.nick, roles: member.roles });
        }
        let invited = |id: &String| setup.bots.as_ref().is_none_or(|bots| bots.contains(id));
        for bot in self.bots.iter().map(|bot| bot.settings.id.clone()).filter(invited) {
            members.entry(bot).or_insert(StandInMember { nick: None, roles: Vec::new() });
        }
        for channel in setup.channels {
            let channel = StandInChannel {
                id: channel.id,
                kind: channel.kind,
                guild_id: Some(setup.id.clone()),
                name: channel.name,
                topic: channel.topic,
                parent_id: channel.parent_id,
                owner_id: None,
                overwrites: channel.permission_overwrites,
                recipients: channel.thread_members,
                last_message_id: None,
            };
            self.channels.insert(channel.id.clone(), channel);
        }
        let name = if setup.name.is_empty() { format!("Server {}", setup.id) } else { setup.name };
        let guild = StandInGuild { id: setup.id.clone(), name, owner_id: setup.owner_id, roles, members };
        self.guilds.insert(setup.id, guild);
    }

    /// Sends GUILD_CREATE to every bot that is a member.
    pub(super) fn announce_guild(&mut self, id: &str) {
        let Some(guild) = self.guilds.get(id) else { return };
        let bots: Vec<String> = self.bots.iter().map(|bot| bot.settings.id.clone()).collect();
        let payloads: Vec<(String, Value)> = bots
            .into_iter()
            .filter(|bot| guild.members.contains_key(bot))
            .map(|bot| (bot.clone(), guild.creation(self, &bot)))
            .collect();
        for (bot, payload) in payloads {
            self.dispatch(&bot, "GUILD_CREATE", Some(id), &payload);
        }
    }
}

impl DiscordPlatform {
    pub(super) fn add_guild(&self, setup: GuildSetup) {
        let mut world = self.world.lock();
        let id = setup.id.clone();
        world.set_guild(setup);
        world.announce_guild(&id);
        drop(world);
        self.harness.changed.notify_waiters();
    }
}
