//! HTTP API of Discord: authentication, rate limits, and the calls.

mod applications;
mod channels;
mod reads;
mod webhooks;

use std::sync::Arc;

use axum::body::Body;
use http::Response;
use serde_json::Value;

use super::{
    DiscordPlatform,
    errors::{ApiResult, RestError},
    guilds::StandInChannel,
    messages::MessageBody,
    permissions, routes,
    world::DiscordWorld,
};
use crate::harness::{ApiCall, json_response, respond};

/// A call with the bot that makes it and the segments of its path.
pub(super) struct RestCall<'a> {
    pub discord: &'a Arc<DiscordPlatform>,
    pub call: &'a ApiCall,
    pub segments: Vec<&'a str>,
    /// Empty for calls with an interaction token.
    pub bot: String,
    pub now_ms: i64,
}

impl DiscordPlatform {
    pub(super) async fn api(self: Arc<Self>, call: ApiCall) -> Response<Body> {
        let route = call.subject.call.clone();
        let is_open = matches!(route.split('/').nth(1), Some("interactions" | "webhooks"));
        let needs_token = !is_open && route != "GET /gateway";
        let is_bot = call.header("user-agent").is_some_and(|agent| agent.starts_with("DiscordBot ("));
        if needs_token && !is_bot {
            return RestError::new(403, 40333, "internal network error").into();
        }
        let bot = call.subject.account.clone();
        if needs_token && bot.is_none() {
            return RestError::unauthorized().into();
        }
        let segments = routes::segments(&call.path).unwrap_or_default();
        let now_ms = self.harness.now_ms();
        let bucket = match &self.settings.limits {
            None => None,
            Some(limits) => {
                let counted = bot.as_deref().filter(|_| needs_token);
                let major = segments.get(1).copied().unwrap_or_default();
                match self.world.lock().buckets.admit(limits, counted, &route, major, now_ms) {
                    Ok(state) => Some(state),
                    Err(refusal) => return *refusal,
                }
            }
        };
        let rest = RestCall { discord: &self, call: &call, segments, bot: bot.unwrap_or_default(), now_ms };
        let outcome = if route == "PATCH /applications/@me" {
            rest.change_application().await
        } else {
            rest.answer(&route)
        };
        let mut response = outcome.unwrap_or_else(RestError::into);
        if let Some(bucket) = bucket {
            bucket.write(response.headers_mut());
        }
        response
    }
}

impl RestCall<'_> {
    fn answer(&self, route: &str) -> ApiResult {
        match route {
            "GET /gateway" => self.gateway(),
            "GET /gateway/bot" => self.gateway_for_bot(),
            "GET /users/@me" => self.me(),
            "GET /users/@me/guilds" => self.my_guilds(),
            "GET /users/{user}" => self.user(),
            "POST /users/@me/channels" => self.open_direct_message(),
            "GET /applications/@me" | "GET /oauth2/applications/@me" => self.application(),
            "GET /channels/{channel}" => self.read_channel(),
            "PATCH /channels/{channel}" => self.rename_channel(),
            "GET /channels/{channel}/messages" => self.history(),
            "POST /channels/{channel}/messages" => self.send(),
            "GET /channels/{channel}/messages/{message}" => self.read_message(),
            "PATCH /channels/{channel}/messages/{message}" => self.edit(),
            "DELETE /channels/{channel}/messages/{message}" => self.delete(),
            "POST /channels/{channel}/messages/{message}/threads" => {
                self.start_thread(Some(self.segments[3]))
            }
            "POST /channels/{channel}/threads" => self.start_thread(None),
            "PUT /channels/{channel}/thread-members/@me" => self.join_thread(),
            "GET /channels/{channel}/thread-members/{user}" => self.thread_member(),
            "GET /channels/{channel}/messages/{message}/reactions/{emoji}" => self.reactions(),
            "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me" => self.react(true),
            "DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me" => self.react(false),
            "POST /channels/{channel}/typing" => self.typing(),
            "GET /guilds/{guild}" => self.guild(),
            "GET /guilds/{guild}/channels" => self.guild_channels(),
            "GET /guilds/{guild}/roles" => self.guild_roles(),
            "GET /guilds/{guild}/members" => self.guild_members(),
            "GET /guilds/{guild}/members/{user}" => self.guild_member(),
            "POST /interactions/{interaction}/{token}/callback" => self.interaction_callback(),
            "POST /webhooks/{application}/{token}" => self.follow_up(),
            "GET /webhooks/{application}/{token}/messages/{message}" => self.read_answer(),
            "PATCH /webhooks/{application}/{token}/messages/{message}" => self.edit_answer(),
            "DELETE /webhooks/{application}/{token}/messages/{message}" => self.delete_answer(),
            _ => self.commands(route),
        }
    }

    /// The body as JSON.
    fn json(&self) -> Result<Value, RestError> {
        match serde_json::from_slice(&self.call.body) {
            Ok(body @ (Value::Object(_) | Value::Array(_))) => Ok(body),
            _ => Err(RestError::not_json()),
        }
    }

    fn message_body(&self) -> Result<MessageBody, RestError> {
        MessageBody::read(&self.call.head.headers, &self.call.body, &self.discord.settings)
    }

    /// The channel of the path, if the bot has the needed permissions in it.
    fn channel<'w>(&self, world: &'w DiscordWorld, needed: u64) -> Result<&'w StandInChannel, RestError> {
        let channel =
            world.channels.get(self.segments[1]).ok_or_else(|| RestError::unknown(10003, "Channel"))?;
        let granted = permissions::effective(world, channel, &self.bot);
        if granted & permissions::VIEW_CHANNEL == 0 {
            return Err(RestError::missing_access());
        }
        if granted & needed != needed {
            return Err(RestError::missing_permissions());
        }
        Ok(channel)
    }

    /// The message of the path.
    fn message<'w>(&self, world: &'w DiscordWorld) -> Result<&'w Value, RestError> {
        let message = world.messages.get(self.segments[3]);
        message
            .filter(|message| message["channel_id"] == self.segments[1])
            .ok_or_else(|| RestError::unknown(10008, "Message"))
    }
}

fn ok(body: &Value) -> ApiResult {
    Ok(json_response(200, body))
}

fn created(body: &Value) -> ApiResult {
    Ok(json_response(201, body))
}

fn no_content() -> ApiResult {
    Ok(respond(204, "", Body::empty()))
}
