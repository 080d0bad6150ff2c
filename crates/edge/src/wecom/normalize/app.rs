//! Callbacks of applications (XML).

use std::time::Duration;

use ledger::Uses;
use posthouse_wire::event::Media;
use posthouse_wire::{DedupKey, Event, MessageType, PromptToken, Secret, Source};
use vault::CapturedCapability;

use super::{id, kind_of_text};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, PlatformResponse, Reading, VerifiedRequest, location_text};
use crate::wecom::media::APP_REFERENCE;
use crate::wecom::xml::XmlFields;
use crate::wecom::{AGENT, CORP, RESPONSE_CODE};

/// A response code can be used for three days.
const CODE_LIFETIME: Duration = Duration::from_secs(259_200);
/// The answer that WeCom expects. Messages go by the API, also those to strangers.
const TAKEN: &str = "success";

pub(in crate::wecom) fn app(bot: &OpenedBot, verified: &VerifiedRequest) -> Reading {
    let reply = PlatformResponse::text(TAKEN);
    let fields = std::str::from_utf8(&verified.body).ok().and_then(XmlFields::read);
    match fields.as_ref().ok_or("unreadable").and_then(|fields| arrival(bot, verified, fields)) {
        Ok(arrival) => Reading { arrivals: vec![arrival], reply, ..Reading::default() },
        Err(reason) => Reading { reply, ..Reading::ignored(reason) },
    }
}

/// The arrival of a callback, or the reason why it is no turn.
fn arrival(bot: &OpenedBot, verified: &VerifiedRequest, fields: &XmlFields) -> Result<Arrival, &'static str> {
    let corp = fields.get("ToUserName").and_then(id).ok_or("unreadable")?;
    // The application of a service provider gets callbacks of many companies. A bot is that of one.
    if bot.setting(CORP).is_some_and(|own| own != corp) {
        return Err("other_corp");
    }
    if let (Some(own), Some(agent)) = (bot.setting(AGENT), fields.get("AgentID"))
        && own != agent
    {
        return Err("other_app");
    }
    let said = said(corp, fields)?;
    let user = fields.get("FromUserName").and_then(id).ok_or("no_sender")?;
    let key = message_key(fields, user)?;
    // Two events of one second have the same id, but not the same key.
    let dedup: DedupKey = [
        "wecom_callback:",
        bot.id.as_str(),
        ":",
        &key,
        fields.get("MsgId").map_or(said.text.as_str(), |_| ""),
    ]
    .concat()
    .into();
    let source = Source {
        platform: "wecom_callback".into(),
        chat_id: Some(format!("{corp}:{user}").as_str().into()),
        chat_type: "dm".to_owned(),
        chat_name: Some(user.to_owned()),
        user_id: Some(user.into()),
        user_name: Some(user.to_owned()),
        message_id: Some(key.as_str().into()),
        ..Source::default()
    };
    let mut event = Event {
        text: said.text,
        message_type: said.message_type,
        message_id: source.message_id.clone(),
        source,
        ..Event::default()
    };
    let references = said.file.into_iter().map(|(media, reference)| {
        event.media.push(media);
        reference
    });
    let references = references.collect();
    let press = said.is_press.then(|| PromptToken::decode(&event.text)).flatten();
    if press.is_some() {
        // A prompt is found by its card.
        event.reply_to_message_id = fields.get("TaskId").and_then(id).map(Into::into);
    }
    let code = fields.get("ResponseCode").map(|code| CapturedCapability {
        kind: RESPONSE_CODE.into(),
        value: Secret::new(code),
        lifetime: Some(CODE_LIFETIME),
        uses: Uses::Left(1),
    });
    Ok(Arrival {
        addressed: true,
        references,
        press,
        capabilities: code.into_iter().collect(),
        ..Arrival::new(event, dedup, verified.received)
    })
}

/// The id of a message. An event has none, so that its sender and its second stand for it.
fn message_key(fields: &XmlFields, user: &str) -> Result<String, &'static str> {
    match (fields.get("MsgId").and_then(id), fields.get("CreateTime").and_then(id)) {
        (Some(message), _) => Ok(message.to_owned()),
        (None, Some(second)) => Ok(format!("{user}:{second}")),
        (None, None) => Err("unreadable"),
    }
}

struct AppWords {
    text: String,
    message_type: MessageType,
    file: Option<(Media, String)>,
    is_press: bool,
}

impl AppWords {
    fn text(text: String, message_type: MessageType) -> Self {
        Self { text, message_type, file: None, is_press: false }
    }
}

/// What a callback says to the agent.
fn said(corp: &str, fields: &XmlFields) -> Result<AppWords, &'static str> {
    let kind = fields.get("MsgType").ok_or("unreadable")?;
    let (message_type, kind, mime) = match kind {
        "text" => {
            let text = fields.get("Content").filter(|text| !text.trim().is_empty()).ok_or("empty")?;
            return Ok(AppWords::text(text.to_owned(), kind_of_text(text)));
        }
        "event" => return pressed(fields),
        "location" => {
            let number = |name| fields.get(name)?.trim().parse::<f64>().ok().filter(|at| at.is_finite());
            let (latitude, longitude) = number("Location_X").zip(number("Location_Y")).ok_or("unreadable")?;
            let text = location_text(fields.get("Label"), latitude, longitude);
            return Ok(AppWords::text(text, MessageType::Location));
        }
        "link" => {
            let parts = ["Title", "Description", "Url"].map(|name| fields.get(name).unwrap_or_default());
            let text = parts.join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
            return Ok(AppWords::text(format!("[link: {text}]"), MessageType::Text));
        }
        "image" => (MessageType::Photo, "photo", Some("image/jpeg")),
        "voice" => (MessageType::Voice, "voice", Some("audio/amr")),
        "video" | "shortvideo" => (MessageType::Video, "video", Some("video/mp4")),
        "file" => (MessageType::Document, "document", None),
        _ => return Err("unsupported"),
    };
    let media = fields.get("MediaId").and_then(id).ok_or("unreadable")?;
    let reference = format!("{APP_REFERENCE}{corp}/{media}");
    let media = Media {
        kind: kind.to_owned(),
        mime: mime.map(str::to_owned),
        filename: fields.get("FileName").map(str::to_owned),
        ..Media::default()
    };
    Ok(AppWords { text: String::new(), message_type, file: Some((media, reference)), is_press: false })
}

/// A click in the menu, or on a button of a card.
fn pressed(fields: &XmlFields) -> Result<AppWords, &'static str> {
    match fields.get("Event").ok_or("unreadable")? {
        "click" | "template_card_event" | "template_card_menu_event" => {
            let key = fields.get("EventKey").ok_or("empty")?;
            Ok(AppWords { is_press: true, ..AppWords::text(key.to_owned(), MessageType::Text) })
        }
        _ => Err("lifecycle"),
    }
}
