//! Permissions of Discord: the effective permissions of a member in a channel.

use super::{guilds::StandInChannel, world::DiscordWorld};

pub(super) const ADD_REACTIONS: u64 = 1 << 6;
pub(super) const VIEW_CHANNEL: u64 = 1 << 10;
pub(super) const SEND_MESSAGES: u64 = 1 << 11;
pub(super) const MANAGE_MESSAGES: u64 = 1 << 13;
pub(super) const ATTACH_FILES: u64 = 1 << 15;
pub(super) const READ_MESSAGE_HISTORY: u64 = 1 << 16;
pub(super) const CREATE_PUBLIC_THREADS: u64 = 1 << 35;
pub(super) const SEND_MESSAGES_IN_THREADS: u64 = 1 << 38;
const ADMINISTRATOR: u64 = 1 << 3;
const EMBED_LINKS: u64 = 1 << 14;
const USE_APPLICATION_COMMANDS: u64 = 1 << 31;
const ALL: u64 = (1 << 53) - 1;

/// What the role @everyone may do in a new server.
pub(super) const EVERYONE: u64 = ADD_REACTIONS
    | VIEW_CHANNEL
    | SEND_MESSAGES
    | EMBED_LINKS
    | ATTACH_FILES
    | READ_MESSAGE_HISTORY
    | USE_APPLICATION_COMMANDS
    | CREATE_PUBLIC_THREADS
    | SEND_MESSAGES_IN_THREADS;

/// Permissions of a user in a channel. In a direct message its members may do everything, and others nothing. A thread
/// has the permissions of its parent.
pub(super) fn effective(world: &DiscordWorld, channel: &StandInChannel, user: &str) -> u64 {
    let Some(guild_id) = &channel.guild_id else {
        return if channel.recipients.iter().any(|recipient| recipient == user) { ALL } else { 0 };
    };
    let Some(guild) = world.guilds.get(guild_id) else { return 0 };
    let Some(member) = guild.members.get(user) else { return 0 };
    if guild.owner_id == user {
        return ALL;
    }
    let of_role = |id: &str| guild.roles.iter().find(|role| role.id == id).map_or(0, |role| role.permissions);
    let base = member.roles.iter().fold(of_role(guild_id), |sum, role| sum | of_role(role));
    if base & ADMINISTRATOR != 0 {
        return ALL;
    }
    let parent = channel.parent_id.as_ref().filter(|_| channel.is_thread());
    let place = parent.and_then(|parent| world.channels.get(parent)).unwrap_or(channel);
    let overwrite = |id: &str| place.overwrites.iter().find(|overwrite| overwrite.id == id);
    let mut granted = base;
    if let Some(everyone) = overwrite(guild_id) {
        granted = granted & !everyone.deny | everyone.allow;
    }
    let of_roles = member.roles.iter().filter_map(|role| overwrite(role));
    let (allow, deny) = of_roles.fold((0, 0), |(allow, deny), one| (allow | one.allow, deny | one.deny));
    granted = granted & !deny | allow;
    if let Some(own) = overwrite(user) {
        granted = granted & !own.deny | own.allow;
    }
    // A member who cannot see a channel can do nothing in it.
    if granted & VIEW_CHANNEL == 0 { 0 } else { granted }
}
