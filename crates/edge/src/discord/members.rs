//! Visibility of channels: whether a person has the permission VIEW_CHANNEL, as Discord computes it.

use std::time::Duration;

use posthouse_wire::{ChatId, UserId};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Discord;
use super::api::DiscordCall;
use super::directory::{Channel, DIRECT, GROUP_DIRECT, Guild, PRIVATE_THREAD, is_thread};
use crate::bots::OpenedBot;

/// Time limit of one question. A message waits for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(3);

const ADMINISTRATOR: u64 = 1 << 3;
const VIEW_CHANNEL: u64 = 1 << 10;
const MANAGE_THREADS: u64 = 1 << 34;
const OF_ROLE: u8 = 0;
const OF_MEMBER: u8 = 1;

#[derive(Deserialize)]
struct MemberRoles {
    #[serde(default)]
    roles: Vec<String>,
}

impl Discord {
    /// Whether this person can see this channel. False also when Discord does not answer.
    pub(super) async fn can_view(&self, bot: &OpenedBot, user: &UserId, chat: &ChatId) -> bool {
        self.view_of(bot, user.as_str(), chat.as_str()).await.unwrap_or(false)
    }

    async fn view_of(&self, bot: &OpenedBot, user: &str, chat: &str) -> Option<bool> {
        let channel = self.channel(bot, chat).await.ok()?;
        if matches!(channel.kind, DIRECT | GROUP_DIRECT) {
            return Some(channel.recipients.iter().any(|recipient| recipient.id == user));
        }
        let guild = self.guild(bot, channel.guild_id.as_deref()?).await.ok()?;
        // A thread has the permissions of the channel that it is in.
        let permissions_of = match (&channel.parent_id, is_thread(channel.kind)) {
            (Some(parent), true) => self.channel(bot, parent).await.ok()?,
            _ => channel.clone(),
        };
        let path = format!("/guilds/{}/members/{user}", guild.id);
        let call = DiscordCall::get("GET /guilds/ID/members/ID", &path).of(guild.id.as_str());
        let member: MemberRoles = self.call(bot, call, TIME_LIMIT).await.ok()?;
        let permissions = effective(&guild, &permissions_of, user, &member.roles);
        if permissions & VIEW_CHANNEL == 0 {
            return Some(false);
        }
        if channel.kind != PRIVATE_THREAD || permissions & MANAGE_THREADS != 0 {
            return Some(true);
        }
        let path = format!("/channels/{chat}/thread-members/{user}");
        let call = DiscordCall::get("GET /channels/ID/thread-members/ID", &path).of(chat);
        Some(self.call::<IgnoredAny>(bot, call, TIME_LIMIT).await.is_ok())
    }
}

/// The permissions of a member in a channel: those of all its roles, then the exceptions of the channel for everybody,
/// for its roles, and for the member.
fn effective(guild: &Guild, channel: &Channel, user: &str, roles: &[String]) -> u64 {
    if guild.owner_id.as_deref() == Some(user) {
        return u64::MAX;
    }
    // The role of everybody has the id of the server.
    let has = |role: &str| role == guild.id || roles.iter().any(|own| own == role);
    let mut permissions =
        guild.roles.iter().filter(|role| has(&role.id)).fold(0, |sum, role| sum | role.permissions.0);
    if permissions & ADMINISTRATOR != 0 {
        return u64::MAX;
    }
    let everybody =
        channel.permission_overwrites.iter().filter(|one| one.kind == OF_ROLE && one.id == guild.id);
    for overwrite in everybody {
        permissions = permissions & !overwrite.deny.0 | overwrite.allow.0;
    }
    let of_roles = channel
        .permission_overwrites
        .iter()
        .filter(|one| one.kind == OF_ROLE && one.id != guild.id && has(&one.id));
    let (deny, allow) = of_roles.fold((0, 0), |(deny, allow), one| (deny | one.deny.0, allow | one.allow.0));
    permissions = permissions & !deny | allow;
    let of_member =
        channel.permission_overwrites.iter().filter(|one| one.kind == OF_MEMBER && one.id == user);
    for overwrite in of_member {
        permissions = permissions & !overwrite.deny.0 | overwrite.allow.0;
    }
    permissions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sees(overwrites: &str, user: &str, roles: &[&str]) -> bool {
        let guild = r#"{"id":"1","name":"Acme","owner_id":"9","roles":[
            {"id":"1","permissions":"1024"},{"id":"2","permissions":"8"},{"id":"3","permissions":"0"}]}"#;
        let channel = format!(r#"{{"id":"5","type":0,"permission_overwrites":{overwrites}}}"#);
        let (guild, channel) =
            (serde_json::from_str(guild).unwrap(), serde_json::from_str(&channel).unwrap());
        let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
        effective(&guild, &channel, user, &roles) & VIEW_CHANNEL != 0
    }

    #[test]
    fn a_private_channel_is_seen_by_its_role_its_member_administrators_and_the_owner() {
        assert!(sees("[]", "7", &[]), "the role of everybody may");
        let closed = r#"[{"id":"1","type":0,"allow":"0","deny":"1024"},{"id":"3","type":0,"allow":"1024","deny":"0"},
            {"id":"8","type":1,"allow":"1024","deny":"0"}]"#;
        assert!(!sees(closed, "7", &[]));
        assert!(sees(closed, "7", &["3"]) && sees(closed, "8", &[]));
        assert!(sees(closed, "7", &["2"]) && sees(closed, "9", &[]));
        let barred = r#"[{"id":"3","type":0,"allow":"1024","deny":"0"},{"id":"7","type":1,"allow":"0","deny":"1024"}]"#;
        assert!(!sees(barred, "7", &["3"]), "what is said of the member comes last");
        let both =
            r#"[{"id":"2","type":1,"allow":"0","deny":"0"},{"id":"3","type":0,"allow":"0","deny":"1024"}]"#;
        assert!(!sees(both, "7", &["3"]));
    }
}
