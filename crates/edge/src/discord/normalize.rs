//! Normalization of gateway events and interactions: turns them into events for the agent, and captures what must not
//! reach the agent.

mod attachments;
mod interactions;

use posthouse_wire::event::Quoted;
use posthouse_wire::{Event, MessageType, Source};
use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading, RenamedThread, VerifiedRequest, WebhookRefusal};

pub(super) use interactions::{InteractionToken, OwedCallback};

use super::directory::{ChannelView, GuildDirectory};
use super::media::CommandFiles;
use super::payload::{DiscordMessage, DiscordUser, GatewayFrame, GuildMember, Interaction};
use super::{INTERACTIONS_DOOR, PLATFORM};

/// The types of messages that people write: an ordinary one, and a reply.
const ORDINARY: u8 = 0;
const REPLY: u8 = 19;

/// Reason for which messages of other bots are ignored unless an agent wants them.
const BOT_AUTHOR: &str = "bot_author";

pub(super) fn normalize(
    bot: &OpenedBot,
    directory: &GuildDirectory,
    files: &CommandFiles,
    verified: &VerifiedRequest,
) -> Result<Reading, WebhookRefusal> {
    let malformed = WebhookRefusal::malformed("malformed_body");
    // The body is checked as UTF-8 once, so that serde need not check every string.
    let text = std::str::from_utf8(&verified.body).map_err(|_| malformed)?;
    // Only an object: serde would also fill a struct from an array.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(malformed);
    }
    let context = DiscordContext { bot, directory, files, verified, own: own_id(bot) };
    if verified.door == INTERACTIONS_DOOR {
        let interaction: Interaction<'_> = serde_json::from_str(text).map_err(|_| malformed)?;
        return Ok(context.answered_interaction(&interaction));
    }
    let frame: GatewayFrame<'_> = serde_json::from_str(text).map_err(|_| malformed)?;
    let (Some(event), Some(data)) = (frame.t, frame.d) else { return Ok(Reading::ignored("unknown")) };
    let data = data.get();
    Ok(match &*event {
        "MESSAGE_CREATE" => context.message(&serde_json::from_str(data).map_err(|_| malformed)?),
        "INTERACTION_CREATE" => {
            context.gateway_interaction(&serde_json::from_str(data).map_err(|_| malformed)?, data)
        }
        "MESSAGE_UPDATE" => updated(data),
        "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => Reading::ignored("delete"),
        "MESSAGE_REACTION_ADD" | "MESSAGE_REACTION_REMOVE" => Reading::ignored("reaction"),
        "THREAD_UPDATE" => renamed(data),
        _ => Reading::ignored("unknown"),
    })
}

/// The bot's own user id. Without the setting it is the application's id, which is the same for newer bots.
fn own_id(bot: &OpenedBot) -> &str {
    bot.setting("bot_user_id").unwrap_or(bot.id.as_str())
}

#[derive(Deserialize)]
struct EditMark {
    edited_timestamp: Option<IgnoredAny>,
}

/// Without `edited_timestamp` the update only adds the preview of a link.
fn updated(data: &str) -> Reading {
    let edited = serde_json::from_str::<EditMark>(data).is_ok_and(|mark| mark.edited_timestamp.is_some());
    Reading::ignored(if edited { "edit" } else { "embed" })
}

#[derive(Deserialize)]
struct NamedThread {
    id: String,
    parent_id: Option<String>,
    name: Option<String>,
}

fn renamed(data: &str) -> Reading {
    let thread = serde_json::from_str(data).ok();
    let Some(NamedThread { id, parent_id: Some(parent), name: Some(name) }) = thread else {
        return Reading::ignored("service");
    };
    let renamed = RenamedThread { chat: parent.into(), thread: id.into(), name };
    Reading { renamed: vec![renamed], ..Reading::ignored("service") }
}

/// What is known about an event besides its own object.
struct DiscordContext<'a> {
    bot: &'a OpenedBot,
    directory: &'a GuildDirectory,
    files: &'a CommandFiles,
    verified: &'a VerifiedRequest,
    /// The bot's own user id.
    own: &'a str,
}

/// Where an event happened.
struct EventChannel<'a> {
    guild: Option<&'a str>,
    channel: &'a str,
    /// What the event itself says about the channel.
    described: Option<ChannelView>,
}

impl DiscordContext<'_> {
    fn message(&self, message: &DiscordMessage<'_>) -> Reading {
        if &*message.author.id == self.own {
            return Reading::ignored("self");
        }
        if ![ORDINARY, REPLY].contains(&message.kind) {
            return Reading::ignored("system");
        }
        let Some(arrival) = self.arrival(message) else { return Reading::ignored("empty") };
        let guild = message.guild_id.as_deref();
        let incomplete = guild.is_some_and(|guild| !self.directory.knows_fully(guild, &message.channel_id));
        if message.author.bot || message.webhook_id.is_some() {
            return Reading { from_bots: vec![arrival], incomplete, ..Reading::ignored(BOT_AUTHOR) };
        }
        Reading { arrivals: vec![arrival], incomplete, ..Reading::default() }
    }

    /// The message as an arrival. `None` if it has neither a text nor a file.
    fn arrival(&self, message: &DiscordMessage<'_>) -> Option<Arrival> {
        let own_text = message.content.as_deref().filter(|text| !text.is_empty());
        let forwarded = || message.message_snapshots.iter().find_map(|shot| shot.message.content.as_deref());
        let text = own_text.or_else(forwarded).unwrap_or_default();
        if text.is_empty() && message.attachments.is_empty() {
            return None;
        }
        let mentioned = message.mentions.iter().any(|user| &*user.id == self.own);
        let place = EventChannel {
            guild: message.guild_id.as_deref(),
            channel: &message.channel_id,
            described: None,
        };
        let source = self.source(&place, &message.id, &message.author, message.member.as_ref());
        let replied = message.referenced_message.as_ref().filter(|_| message.kind == REPLY);
        let replied_author = replied.and_then(|replied| replied.author.as_ref());
        let replies_to_us = replied_author.is_some_and(|author| &*author.id == self.own);
        let reply_to = message.message_reference.as_ref().filter(|_| message.kind == REPLY);
        let attached = attachments::attached(message);
        let mut event = Event {
            text: without_mention(text, self.own),
            message_id: source.message_id.clone(),
            reply_to_message_id: reply_to
                .and_then(|reference| reference.message_id.as_deref())
                .map(|id| id.into()),
            reply_to: replied.map(|replied| Quoted {
                text: replied.content.as_deref().filter(|text| !text.is_empty()).map(str::to_owned),
                author: replied_author.and_then(DiscordUser::name),
                is_own: Some(replies_to_us),
            }),
            message_type: attached.first().map_or(MessageType::Text, |file| file.message_type),
            source,
            ..Event::default()
        };
        if attached.is_empty() && event.command().is_some_and(|name| !name.is_empty()) {
            event.message_type = MessageType::Command;
        }
        let addressed = event.source.chat_type == "dm" || mentioned || replies_to_us;
        let mut references = Vec::with_capacity(attached.len());
        for file in attached {
            references.push(file.reference);
            event.media.push(file.media);
        }
        let dedup = self.dedup(&message.id);
        Some(Arrival { addressed, references, ..Arrival::new(event, dedup, self.verified.received) })
    }

    fn source(
        &self,
        place: &EventChannel<'_>,
        message: &str,
        author: &DiscordUser<'_>,
        member: Option<&GuildMember<'_>>,
    ) -> Source {
        let nick = member.and_then(|member| member.nick.as_deref()).filter(|nick| !nick.is_empty());
        let source = Source {
            platform: PLATFORM.into(),
            chat_id: Some(place.channel.into()),
            user_id: Some((*author.id).into()),
            user_name: nick.map(str::to_owned).or_else(|| author.name()),
            message_id: Some(message.into()),
            ..Source::default()
        };
        let Some(guild) = place.guild else {
            let chat_name = author.username.as_deref().map(str::to_owned);
            return Source { chat_type: "dm".to_owned(), chat_name, ..source };
        };
        let mut source = Source { scope_id: Some(guild.into()), ..source };
        self.directory.view(guild, place.channel, place.described.clone()).write_to(&mut source);
        source
    }

    fn dedup(&self, id: &str) -> String {
        format!("{PLATFORM}:{}:{id}", self.bot.id)
    }
}

/// The text without mentions of the bot and the white space after them. A text that is only a mention stays as it is.
fn without_mention(text: &str, own: &str) -> String {
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("<@") {
        let after = &rest[at + 2..];
        let name = after.strip_prefix('!').unwrap_or(after);
        match name.strip_prefix(own).and_then(|after| after.strip_prefix('>')) {
            Some(after) => {
                left.push_str(&rest[..at]);
                rest = after.trim_start();
            }
            None => {
                left.push_str(&rest[..at + 2]);
                rest = after;
            }
        }
    }
    if left.is_empty() && rest.len() == text.len() {
        return text.to_owned();
    }
    left.push_str(rest);
    match left.trim() {
        "" => text.to_owned(),
        // Without a mention nothing is trimmed.
        _ if left == text => left,
        trimmed => trimmed.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_mention_goes_and_others_stay() {
        for (text, left) in [
            ("<@42> hi", "hi"),
            ("<@!42>  hi", "hi"),
            ("hi <@42>", "hi"),
            ("so <@42> how", "so how"),
            ("<@42>", "<@42>"),
            ("<@421> hi", "<@421> hi"),
            ("<@42 hi", "<@42 hi"),
            ("<@7> and <@42> too", "<@7> and too"),
            (" plain ", " plain "),
            (" <@7> ", " <@7> "),
            ("", ""),
        ] {
            assert_eq!(without_mention(text, "42"), left, "{text}");
        }
    }
}
