//! Calls about the application: itself, its interactions URL, its commands.

use serde_json::{Value, json};

use super::{ApiResult, RestCall, created, no_content, ok};
use crate::{
    discord::{errors::RestError, world::DiscordWorld},
    harness::PlatformRow,
};

/// The most commands of an application, globally and in one server.
const MOST_COMMANDS: usize = 100;

/// Flag of an application that may read the content of messages, without a grant.
const MESSAGE_CONTENT_LIMITED: u64 = 1 << 19;

impl RestCall<'_> {
    pub(super) fn application(&self) -> ApiResult {
        ok(&self.application_object(&self.discord.world.lock()))
    }

    fn application_object(&self, world: &DiscordWorld) -> Value {
        let bot = world.bot(&self.bot);
        let flags =
            if bot.is_some_and(|bot| bot.settings.privileged_intents) { MESSAGE_CONTENT_LIMITED } else { 0 };
        let owner = json!({
            "id": "1", "username": "owner", "discriminator": "0", "global_name": null, "avatar": null,
        });
        json!({
            "id": self.bot, "name": bot.map(|bot| bot.settings.username.clone()), "icon": null, "description": "",
            "bot_public": false, "bot_require_code_grant": false, "verify_key": bot.map(|bot| &bot.public_key),
            "bot": world.user(&self.bot), "owner": owner, "team": null, "flags": flags, "summary": "", "rpc_origins": [],
            "interactions_endpoint_url": bot.and_then(|bot| bot.interactions_url.clone()),
            "approximate_guild_count": world.guilds.len(), "redirect_uris": [], "tags": [],
        })
    }

    /// A new interactions URL must answer a ping, and refuse one with a wrong signature.
    pub(super) async fn change_application(&self) -> ApiResult {
        let body = self.json()?;
        if let Some(url) = body.get("interactions_endpoint_url") {
            let url = url.as_str().filter(|url| !url.is_empty()).map(str::to_owned);
            if let Some(url) = &url
                && let Err(reason) = self.discord.probe(&self.bot, url).await
            {
                let row = PlatformRow::new(
                    self.bot.clone(),
                    "interactions_url_refused",
                    self.call.subject.call.clone(),
                );
                self.discord.harness.record(row.text(reason));
                let message = "The specified interactions endpoint url could not be verified.";
                let code = "APPLICATION_INTERACTIONS_ENDPOINT_URL_INVALID";
                return Err(RestError::field(&["interactions_endpoint_url"], code, message));
            }
            if let Some(bot) = self.discord.world.lock().bot_mut(&self.bot) {
                bot.interactions_url = url;
            }
            let row = PlatformRow::new(
                self.bot.clone(),
                "interactions_url_changed",
                self.call.subject.call.clone(),
            );
            self.discord.harness.record(row);
        }
        self.application()
    }

    /// Commands, globally or in one server.
    pub(super) fn commands(&self, route: &str) -> ApiResult {
        if self.segments.get(1) != Some(&self.bot.as_str()) {
            return Err(RestError::new(
                403,
                20012,
                "You are not authorized to perform this action on this application",
            ));
        }
        let in_guild = self.segments.get(2) == Some(&"guilds");
        let guild = if in_guild { self.segments[3] } else { "" };
        let method = route.split(' ').next().unwrap_or_default();
        let mut world = self.discord.world.lock();
        if in_guild && !world.guilds.get(guild).is_some_and(|guild| guild.members.contains_key(&self.bot)) {
            return Err(RestError::missing_access());
        }
        let known = world.bot(&self.bot).and_then(|bot| bot.commands.get(guild)).cloned().unwrap_or_default();
        let (commands, answer) = match method {
            "GET" => return ok(&json!(known)),
            "DELETE" => {
                let id = self.segments.last().copied().unwrap_or_default();
                let kept: Vec<Value> = known.iter().filter(|command| command["id"] != id).cloned().collect();
                if kept.len() == known.len() {
                    return Err(RestError::unknown(10063, "application command"));
                }
                (kept, no_content())
            }
            "POST" => {
                let command = self.command(&mut world, &self.json()?, guild, &known)?;
                let mut kept: Vec<Value> =
                    known.into_iter().filter(|one| one["name"] != command["name"]).collect();
                kept.push(command.clone());
                (kept, created(&command))
            }
            _ => {
                let body = self.json()?;
                let wanted = body.as_array().ok_or_else(RestError::not_json)?;
                let mut commands = Vec::new();
                for command in wanted {
                    commands.push(self.command(&mut world, command, guild, &known)?);
                }
                let all = json!(commands);
                (commands, ok(&all))
            }
        };
        if commands.len() > MOST_COMMANDS {
            return Err(RestError::new(400, 30032, "Maximum number of application commands reached (100)"));
        }
        let names: Vec<&str> = commands.iter().filter_map(|command| command["name"].as_str()).collect();
        let row = PlatformRow::new(self.bot.clone(), "commands_changed", self.call.subject.call.clone())
            .text(names.join(" "))
            .raw(json!(commands));
        if let Some(bot) = world.bot_mut(&self.bot) {
            bot.commands.insert(guild.to_owned(), commands);
        }
        drop(world);
        self.discord.harness.record(row);
        answer
    }

    /// A command as it is stored. A known one keeps its id.
    fn command(
        &self,
        world: &mut DiscordWorld,
        wanted: &Value,
        guild: &str,
        known: &[Value],
    ) -> Result<Value, RestError> {
        let name = wanted["name"].as_str().unwrap_or_default();
        let kind = wanted["type"].as_u64().unwrap_or(1);
        let plain = |c: char| (c.is_alphanumeric() && !c.is_uppercase()) || c == '-' || c == '_';
        if kind == 1 && (name.is_empty() || name.chars().count() > 32 || !name.chars().all(plain)) {
            let message = "Command name is invalid";
            return Err(RestError::field(&["name"], "APPLICATION_COMMAND_INVALID_NAME", message));
        }
        let described = wanted["description"].as_str().unwrap_or_default().chars().count();
        if kind == 1 && !(1..=100).contains(&described) {
            let message = "Must be between 1 and 100 in length.";
            return Err(RestError::field(&["description"], "BASE_TYPE_BAD_LENGTH", message));
        }
        if wanted["options"].as_array().is_some_and(|options| options.len() > 25) {
            return Err(RestError::too_long(&["options"], 25));
        }
        let earlier = known.iter().find(|one| one["name"] == name && one["type"] == kind);
        let id = match earlier.and_then(|one| one["id"].as_str()) {
            Some(id) => id.to_owned(),
            None => world.snowflake(self.now_ms),
        };
        let mut command = json!({
            "id": id, "application_id": self.bot, "type": kind, "name": name, "version": id,
            "description": wanted["description"].as_str().unwrap_or_default(), "dm_permission": true,
            "default_member_permissions": null, "nsfw": false,
            "options": wanted["options"].as_array().cloned().unwrap_or_default(),
        });
        if !guild.is_empty() {
            command["guild_id"] = json!(guild);
        }
        Ok(command)
    }
}
