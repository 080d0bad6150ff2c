//! Callbacks of AI bots (JSON), the same by webhook and over the long connection.

use std::time::Duration;

use ledger::Uses;
use posthouse_wire::event::{Media, Quoted};
use posthouse_wire::{DedupKey, Event, MessageType, PromptToken, Secret, Source};
use vault::CapturedCapability;

use super::{id, kind_of_text};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, Reading, VerifiedRequest};
use crate::wecom::bot_files::BotFile;
use crate::wecom::envelope::sealed_response;
use crate::wecom::long_connection::SOCKET_DOOR;
use crate::wecom::passive_streams::{finished_stream, new_stream_id, opened_stream};
use crate::wecom::payload::{BotCallback, CallbackFile};
use crate::wecom::{BOT, RESPONSE_URL, WeCom};

/// A response URL can be used for an hour.
const URL_LIFETIME: Duration = Duration::from_secs(3600);
/// The answer to somebody who may not write to an agent in this group. In a direct chat a stranger may get a pairing
/// code.
const NOT_FOR_YOU: &str = "You may not use this bot here.";
/// Most files of one message.
const MOST_FILES: usize = 20;

pub(in crate::wecom) fn ai_bot(wecom: &WeCom, bot: &OpenedBot, verified: &VerifiedRequest) -> Reading {
    let text = std::str::from_utf8(&verified.body).ok();
    // Only an object: serde would also fill the struct from an array.
    let text = text.filter(|text| text.trim_start().starts_with('{'));
    let Some(callback) = text.and_then(|text| serde_json::from_str::<BotCallback<'_>>(text).ok()) else {
        return Reading::ignored("unreadable");
    };
    if let (Some(own), Some(named)) = (bot.setting(BOT), callback.aibotid.as_deref())
        && own != named
    {
        return Reading::ignored("other_bot");
    }
    let sealed = |text: &str| sealed_response(bot, text, verified.received);
    if callback.msgtype.as_deref() == Some("stream") {
        // WeCom asks for more of an answer.
        let stream = callback.stream.as_ref().and_then(|stream| stream.id.as_deref()).unwrap_or_default();
        let reply = sealed(&wecom.streams.polled(&bot.id, stream)).unwrap_or_default();
        return Reading { reply, ..Reading::ignored("stream") };
    }
    let arrival = match arrival(wecom, bot, verified, &callback) {
        Ok(arrival) => arrival,
        Err(reason) => return Reading::ignored(reason),
    };
    let mut reading = Reading::default();
    let chat = arrival.event.source.chat_id.as_ref().map(|chat| chat.as_str().to_owned());
    let is_event = callback.event.is_some();
    // A callback is answered in a stream, which is open from now on. A long connection has no responses.
    if let (Some(chat), Some(stream), false) =
        (chat, new_stream_id(), verified.door == SOCKET_DOOR || is_event)
        && let Some(reply) = sealed(&opened_stream(&stream))
    {
        if callback.chattype.as_deref() == Some("group") {
            reading.reply_to_strangers = sealed(&finished_stream(&stream, NOT_FOR_YOU));
        }
        wecom.streams.open(&bot.id, &chat, stream);
        reading.reply = reply;
    }
    reading.arrivals.push(arrival);
    reading
}

/// The arrival of a callback, or the reason why it is no turn.
fn arrival(
    wecom: &WeCom,
    bot: &OpenedBot,
    verified: &VerifiedRequest,
    callback: &BotCallback<'_>,
) -> Result<Arrival, &'static str> {
    let is_group = callback.chattype.as_deref() == Some("group");
    let mut said = said(callback)?;
    let user = callback.from.as_ref().and_then(|from| from.userid.as_deref()).and_then(id);
    let user = user.ok_or("no_sender")?;
    let chat = match callback.chatid.as_deref().and_then(id) {
        Some(chat) => chat,
        None if is_group => return Err("unreadable"),
        None => user,
    };
    let message = callback.msgid.as_deref().and_then(id).ok_or("unreadable")?;
    if is_group {
        wecom.groups.insert((bot.id.clone(), chat.to_owned()), ());
        said.text = without_mention(bot, &said.text).to_owned();
    }
    let dedup: DedupKey = ["wecom:", bot.id.as_str(), ":", message].concat().into();
    let quoted = callback.quote.as_ref().map(|quote| {
        let text = quote.text.as_ref().or(quote.voice.as_ref()).and_then(|text| text.content.as_deref());
        Quoted { text: text.map(str::to_owned), ..Quoted::default() }
    });
    let message_type = match said.message_type {
        MessageType::Text => kind_of_text(&said.text),
        other => other,
    };
    let mut event = Event {
        text: said.text,
        message_type: if said.is_press { MessageType::Text } else { message_type },
        message_id: Some(message.into()),
        reply_to_message_id: quoted.as_ref().map(|_| format!("quote:{message}").as_str().into()),
        reply_to: quoted,
        source: Source {
            platform: "wecom".into(),
            chat_id: Some(chat.into()),
            chat_type: if is_group { "group" } else { "dm" }.to_owned(),
            user_id: Some(user.into()),
            user_name: Some(user.to_owned()),
            message_id: Some(message.into()),
            ..Source::default()
        },
        ..Event::default()
    };
    let mut references = Vec::new();
    for (at, (kind, mime, file)) in said.files.into_iter().take(MOST_FILES).enumerate() {
        let reference = wecom.files.keep(&bot.id, message, at, file);
        let media = Media { kind: kind.to_owned(), mime: mime.map(str::to_owned), ..Media::default() };
        event.media.push(media);
        references.push(reference);
    }
    let press = said.is_press.then(|| PromptToken::decode(&event.text)).flatten();
    if press.is_some() {
        // A prompt is found by its card.
        event.reply_to_message_id = said.card.as_deref().map(Into::into);
    }
    let url = callback.response_url.as_deref().filter(|url| !url.is_empty());
    let url = url.map(|url| CapturedCapability {
        kind: RESPONSE_URL.into(),
        value: Secret::new(url),
        lifetime: Some(URL_LIFETIME),
        uses: Uses::Left(1),
    });
    Ok(Arrival {
        // In a group, WeCom delivers only messages that mention the bot.
        addressed: true,
        references,
        press,
        capabilities: url.into_iter().collect(),
        ..Arrival::new(event, dedup, verified.received)
    })
}

struct BotWords {
    text: String,
    message_type: MessageType,
    files: Vec<(&'static str, Option<&'static str>, BotFile)>,
    is_press: bool,
    /// The id of the card whose button was pressed.
    card: Option<String>,
}

/// What a callback says to the agent.
fn said(callback: &BotCallback<'_>) -> Result<BotWords, &'static str> {
    let words = |text: Option<&str>| {
        let text = text.filter(|text| !text.trim().is_empty()).ok_or("empty")?;
        Ok(BotWords {
            text: text.to_owned(),
            message_type: MessageType::Text,
            files: Vec::new(),
            is_press: false,
            card: None,
        })
    };
    let one = |message_type, kind, mime, file: &Option<CallbackFile<'_>>| {
        let file = file.as_ref().and_then(file_of).ok_or("unreadable")?;
        let (text, files) = (String::new(), vec![(kind, mime, file)]);
        Ok(BotWords { text, message_type, files, is_press: false, card: None })
    };
    match callback.msgtype.as_deref().unwrap_or_default() {
        "text" => words(callback.text.as_ref().and_then(|text| text.content.as_deref())),
        "voice" => words(callback.voice.as_ref().and_then(|voice| voice.content.as_deref())),
        "image" => one(MessageType::Photo, "photo", Some("image/jpeg"), &callback.image),
        "file" => one(MessageType::Document, "document", None, &callback.file),
        "video" => one(MessageType::Video, "video", Some("video/mp4"), &callback.video),
        "mixed" => {
            let items = callback.mixed.as_ref().map(|mixed| &mixed.msg_item[..]).unwrap_or_default();
            let texts = items.iter().filter_map(|item| item.text.as_ref()?.content.as_deref());
            let text = texts.collect::<Vec<_>>().join("\n");
            let images = items.iter().filter_map(|item| item.image.as_ref().and_then(file_of));
            let files: Vec<_> = images.map(|file| ("photo", Some("image/jpeg"), file)).collect();
            let message_type = if files.is_empty() { MessageType::Text } else { MessageType::Photo };
            match text.trim().is_empty() && files.is_empty() {
                true => Err("empty"),
                false => Ok(BotWords { text, message_type, files, is_press: false, card: None }),
            }
        }
        "event" => {
            let event = callback.event.as_ref().ok_or("unreadable")?;
            match (event.eventtype.as_deref(), &event.template_card_event) {
                (Some("template_card_event"), Some(card)) => {
                    let id = card.task_id.as_deref().and_then(id).map(str::to_owned);
                    Ok(BotWords { is_press: true, card: id, ..words(card.event_key.as_deref())? })
                }
                _ => Err("lifecycle"),
            }
        }
        _ => Err("unsupported"),
    }
}

fn file_of(file: &CallbackFile<'_>) -> Option<BotFile> {
    let key = file.aeskey.as_deref().filter(|key| !key.is_empty());
    Some(BotFile { url: Secret::new(&**file.url.as_ref()?), key: key.map(Secret::new) })
}

/// The text without the mention of the bot before it. If nothing else is left, it stays.
fn without_mention<'t>(bot: &OpenedBot, text: &'t str) -> &'t str {
    let rest = text.trim_start().strip_prefix('@').map(|after| {
        let name = bot.setting("name").and_then(|name| after.strip_prefix(name));
        name.filter(|rest| rest.starts_with(char::is_whitespace))
            .unwrap_or_else(|| after.split_once(char::is_whitespace).map_or("", |(_, rest)| rest))
    });
    match rest.map(str::trim) {
        Some(rest) if !rest.is_empty() => rest,
        _ => text,
    }
}
