//! Directory of servers and channels: their names, topics and permissions, as the gateway reports them.

use std::collections::{BTreeMap, HashMap};

use parking_lot::RwLock;
use posthouse_wire::Source;
use serde::Deserialize;

/// Most channels that are remembered for one bot. Further ones are looked up for each message.
const CHANNELS: usize = 200_000;
/// Most threads that are remembered for one server, so that one server cannot use up the places of all. Those of which
/// nothing was heard for longest make room. They are looked up again for their next message.
const THREADS_OF_A_GUILD: usize = 2_000;

pub(super) const DIRECT: u8 = 1;
pub(super) const GROUP_DIRECT: u8 = 3;
const FORUM: u8 = 15;
const MEDIA_FORUM: u8 = 16;
/// The kinds of threads: of announcements, public, private.
const THREADS: [u8; 3] = [10, 11, 12];
pub(super) const PRIVATE_THREAD: u8 = 12;

pub(super) fn is_thread(kind: u8) -> bool {
    THREADS.contains(&kind)
}

/// A channel or thread.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Channel {
    pub id: String,
    #[serde(default, rename = "type")]
    pub kind: u8,
    pub guild_id: Option<String>,
    pub name: Option<String>,
    pub topic: Option<String>,
    pub parent_id: Option<String>,
    #[serde(default)]
    pub permission_overwrites: Vec<Overwrite>,
    #[serde(default)]
    pub recipients: Vec<ChannelRecipient>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct ChannelRecipient {
    pub id: String,
}

/// Permissions that a role or a member has in one channel only.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Overwrite {
    pub id: String,
    /// 0: for a role; 1: for a member.
    #[serde(default, rename = "type")]
    pub kind: u8,
    #[serde(default)]
    pub allow: PermissionSet,
    #[serde(default)]
    pub deny: PermissionSet,
}

/// A set of permissions. Discord writes it as a decimal number in a text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct PermissionSet(pub u64);

impl TryFrom<String> for PermissionSet {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(PermissionSet)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct GuildRole {
    pub id: String,
    #[serde(default)]
    pub permissions: PermissionSet,
}

/// A server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Guild {
    pub id: String,
    #[serde(default)]
    pub name: String,
    pub owner_id: Option<String>,
    #[serde(default)]
    pub roles: Vec<GuildRole>,
    #[serde(default)]
    channels: Vec<Channel>,
    #[serde(default)]
    threads: Vec<Channel>,
}

#[derive(Deserialize)]
struct ObjectId {
    id: String,
}

#[derive(Deserialize)]
struct RoleChange {
    guild_id: String,
    role: Option<GuildRole>,
    role_id: Option<String>,
}

#[derive(Deserialize)]
struct ThreadList {
    guild_id: String,
    #[serde(default)]
    threads: Vec<Channel>,
}

/// What is known about the servers of one bot.
#[derive(Default)]
pub(super) struct GuildDirectory(RwLock<Contents>);

#[derive(Default)]
struct Contents {
    guilds: HashMap<String, Guild>,
    channels: HashMap<String, KeptChannel>,
    /// The threads among the channels, by server, in the order in which they were kept.
    threads: HashMap<String, BTreeMap<u64, String>>,
    /// Number of the channel that was kept last.
    last: u64,
}

struct KeptChannel {
    channel: Channel,
    number: u64,
}

/// How a chat is shown to the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ChannelView {
    pub kind: Option<u8>,
    pub name: Option<String>,
    pub topic: Option<String>,
    pub parent: Option<String>,
}

impl GuildDirectory {
    /// Updates the directory from a gateway event. Unknown and unreadable events are ignored.
    pub fn note(&self, event: &str, data: &str) {
        match event {
            "GUILD_CREATE" | "GUILD_UPDATE" => {
                let Ok(mut guild) = serde_json::from_str::<Guild>(data) else { return };
                let id = guild.id.clone();
                let channels = std::mem::take(&mut guild.channels);
                let threads = std::mem::take(&mut guild.threads);
                let mut contents = self.0.write();
                for channel in channels.into_iter().chain(threads) {
                    contents.keep(Channel { guild_id: Some(id.clone()), ..channel });
                }
                contents.guilds.insert(id, guild);
            }
            "GUILD_DELETE" => {
                let Ok(ObjectId { id }) = serde_json::from_str(data) else { return };
                let mut contents = self.0.write();
                contents.guilds.remove(&id);
                contents.channels.retain(|_, kept| kept.channel.guild_id.as_ref() != Some(&id));
                contents.threads.remove(&id);
            }
            "CHANNEL_CREATE" | "CHANNEL_UPDATE" | "THREAD_CREATE" | "THREAD_UPDATE" => {
                let Ok(channel) = serde_json::from_str(data) else { return };
                self.0.write().keep(channel);
            }
            "CHANNEL_DELETE" | "THREAD_DELETE" => {
                let Ok(ObjectId { id }) = serde_json::from_str(data) else { return };
                self.0.write().forget(&id);
            }
            "THREAD_LIST_SYNC" => {
                let Ok(ThreadList { guild_id, threads }) = serde_json::from_str(data) else { return };
                let mut contents = self.0.write();
                for thread in threads {
                    contents.keep(Channel { guild_id: Some(guild_id.clone()), ..thread });
                }
            }
            "GUILD_ROLE_CREATE" | "GUILD_ROLE_UPDATE" | "GUILD_ROLE_DELETE" => {
                let Ok(change) = serde_json::from_str::<RoleChange>(data) else { return };
                let mut contents = self.0.write();
                let Some(guild) = contents.guilds.get_mut(&change.guild_id) else { return };
                let gone = change.role.as_ref().map(|role| &role.id).or(change.role_id.as_ref());
                guild.roles.retain(|role| Some(&role.id) != gone);
                guild.roles.extend(change.role);
            }
            _ => {}
        }
    }

    pub fn channel(&self, id: &str) -> Option<Channel> {
        self.0.read().channels.get(id).map(|kept| kept.channel.clone())
    }

    pub fn guild(&self, id: &str) -> Option<Guild> {
        self.0.read().guilds.get(id).cloned()
    }

    /// Remembers what a call returned.
    pub fn keep_channel(&self, channel: Channel) {
        self.0.write().keep(channel);
    }

    pub fn keep_guild(&self, guild: Guild) {
        self.0.write().guilds.insert(guild.id.clone(), guild);
    }

    /// A channel of a server with its full name. `described` is the channel as the event itself describes it.
    pub fn view(&self, guild: &str, id: &str, described: Option<ChannelView>) -> ChannelView {
        let contents = self.0.read();
        let known = contents.channel(id).map(ChannelView::of);
        let view = match described {
            Some(described) => ChannelView {
                parent: described.parent.or_else(|| known.and_then(|known| known.parent)),
                ..described
            },
            None => match known {
                Some(known) => known,
                None => return ChannelView { name: Some(id.to_owned()), ..ChannelView::default() },
            },
        };
        let guild = contents.guilds.get(guild).map(|guild| guild.name.as_str());
        let parent = view.parent.as_deref().and_then(|parent| contents.channel(parent));
        view.with_full_name(id, guild, parent)
    }

    /// Whether a channel is known with everything that its full name needs.
    pub fn knows_fully(&self, guild: &str, id: &str) -> bool {
        let contents = self.0.read();
        let Some(channel) = contents.channel(id) else { return false };
        let parent = channel.parent_id.as_ref().filter(|_| is_thread(channel.kind));
        contents.guilds.contains_key(guild)
            && parent.is_none_or(|parent| contents.channels.contains_key(parent))
    }
}

impl ChannelView {
    /// A channel as it is, without the names of what it is in.
    pub fn of(channel: &Channel) -> Self {
        Self {
            kind: Some(channel.kind),
            name: channel.name.clone(),
            topic: channel.topic.clone(),
            parent: channel.parent_id.clone(),
        }
    }

    /// The same with its full name. `guild` is the name of its server, and `parent` the channel that a thread is in.
    pub fn with_full_name(self, id: &str, guild: Option<&str>, parent: Option<&Channel>) -> Self {
        let guild = guild.map(str::to_owned);
        if !self.kind.is_some_and(is_thread) {
            let name = self.name.map_or_else(|| id.to_owned(), |name| format!("#{name}"));
            let name = guild.map_or_else(|| name.clone(), |guild| format!("{guild} / {name}"));
            // The parent of a thread is a conversation. The parent of a channel is only its category.
            return Self { name: Some(name), parent: None, ..self };
        }
        let forum = parent.filter(|parent| [FORUM, MEDIA_FORUM].contains(&parent.kind));
        let parent_name = parent.and_then(|parent| parent.name.clone()).map(|name| match forum {
            Some(_) => name,
            None => format!("#{name}"),
        });
        let parts = [guild, parent_name, Some(self.name.unwrap_or_else(|| id.to_owned()))];
        let name = parts.into_iter().flatten().collect::<Vec<_>>().join(" / ");
        Self { name: Some(name), topic: forum.and_then(|forum| forum.topic.clone()), ..self }
    }

    /// Whether it is known what the channel is: a thread, and of which channel, or no thread.
    pub fn is_placed(&self) -> bool {
        self.kind.is_some_and(|kind| !is_thread(kind) || self.parent.is_some())
    }

    /// Writes the channel into the source of an event in it.
    pub fn write_to(self, source: &mut Source) {
        let in_thread = self.kind.is_some_and(is_thread);
        source.chat_type = if in_thread { "thread" } else { "group" }.to_owned();
        source.chat_name = self.name;
        source.chat_topic = self.topic;
        source.thread_id = source.chat_id.as_ref().filter(|_| in_thread).map(|id| id.as_str().into());
        source.parent_chat_id = self.parent.map(Into::into);
    }
}

impl Contents {
    fn channel(&self, id: &str) -> Option<&Channel> {
        self.channels.get(id).map(|kept| &kept.channel)
    }

    fn keep(&mut self, channel: Channel) {
        if self.channels.len() >= CHANNELS && !self.channels.contains_key(&channel.id) {
            return;
        }
        self.forget(&channel.id);
        self.last += 1;
        let number = self.last;
        if let Some(guild) = channel.guild_id.as_ref().filter(|_| is_thread(channel.kind)) {
            let threads = self.threads.entry(guild.clone()).or_default();
            threads.insert(number, channel.id.clone());
            if threads.len() > THREADS_OF_A_GUILD
                && let Some((_, oldest)) = threads.pop_first()
            {
                self.channels.remove(&oldest);
            }
        }
        self.channels.insert(channel.id.clone(), KeptChannel { channel, number });
    }

    fn forget(&mut self, id: &str) {
        let Some(kept) = self.channels.remove(id) else { return };
        if let Some(threads) = kept.channel.guild_id.and_then(|guild| self.threads.get_mut(&guild)) {
            threads.remove(&kept.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(guild: usize, id: usize) -> String {
        format!(r#"{{"id":"{id}","type":11,"guild_id":"{guild}","parent_id":"5"}}"#)
    }

    #[test]
    fn a_server_with_many_threads_loses_its_oldest_and_takes_no_place_of_another() {
        let directory = GuildDirectory::default();
        directory.note("THREAD_CREATE", &thread(1, 7));
        for id in 0..THREADS_OF_A_GUILD + 10 {
            directory.note("THREAD_CREATE", &thread(2, 100 + id));
        }
        assert_eq!(directory.0.read().channels.len(), THREADS_OF_A_GUILD + 1);
        assert!(directory.channel("7").is_some(), "the other server's");
        assert!(directory.channel("109").is_none() && directory.channel("110").is_some());
        directory.note("THREAD_DELETE", &thread(2, 110));
        directory.note("THREAD_CREATE", &thread(2, 9000));
        assert!(directory.channel("111").is_some(), "a deleted one made room");
        directory.note("THREAD_UPDATE", &thread(2, 8));
        assert!(directory.channel("8").is_some(), "an old thread that is written in again");
        assert!(directory.channel("111").is_none());
        directory.note("GUILD_DELETE", r#"{"id":"2"}"#);
        assert_eq!(directory.0.read().channels.len(), 1);
        assert_eq!(directory.0.read().threads.len(), 1);
    }
}
