//! Normalization of Twilio's webhook calls: messages of people as events, delivery states as log lines.

use ledger::PersonIds;
use posthouse_wire::event::{Media, Quoted};
use posthouse_wire::{DedupKey, Event, MessageType, PromptToken, Source};

use super::media::MEDIA_REFERENCE;
use super::verify::is_form;
use super::{ACCOUNT, TwilioChannel, own_address};
use crate::bots::OpenedBot;
use crate::platform::{Arrival, PlatformResponse, Reading, VerifiedRequest, WebhookRefusal, location_text};
use crate::verification::{form_fields, single_field};

/// Most files of one message that are read. Twilio allows ten.
const MOST_FILES: usize = 10;
/// Fields that decide about a message. One that is repeated could be read in two ways.
const DECIDING: [&str; 8] =
    ["MessageSid", "AccountSid", "From", "To", "Body", "WaId", "ExternalUserIdentifier", "NumMedia"];

pub(super) fn normalize(
    channel: TwilioChannel,
    bot: &OpenedBot,
    verified: &VerifiedRequest,
) -> Result<Reading, WebhookRefusal> {
    // An empty answer: replies are sent by calls of the API.
    let reply =
        PlatformResponse { content_type: Some("text/xml"), ..PlatformResponse::text(&b"<Response/>"[..]) };
    if !is_form(&verified.headers) {
        return Ok(Reading { reply, ..Reading::ignored("other_event") });
    }
    let fields = TwilioForm::read(&verified.body)?;
    let reading = match arrival(channel, bot, verified, &fields) {
        Ok(arrival) => Reading { arrivals: vec![arrival], ..Reading::default() },
        Err(reason) => Reading::ignored(reason),
    };
    Ok(Reading { reply, ..reading })
}

/// The fields of a call.
struct TwilioForm(Vec<(String, String)>);

impl TwilioForm {
    fn read(body: &[u8]) -> Result<Self, WebhookRefusal> {
        let fields = form_fields(body);
        let is_repeated = |name: &&str| fields.iter().filter(|(field, _)| field == *name).count() > 1;
        match DECIDING.iter().any(is_repeated) {
            true => Err(WebhookRefusal::malformed("malformed_body")),
            false => Ok(Self(fields)),
        }
    }

    /// A field with content.
    fn get(&self, name: &str) -> Option<&str> {
        single_field(&self.0, name).map(str::trim).filter(|value| !value.is_empty())
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(field, _)| field == name)
    }
}

fn arrival(
    channel: TwilioChannel,
    bot: &OpenedBot,
    verified: &VerifiedRequest,
    fields: &TwilioForm,
) -> Result<Arrival, &'static str> {
    // The auth token signs for all numbers of the account, which may belong to bots of other tenants.
    let account = fields.get("AccountSid").filter(|account| Some(*account) == bot.setting(ACCOUNT));
    let account = account.ok_or("other_account")?;
    if !fields.has("Body") && (fields.has("MessageStatus") || fields.has("SmsStatus")) {
        return Err(read_status(bot, fields));
    }
    let sid = fields.get("MessageSid").ok_or("unreadable")?;
    let (from, to) = (fields.get("From").ok_or("no_sender")?, fields.get("To").ok_or("unreadable")?);
    let own = own_address(channel, bot);
    if Some(from) == own.as_deref() {
        return Err("self");
    }
    if Some(to) != own.as_deref() {
        return Err("other_number");
    }
    if fields.has("OptOutType") {
        return Err("opt_out");
    }
    let person = sender(channel, from, fields)?;
    let files = files(account, sid, fields);
    let pressed = fields.get("ButtonPayload");
    let text = pressed.or_else(|| fields.get("Body")).unwrap_or_default().to_owned();
    let (text, message_type) = match (files.first(), place(fields)) {
        (Some(file), _) => (text, file.message_type),
        (None, Some(place)) if text.is_empty() => (place, MessageType::Location),
        (None, _) if text.is_empty() => return Err("empty"),
        (None, _) if text.starts_with('/') && pressed.is_none() => (text, MessageType::Command),
        (None, _) => (text, MessageType::Text),
    };
    let chat = person.shown.as_ref().or(person.lasting.as_ref()).ok_or("no_sender")?.clone();
    let name = match channel {
        TwilioChannel::Sms => Some(chat.to_string()),
        TwilioChannel::WhatsApp => fields.get("ProfileName").map(str::to_owned),
    };
    let source = Source {
        platform: channel.platform().into(),
        chat_id: Some(chat.as_str().into()),
        chat_type: "dm".to_owned(),
        chat_name: name.clone(),
        user_id: Some(chat),
        user_name: name,
        user_id_alt: person.lasting.clone(),
        message_id: Some(sid.into()),
        ..Source::default()
    };
    let replied = fields.get("OriginalRepliedMessageSid");
    let event = Event {
        text,
        message_type,
        message_id: source.message_id.clone(),
        reply_to_message_id: replied.map(Into::into),
        reply_to: replied.map(|_| Quoted::default()),
        media: files.iter().map(|file| file.media.clone()).collect(),
        source,
        ..Event::default()
    };
    let key: DedupKey = [channel.platform(), ":", bot.id.as_str(), ":", sid].concat().into();
    Ok(Arrival {
        addressed: true,
        references: files.into_iter().map(|file| file.reference).collect(),
        press: pressed.and_then(PromptToken::decode),
        person: person.lasting.is_some().then_some(person),
        ..Arrival::new(event, key, verified.received)
    })
}

/// Reports a message that was not delivered. Other states say nothing that an agent needs.
fn read_status(bot: &OpenedBot, fields: &TwilioForm) -> &'static str {
    match fields.get("MessageStatus").or_else(|| fields.get("SmsStatus")) {
        Some("failed" | "undelivered") => {
            // Only a number: the log must not hold what somebody wrote.
            let code: u32 = fields.get("ErrorCode").and_then(|code| code.parse().ok()).unwrap_or_default();
            tracing::warn!(bot.id = %bot.id, code, "Twilio accepted a message of a bot and could not deliver it");
            "status_failed"
        }
        _ => "status",
    }
}

/// The ids of the sender. On WhatsApp the number may be hidden.
fn sender(channel: TwilioChannel, from: &str, fields: &TwilioForm) -> Result<PersonIds, &'static str> {
    match (channel, from.strip_prefix("whatsapp:")) {
        (TwilioChannel::Sms, None) => Ok(PersonIds { lasting: None, shown: Some(from.into()) }),
        (TwilioChannel::WhatsApp, Some(address)) => {
            let number = fields.get("WaId").or_else(|| address.strip_prefix('+'));
            let number = number.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
            let hidden = Some(address).filter(|_| number.is_none());
            let lasting = fields.get("ExternalUserIdentifier").or(hidden);
            Ok(PersonIds { lasting: lasting.map(Into::into), shown: number.map(Into::into) })
        }
        _ => Err("other_channel"),
    }
}

/// A file of a message.
struct TwilioAttachment {
    message_type: MessageType,
    media: Media,
    reference: String,
}

/// The files of a message. Their URLs need the account's credentials, so none is copied.
fn files(account: &str, sid: &str, fields: &TwilioForm) -> Vec<TwilioAttachment> {
    let count: usize = fields.get("NumMedia").and_then(|count| count.parse().ok()).unwrap_or_default();
    let file = |number: usize| {
        let url = fields.get(&format!("MediaUrl{number}"))?;
        let mime = fields.get(&format!("MediaContentType{number}"));
        let (message_type, kind) = match mime.and_then(|mime| mime.split('/').next()) {
            Some("image") => (MessageType::Photo, "photo"),
            Some("video") => (MessageType::Video, "video"),
            Some("audio") => (MessageType::Audio, "audio"),
            _ => (MessageType::Document, "document"),
        };
        let id = url.rsplit('/').next().filter(|id| !id.is_empty())?;
        Some(TwilioAttachment {
            message_type,
            media: Media { kind: kind.to_owned(), mime: mime.map(str::to_owned), ..Media::default() },
            reference: format!("{MEDIA_REFERENCE}{account}/{sid}/{id}"),
        })
    };
    (0..count.min(MOST_FILES)).filter_map(file).collect()
}

/// The text of a location that was shared on WhatsApp.
fn place(fields: &TwilioForm) -> Option<String> {
    let number = |name: &str| fields.get(name)?.parse::<f64>().ok().filter(|number| number.is_finite());
    Some(location_text(fields.get("Label"), number("Latitude")?, number("Longitude")?))
}
