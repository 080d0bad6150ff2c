//! Calls that only read: gateway address, users, servers.

use serde_json::{Value, json};

use super::{ApiResult, RestCall, ok};
use crate::discord::{errors::RestError, guilds::StandInGuild, permissions, world::DiscordWorld};

impl RestCall<'_> {
    fn gateway_url(&self) -> String {
        format!("ws://{}", self.discord.harness.address)
    }

    pub(super) fn gateway(&self) -> ApiResult {
        ok(&json!({"url": self.gateway_url()}))
    }

    pub(super) fn gateway_for_bot(&self) -> ApiResult {
        let limits =
            json!({"total": 1000, "remaining": 1000, "reset_after": 86_400_000, "max_concurrency": 1});
        let shards = self.discord.settings.shards;
        ok(&json!({"url": self.gateway_url(), "shards": shards, "session_start_limit": limits}))
    }

    pub(super) fn me(&self) -> ApiResult {
        let mut user = self.discord.world.lock().user(&self.bot);
        for (name, value) in [
            ("mfa_enabled", json!(false)),
            ("locale", json!("en-US")),
            ("verified", json!(true)),
            ("email", Value::Null),
        ] {
            user[name] = value;
        }
        ok(&user)
    }

    pub(super) fn user(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let id = self.segments[1];
        if world.knows(id) { ok(&world.user(id)) } else { Err(RestError::unknown(10013, "User")) }
    }

    pub(super) fn my_guilds(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let mine = world.guilds.values().filter(|guild| guild.members.contains_key(&self.bot));
        ok(&mine
            .map(|guild| {
                json!({
                    "id": guild.id, "name": guild.name, "icon": null, "owner": guild.owner_id == self.bot,
                    "permissions": permissions::EVERYONE.to_string(), "features": [],
                })
            })
            .collect())
    }

    fn my_guild<'w>(&self, world: &'w DiscordWorld) -> Result<&'w StandInGuild, RestError> {
        let guild = world.guilds.get(self.segments[1]).ok_or_else(|| RestError::unknown(10004, "Guild"))?;
        if guild.members.contains_key(&self.bot) { Ok(guild) } else { Err(RestError::missing_access()) }
    }

    pub(super) fn guild(&self) -> ApiResult {
        ok(&self.my_guild(&self.discord.world.lock())?.object())
    }

    pub(super) fn guild_channels(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let guild = self.my_guild(&world)?;
        let here = world.channels.values().filter(|one| one.guild_id.as_ref() == Some(&guild.id));
        ok(&here.filter(|one| !one.is_thread()).map(|one| one.object(&world, &self.bot)).collect())
    }

    pub(super) fn guild_roles(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let roles = self.my_guild(&world)?.roles.iter().enumerate();
        ok(&roles.map(|(position, role)| role.object(position)).collect())
    }

    pub(super) fn guild_members(&self) -> ApiResult {
        let world = self.discord.world.lock();
        let guild = self.my_guild(&world)?;
        ok(&guild.members.keys().filter_map(|user| guild.member(&world, user)).collect())
    }

    pub(super) fn guild_member(&self) -> ApiResult {
        let world = self.discord.world.lock();
        match self.my_guild(&world)?.member(&world, self.segments[3]) {
            Some(member) => ok(&member),
            None => Err(RestError::unknown(10007, "Member")),
        }
    }
}
