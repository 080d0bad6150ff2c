//! Routes of the HTTP API, with the names that faults and the transcript use.

use http::{Method, request::Parts};

use super::DiscordPlatform;
use crate::harness::CallSubject;

/// Name of the gateway's address.
pub(super) const GATEWAY_SOCKET: &str = "gateway";
/// Name of a file's address.
pub(super) const ATTACHMENT: &str = "GET /attachments/{channel}/{attachment}/{name}";

/// The routes that the stand-in knows. `{...}` matches any segment.
const ROUTES: &[&str] = &[
    "GET /gateway",
    "GET /gateway/bot",
    "GET /users/@me",
    "GET /users/@me/guilds",
    "POST /users/@me/channels",
    "GET /users/{user}",
    "GET /applications/@me",
    "PATCH /applications/@me",
    "GET /oauth2/applications/@me",
    "GET /channels/{channel}",
    "PATCH /channels/{channel}",
    "GET /channels/{channel}/messages",
    "POST /channels/{channel}/messages",
    "GET /channels/{channel}/messages/{message}",
    "PATCH /channels/{channel}/messages/{message}",
    "DELETE /channels/{channel}/messages/{message}",
    "POST /channels/{channel}/messages/{message}/threads",
    "GET /channels/{channel}/messages/{message}/reactions/{emoji}",
    "PUT /channels/{channel}/messages/{message}/reactions/{emoji}/@me",
    "DELETE /channels/{channel}/messages/{message}/reactions/{emoji}/@me",
    "POST /channels/{channel}/typing",
    "POST /channels/{channel}/threads",
    "PUT /channels/{channel}/thread-members/@me",
    "GET /channels/{channel}/thread-members/{user}",
    "GET /guilds/{guild}",
    "GET /guilds/{guild}/channels",
    "GET /guilds/{guild}/roles",
    "GET /guilds/{guild}/members",
    "GET /guilds/{guild}/members/{user}",
    "GET /applications/{application}/commands",
    "POST /applications/{application}/commands",
    "PUT /applications/{application}/commands",
    "DELETE /applications/{application}/commands/{command}",
    "GET /applications/{application}/guilds/{guild}/commands",
    "POST /applications/{application}/guilds/{guild}/commands",
    "PUT /applications/{application}/guilds/{guild}/commands",
    "DELETE /applications/{application}/guilds/{guild}/commands/{command}",
    "POST /interactions/{interaction}/{token}/callback",
    "POST /webhooks/{application}/{token}",
    "GET /webhooks/{application}/{token}/messages/{message}",
    "PATCH /webhooks/{application}/{token}/messages/{message}",
    "DELETE /webhooks/{application}/{token}/messages/{message}",
];

/// Names the call of a request.
pub(super) fn subject(discord: &DiscordPlatform, head: &Parts, path: &str) -> Option<CallSubject> {
    if path.starts_with("/attachments/") {
        return Some(CallSubject { call: ATTACHMENT.to_owned(), account: None, chat: None });
    }
    if head.headers.contains_key("sec-websocket-key") {
        return Some(CallSubject { call: GATEWAY_SOCKET.to_owned(), account: None, chat: None });
    }
    let segments = segments(path)?;
    let call = ROUTES.iter().find(|route| matches(route, &head.method, &segments))?;
    let token = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Bot "));
    let world = discord.world.lock();
    let account = token.and_then(|token| world.bot_by_token(token)).map(|bot| bot.settings.id.clone());
    let chat = (segments[0] == "channels").then(|| segments.get(1).map(|id| (*id).to_owned())).flatten();
    Some(CallSubject { call: (*call).to_owned(), account, chat })
}

/// The segments after `/api` and the version.
pub(super) fn segments(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix("/api/")?;
    let rest = match rest.split_once('/') {
        Some((version, rest)) if version.starts_with('v') => rest,
        _ => rest,
    };
    Some(rest.trim_end_matches('/').split('/').collect())
}

fn matches(route: &str, method: &Method, segments: &[&str]) -> bool {
    let Some((wanted, path)) = route.split_once(" /") else { return false };
    let mut pattern = path.split('/');
    wanted == method.as_str()
        && segments
            .iter()
            .all(|segment| pattern.next().is_some_and(|part| part.starts_with('{') || part == *segment))
        && pattern.next().is_none()
}
