//! Normalization of updates: turns an update into an event for the agent, and captures what must not reach the agent.

mod media;
mod speech;

use ledger::Uses;
use posthouse_wire::event::Quoted;
use posthouse_wire::{DedupKey, Event, MessageId, MessageType, PromptToken, Secret, Source};
use vault::CapturedCapability;

use crate::bots::OpenedBot;
use crate::platform::{
    Arrival, InteractionAck, Moved, Reading, RenamedThread, VerifiedRequest, WebhookRefusal, location_text,
    once,
};

use super::update::{CallbackQuery, RepliedMessage, TelegramMessage, Update, UpdateHead, User, full_name};
use super::{BUSINESS_CONNECTION, CALLBACK_QUERY, GENERAL_TOPIC, PLATFORM, takes_business};
use speech::Speech;

/// Telegram's account that posts for anonymous admins of a group. Their messages also have `sender_chat`; those of a
/// bot do not.
const ANONYMOUS_ADMIN: i64 = 1_087_968_824;

pub(super) fn normalize(bot: &OpenedBot, verified: &VerifiedRequest) -> Result<Reading, WebhookRefusal> {
    // The body is checked as UTF-8 once, so that serde need not check every string.
    let text = std::str::from_utf8(&verified.body).ok();
    let Some(update) = text.and_then(|text| serde_json::from_str::<Update<'_>>(text).ok()) else {
        return unreadable(bot, &verified.body);
    };
    let context = UpdateContext { bot, account: BotAccount::of(bot), verified, update_id: update.update_id };
    let message =
        update.message.as_ref().or(update.channel_post.as_ref()).or(update.business_message.as_ref());
    let for_business = update.business_message.is_some();
    Ok(match (message, &update.callback_query) {
        (Some(message), _) => match context.of_business(message, message.from.as_ref(), for_business) {
            Ok(()) => context.message(message),
            Err(reason) => Reading::ignored(reason),
        },
        (None, Some(press)) => context.press(press),
        (None, None) => Reading::ignored(no_turn(&update)),
    })
}

/// Handles an update that cannot be parsed. It is confirmed and counted: if it were refused, Telegram would repeat it
/// forever and hold back all later updates. A body without an update id is refused.
fn unreadable(bot: &OpenedBot, body: &[u8]) -> Result<Reading, WebhookRefusal> {
    // Only an object: serde would also fill the struct from an array.
    let head = Some(body).filter(|body| body.trim_ascii_start().starts_with(b"{"));
    let head: Option<UpdateHead> = head.and_then(|body| serde_json::from_slice(body).ok());
    let head = head.ok_or(WebhookRefusal::malformed("malformed_body"))?;
    tracing::warn!(bot.id = %bot.id, update.id = head.update_id, "could not parse an update from Telegram; it is skipped");
    Ok(Reading::ignored("unreadable"))
}

fn no_turn(update: &Update<'_>) -> &'static str {
    let edits = [&update.edited_message, &update.edited_channel_post, &update.edited_business_message];
    if edits.into_iter().any(Option::is_some) {
        "edit"
    } else if update.message_reaction.is_some() || update.message_reaction_count.is_some() {
        "reaction"
    } else if update.my_chat_member.is_some() || update.chat_member.is_some() {
        "membership"
    } else if update.business_connection.is_some() {
        "business_connection"
    } else {
        "unknown"
    }
}

/// Reason for which messages of other bots are ignored unless an agent wants them.
const BOT_AUTHOR: &str = "bot_author";

/// The bot's own identity on Telegram.
struct BotAccount<'a> {
    id: Option<i64>,
    username: Option<&'a str>,
}

impl<'a> BotAccount<'a> {
    fn of(bot: &'a OpenedBot) -> Self {
        // Without the setting the bot's id is used: by default it is the same number.
        let id = bot.setting("bot_user_id").unwrap_or(bot.id.as_str()).parse().ok();
        Self { id, username: bot.setting("username") }
    }

    fn is_called(&self, name: &str) -> bool {
        self.username.is_some_and(|username| username.eq_ignore_ascii_case(name))
    }
}

/// The context of an update: everything except the message itself.
struct UpdateContext<'a> {
    bot: &'a OpenedBot,
    account: BotAccount<'a>,
    verified: &'a VerifiedRequest,
    update_id: i64,
}

impl UpdateContext<'_> {
    /// Refuses what concerns a business account: everything unless the operator wants it, and whatever the owner of the
    /// account does, who is no customer of it. The chat with a customer has the customer's id.
    fn of_business(
        &self,
        message: &TelegramMessage<'_>,
        author: Option<&User<'_>>,
        for_business: bool,
    ) -> Result<(), &'static str> {
        if !for_business && message.business_connection_id.is_none() {
            return Ok(());
        }
        if !takes_business(self.bot) {
            return Err("business_off");
        }
        let by_customer = author.is_some_and(|author| author.id == message.chat.id);
        if by_customer { Ok(()) } else { Err("business_owner") }
    }

    fn message(&self, message: &TelegramMessage<'_>) -> Reading {
        if let Some(moved) = moved(message) {
            return Reading { moved: vec![moved], ..Reading::ignored("migration") };
        }
        if let Some(renamed) = renamed(message) {
            return Reading { renamed: vec![renamed], ..Reading::ignored("service") };
        }
        match (self.told_by(message), self.arrival(message)) {
            (Err(BOT_AUTHOR), Ok(arrival)) => {
                Reading { from_bots: vec![arrival], ..Reading::ignored(BOT_AUTHOR) }
            }
            (Err(reason), _) | (Ok(()), Err(reason)) => Reading::ignored(reason),
            (Ok(()), Ok(arrival)) => Reading { arrivals: vec![arrival], ..Reading::default() },
        }
    }

    /// Refuses messages of this bot itself and of other bots, with the reason.
    fn told_by(&self, message: &TelegramMessage<'_>) -> Result<(), &'static str> {
        let Some(author) = &message.from else { return Ok(()) };
        if Some(author.id) == self.account.id {
            return Err("self");
        }
        let anonymous = author.id == ANONYMOUS_ADMIN && message.sender_chat.is_some();
        if author.is_bot && !anonymous { Err(BOT_AUTHOR) } else { Ok(()) }
    }

    fn arrival(&self, message: &TelegramMessage<'_>) -> Result<Arrival, &'static str> {
        // Both contain data that a person gave to one app. It is not copied, and little is left without it.
        if message.web_app_data.is_some() || message.passport_data.is_some() {
            return Err("private_data");
        }
        let attached = media::attached(message);
        let (text, entities) = match (&message.text, &message.caption) {
            (Some(text), _) => (Some(&**text), &message.entities),
            (None, Some(caption)) => (Some(&**caption), &message.caption_entities),
            (None, None) => (None, &message.entities),
        };
        let speech = text.map(|text| Speech::parse(text, entities, &self.account));
        let speech = match (speech, &attached) {
            (Some(speech), _) => speech,
            (None, Some(_)) => Speech::default(),
            // Service messages such as joins, pins and new titles are not turns.
            (None, None) => Speech::plain(bracketed(message).ok_or("service")?),
        };
        if speech.for_another {
            return Err("not_addressed");
        }
        let source = self.source(message, message.from.as_ref())?;
        let replied = message.reply_to_message.as_ref().filter(|replied| !is_topic_root(message, replied));
        let replies_to_us = replied.is_some_and(|replied| self.is_ours(replied));
        let mut event = Event {
            message_type: match &attached {
                Some(attached) => attached.message_type,
                None if message.location.is_some() || message.venue.is_some() => MessageType::Location,
                None if speech.command => MessageType::Command,
                None => MessageType::Text,
            },
            text: speech.text,
            message_id: source.message_id.clone(),
            reply_to_message_id: replied.map(|replied| id(replied.message_id)),
            reply_to: self.quoted(message, replied),
            source,
            ..Event::default()
        };
        let mut references = Vec::new();
        if let Some(attached) = attached {
            references.push(attached.reference);
            event.media.push(attached.media);
        }
        // A command without a name is for every bot of the group.
        let addressed =
            event.source.chat_type == "dm" || speech.mentions_us || speech.command || replies_to_us;
        Ok(Arrival {
            capabilities: business(message),
            addressed,
            references,
            album: message.media_group_id.as_deref().map(str::to_owned),
            ..Arrival::new(event, self.dedup(), self.verified.received)
        })
    }

    /// A press of one of the bot's buttons: the button's data as a message of the person who pressed it.
    fn press(&self, press: &CallbackQuery<'_>) -> Reading {
        // The press is acknowledged even if it is ignored, because the person sees a spinner until then.
        let interaction_acks = vec![InteractionAck(once(CALLBACK_QUERY, &*press.id))];
        match self.pressed(press) {
            Ok(arrival) => Reading { arrivals: vec![arrival], interaction_acks, ..Reading::default() },
            Err(reason) => Reading { interaction_acks, ..Reading::ignored(reason) },
        }
    }

    fn pressed(&self, press: &CallbackQuery<'_>) -> Result<Arrival, &'static str> {
        let data = press.data.as_ref().ok_or("no_data")?;
        // Inline messages are in chats that the bot is not a member of.
        let message = press.message.as_ref().ok_or("inline")?;
        self.of_business(message, Some(&press.from), false)?;
        let source = self.source(message, Some(&press.from))?;
        let event = Event {
            text: data.to_string(),
            message_id: source.message_id.clone(),
            reply_to_message_id: source.message_id.clone(),
            reply_to: message.text.as_ref().or(message.caption.as_ref()).map(|text| Quoted {
                text: Some(text.to_string()),
                author: message.from.as_ref().and_then(User::name),
                is_own: message.from.as_ref().map(|author| Some(author.id) == self.account.id),
            }),
            source,
            ..Event::default()
        };
        Ok(Arrival {
            capabilities: business(message),
            addressed: true,
            press: PromptToken::decode(data),
            ..Arrival::new(event, self.dedup(), self.verified.received)
        })
    }

    fn source(
        &self,
        message: &TelegramMessage<'_>,
        author: Option<&User<'_>>,
    ) -> Result<Source, &'static str> {
        let chat = &message.chat;
        let chat_type = chat.type_word().ok_or("unknown_chat")?;
        let is_forum = chat_type == "group" && chat.is_forum;
        let chat_name = chat.name();
        // Without an author, the chat itself is the sender in a channel and in a private chat.
        let speaks_itself = chat_type != "group";
        let (user_id, user_name) = match author {
            Some(author) => (Some(author.id), author.name()),
            None if speaks_itself => (Some(chat.id), chat_name.clone()),
            None => (None, None),
        };
        Ok(Source {
            platform: PLATFORM.into(),
            chat_id: Some(chat.id.to_string().into()),
            chat_type: match self.bot.setting("forum_chat_type") {
                Some(word) if is_forum => word.to_owned(),
                _ => chat_type.to_owned(),
            },
            chat_name,
            user_id: user_id.map(|id| id.to_string().into()),
            user_name,
            // Plain replies carry a thread id too, but it is not a topic and cannot be written to.
            thread_id: match message.message_thread_id {
                Some(thread) if is_forum || (message.is_topic_message && chat_type != "channel") => {
                    Some(thread.to_string().into())
                }
                None if is_forum => Some(GENERAL_TOPIC.into()),
                _ => None,
            },
            message_id: Some(id(message.message_id)),
            ..Source::default()
        })
    }

    fn quoted(&self, message: &TelegramMessage<'_>, replied: Option<&RepliedMessage<'_>>) -> Option<Quoted> {
        // A quote that the person selected takes precedence over the whole message.
        let text = message.quote.as_ref().map(|quote| &quote.text);
        let text = text.or_else(|| replied.and_then(|to| to.text.as_ref().or(to.caption.as_ref())));
        let quoted = Quoted {
            text: text.map(|text| text.to_string()),
            author: replied.and_then(|to| to.from.as_ref()).and_then(User::name),
            is_own: replied.map(|to| self.is_ours(to)),
        };
        (quoted != Quoted::default()).then_some(quoted)
    }

    fn is_ours(&self, replied: &RepliedMessage<'_>) -> bool {
        replied.from.as_ref().is_some_and(|author| Some(author.id) == self.account.id)
    }

    fn dedup(&self) -> DedupKey {
        [PLATFORM, ":", self.bot.id.as_str(), ":", &self.update_id.to_string()].concat().into()
    }
}

fn id(number: i64) -> MessageId {
    number.to_string().into()
}

/// Whether the reply is only formal: in a topic, every message that is not a reply refers to the message that created
/// the topic.
fn is_topic_root(message: &TelegramMessage<'_>, replied: &RepliedMessage<'_>) -> bool {
    replied.forum_topic_created.is_some() && message.message_thread_id == Some(replied.message_id)
}

/// The business connection as a capability. It acts for a person's own account, so the agent must not see it.
fn business(message: &TelegramMessage<'_>) -> Vec<CapturedCapability> {
    let connection = message.business_connection_id.as_ref().map(|id| CapturedCapability {
        kind: BUSINESS_CONNECTION.into(),
        value: Secret::new(&**id),
        lifetime: None,
        uses: Uses::Many,
    });
    connection.into_iter().collect()
}

/// A short text for content that is neither text nor a file.
fn bracketed(message: &TelegramMessage<'_>) -> Option<String> {
    if let Some(venue) = &message.venue {
        let place = &venue.location;
        let name = format!("{}, {}", &*venue.title, &*venue.address);
        return Some(location_text(Some(&name), place.latitude, place.longitude));
    }
    if let Some(place) = &message.location {
        return Some(location_text(None, place.latitude, place.longitude));
    }
    if let Some(contact) = &message.contact {
        let name = full_name(Some(&contact.first_name), contact.last_name.as_ref()).unwrap_or_default();
        return Some(format!("[contact: {name}, {}]", &*contact.phone_number));
    }
    if let Some(poll) = &message.poll {
        return Some(format!("[poll: {}]", &*poll.question));
    }
    message.dice.as_ref().map(|dice| format!("[dice {}: {}]", &*dice.emoji, dice.value))
}

/// A group that became a supergroup. Telegram reports it in both chats; either report is enough.
fn moved(message: &TelegramMessage<'_>) -> Option<Moved> {
    let here = message.chat.id;
    let (from, to) = match (message.migrate_to_chat_id, message.migrate_from_chat_id) {
        (Some(to), _) => (here, to),
        (None, Some(from)) => (from, here),
        (None, None) => return None,
    };
    Some(Moved { from: from.to_string().into(), to: to.to_string().into() })
}

/// A topic that got a new name. An edit of its icon alone has none.
fn renamed(message: &TelegramMessage<'_>) -> Option<RenamedThread> {
    let name = message.forum_topic_edited.as_ref()?.name.as_ref()?;
    Some(RenamedThread {
        chat: message.chat.id.to_string().into(),
        thread: message.message_thread_id?.to_string().into(),
        name: name.to_string(),
    })
}

#[cfg(test)]
mod tests;
